"""A limit a minute: it fills steadily, never past its size, and never by a clock set back."""

from hypothesis import given
from hypothesis import strategies as st

from pointsman.kernel.instant import SECOND, Instant
from pointsman.recording.rates import MINUTE, count_left, free_at, full, refill, take

NOW = Instant(1_000 * SECOND)


def test_as_many_as_the_limit_may_come_at_once_and_then_one_by_one():
    bucket = full(60, NOW)
    for _ in range(60):
        assert free_at(bucket, NOW) == NOW
        bucket = take(bucket, 1, NOW)
    assert count_left(bucket, NOW) == 0
    assert free_at(bucket, NOW) == NOW + SECOND
    assert count_left(bucket, Instant(NOW + SECOND)) == 1
    assert count_left(bucket, Instant(NOW + 10 * MINUTE)) == 60


def test_what_was_taken_too_much_is_paid_off_first():
    bucket = take(full(6, NOW), 9, NOW)
    assert count_left(bucket, NOW) == -3
    assert free_at(bucket, NOW) == NOW + 40 * SECOND


def test_what_is_given_back_does_not_overflow():
    assert count_left(take(full(5, NOW), -100, NOW), NOW) == 5


def test_a_clock_set_back_fills_nothing():
    bucket = take(full(5, NOW), 5, NOW)
    assert count_left(bucket, Instant(0)) == 0
    assert refill(bucket, Instant(0)).at == NOW


@given(
    per_minute=st.integers(1, 10**9),
    steps=st.lists(st.tuples(st.integers(0, 2 * MINUTE), st.integers(0, 10**6))),
)
def test_over_any_time_no_more_is_free_than_the_limit_allows(per_minute, steps):
    bucket, now, taken_in_all = full(per_minute, NOW), NOW, 0
    for passed, amount in steps:
        now = Instant(now + passed)
        if count_left(bucket, now) >= amount:
            bucket = take(bucket, amount, now)
            taken_in_all += amount
    assert taken_in_all * MINUTE <= per_minute * (MINUTE + now - NOW)
    assert count_left(bucket, free_at(bucket, now)) >= 1
