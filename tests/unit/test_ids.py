"""Ids of the machine: unique, sorted, and of the time they were made."""

from pointsman.kernel.instant import Instant
from pointsman.recording.machine import Ulids

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Hands:
    """A clock that is set by hand."""

    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> Instant:
        return Instant(self.at)


def _millis(found: str) -> int:
    number = 0
    for letter in found[:10]:
        number = number * 32 + _CROCKFORD.index(letter)
    return number


def test_ids_only_grow_also_within_a_millisecond_and_when_the_clock_goes_back() -> None:
    clock = Hands(1_700_000_000_000_000)
    ids = Ulids(clock)
    found = []
    for step in (0, 0, 100, 5_000, -3_000_000, 0, 1 << 32, 0):
        clock.at += step
        found += [ids.new_id() for _ in range(300)]
    assert found == sorted(found)
    assert len(set(found)) == len(found)
    assert {len(each) for each in found} == {26}


def test_an_id_begins_with_its_millisecond() -> None:
    for at in (0, 999, 1_700_000_000_123_456, ((1 << 20) - 1) * 1000, (1 << 20) * 1000, 1 << 50):
        assert _millis(Ulids(Hands(at)).new_id()) == at // 1000


def test_every_millisecond_begins_at_random() -> None:
    found = {Ulids(Hands(5_000)).new_id()[10:] for _ in range(200)}
    assert len(found) == 200


def test_ids_grow_on_where_a_clock_that_was_set_back_stands_for_long() -> None:
    ids = Ulids(Hands(5_000))
    first = last = ids.new_id()
    for _ in range((1 << 20) + 1):
        found = ids.new_id()
        assert found > last
        last = found
    assert len(last) == 26
    assert _millis(last) > _millis(first)
