"""Reserve, settle, release: the money of a call, once and only once."""

import threading

import pytest

from pointsman.access import budgets as module
from pointsman.access.book import Spent
from pointsman.access.budgets import LAPSED_KEPT, RESERVED_FOR, Budgets, Refused, Reservation
from pointsman.access.caps import Account, Cap, Each, Owners, Per, caps_of, is_counted, windows_at
from pointsman.access.charges import Quote, quote_call
from pointsman.kernel.instant import DAY, SECOND, Instant, read_instant
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Usage
from pointsman.turns.facts import BudgetLeft
from pointsman.turns.policy import Budget
from pointsman.turns.registry.prices import Price

NOW = read_instant("2026-03-30T12:00:00Z")
OWNERS = Owners("key", "session", "/w")
PRICE = Price(input=MicroUsd(1_000_000), output=MicroUsd(1_000_000))


class Pages:
    """A book in memory."""

    def __init__(self, *spent: Spent) -> None:
        self.spent = [*spent]

    def cost(self, account: Account) -> int:
        return sum(
            each.cost_microusd or 0
            for each in self.spent
            if is_counted(
                account, Owners(each.key_id, each.session_id, each.workspace), each.at // DAY
            )
        )

    def add(self, spent: Spent) -> None:
        self.spent.append(spent)


def costing(amount: int) -> Quote:
    return quote_call("p:m", PRICE, "prices-1", amount, 0)


def cap(limit: int, per: Per = "day", each: Each = "all") -> Cap:
    return Cap(f"{each} {per}", MicroUsd(limit), per, each)


def reserved(
    budgets: Budgets, amount: int, *caps: Cap, owners: Owners = OWNERS, now: int = NOW
) -> Reservation:
    found = budgets.reserve(owners, costing(amount), caps, Instant(now))
    assert isinstance(found, Reservation)
    return found


def refused(
    budgets: Budgets, amount: int, *caps: Cap, owners: Owners = OWNERS, now: int = NOW
) -> Refused:
    found = budgets.reserve(owners, costing(amount), caps, Instant(now))
    assert isinstance(found, Refused)
    return found


def left(budgets: Budgets, *caps: Cap, owners: Owners = OWNERS, now: int = NOW) -> list[int]:
    return [each.left_microusd for each in budgets.remaining(owners, caps, Instant(now))]


def test_what_is_reserved_is_not_left() -> None:
    budgets = Budgets(Pages())
    held = reserved(budgets, 30, cap(100))
    assert budgets.remaining(OWNERS, [cap(100)], NOW) == (BudgetLeft("all day", MicroUsd(70)),)
    budgets.settle(held, Usage(20, 0))
    assert left(budgets, cap(100)) == [80]
    assert budgets.release(reserved(budgets, 80, cap(100)))
    assert left(budgets, cap(100)) == [80]


def test_a_settlement_says_who_what_and_at_which_prices() -> None:
    book = Pages()
    budgets = Budgets(book)
    spent = budgets.settle(reserved(budgets, 30), Usage(10, 2, 3, 4))
    assert spent == Spent(
        "p:m", "key", "session", "/w", 10, 2, 3, 4, MicroUsd(19), "prices-1",
        is_estimated=True, at=NOW,
    )  # fmt: skip
    assert book.spent == [spent]


def test_usage_counted_here_is_flagged() -> None:
    budgets = Budgets(Pages())
    spent = budgets.settle(reserved(budgets, 30), Usage(10, 2), is_estimated=True)
    assert spent is not None
    assert spent.is_estimated


def test_a_call_is_charged_once() -> None:
    budgets = Budgets(Pages())
    held = reserved(budgets, 30, cap(100))
    assert budgets.settle(held, Usage(20, 0)) is not None
    assert budgets.settle(held, Usage(20, 0)) is None
    assert not budgets.release(held)
    assert left(budgets, cap(100)) == [80]
    other = reserved(budgets, 30, cap(100))
    assert budgets.release(other)
    assert not budgets.release(other)
    assert budgets.settle(other, None) is None
    assert left(budgets, cap(100)) == [80]


def test_every_budget_must_have_room_and_none_is_touched_when_one_has_not() -> None:
    budgets = Budgets(Pages())
    caps = (cap(100), cap(40, "total", "session"), cap(1000, "month", "key"))
    reserved(budgets, 30, *caps)
    found = refused(budgets, 20, *caps)
    assert (found.budget, found.left_microusd) == ("session total", 10)
    assert left(budgets, *caps) == [70, 10, 970]
    reserved(budgets, 10, *caps)
    assert left(budgets, *caps) == [60, 0, 960]


def test_owners_do_not_spend_each_others_money() -> None:
    budgets = Budgets(Pages())
    caps = (cap(50, each="key"), cap(50, each="session"), cap(50, each="workspace"))
    reserved(budgets, 30, *caps)
    assert left(budgets, *caps, owners=Owners("other", "session", "/x")) == [50, 50, 50]
    assert left(budgets, *caps, owners=Owners("key", "other", "/w")) == [20, 50, 20]


def test_a_budget_of_an_owner_that_a_call_lacks_does_not_apply() -> None:
    budgets = Budgets(Pages())
    caps = (cap(0, each="key"), cap(0, each="session"), cap(0, each="workspace"))
    assert left(budgets, *caps, owners=Owners()) == []
    reserved(budgets, 30, *caps, owners=Owners())


def test_a_refusal_says_what_is_left_and_when_it_resets() -> None:
    budgets = Budgets(Pages())
    assert refused(budgets, 2_500_000, cap(1_200_000)).message == (
        "budget all day has $1.2 left, until 2026-03-31T00:00:00.000000Z; this call may need $2.5"
    )
    assert "until 2026-04-01T00:00:00.000000Z" in refused(budgets, 9, cap(1, "month")).message
    total = refused(budgets, 9, cap(1, "total", "key"))
    assert total.resets_at is None
    assert total.message == "budget key total has $0.000001 left; this call may need $0.000009"


def test_standings_tell_the_limit_too() -> None:
    budgets = Budgets(Pages())
    (standing,) = budgets.standings(OWNERS, [cap(100, "month")], NOW)
    assert (standing.limit_microusd, standing.left_microusd) == (100, 100)
    assert standing.resets_at == read_instant("2026-04-01T00:00:00Z")


def test_a_call_of_unknown_price_is_refused_under_a_budget_and_flagged_without() -> None:
    budgets = Budgets(Pages())
    unknown = quote_call("p:m", None, "prices-1", 10, 10)
    found = budgets.reserve(OWNERS, unknown, [cap(100)], NOW)
    assert isinstance(found, Refused)
    assert found.message.endswith("what this call costs is unknown")
    held = budgets.reserve(OWNERS, unknown, [], NOW)
    assert isinstance(held, Reservation)
    spent = budgets.settle(held, Usage(5, 5))
    assert spent is not None
    assert (spent.cost_microusd, spent.input_tokens) == (None, 5)


def test_what_is_free_is_served_when_a_budget_is_overdrawn() -> None:
    budgets = Budgets(Pages())
    budgets.settle(reserved(budgets, 10, cap(10)), Usage(50, 0))
    assert left(budgets, cap(10)) == [-40]
    reserved(budgets, 0, cap(10))
    refused(budgets, 1, cap(10))


@pytest.mark.req(173)
def test_a_day_ends_at_midnight_utc_and_a_month_with_its_last_day() -> None:
    budgets = Budgets(Pages())
    caps = (cap(100), cap(100, "month"), cap(100, "total"))
    budgets.settle(reserved(budgets, 30, *caps), Usage(30, 0))
    assert left(budgets, *caps, now=read_instant("2026-03-30T23:59:59.999999Z")) == [70, 70, 70]
    assert left(budgets, *caps, now=read_instant("2026-03-31T00:00:00Z")) == [100, 70, 70]
    assert left(budgets, *caps, now=read_instant("2026-04-01T00:00:00Z")) == [100, 100, 70]


def test_a_call_over_midnight_belongs_to_the_day_it_was_reserved_on() -> None:
    book = Pages()
    budgets = Budgets(book)
    late = read_instant("2026-03-30T23:59:00Z")
    held = reserved(budgets, 30, cap(100), now=late)
    after = late + 120 * SECOND
    assert left(budgets, cap(100), now=after) == [100]
    budgets.settle(held, Usage(30, 0))
    assert left(budgets, cap(100), now=after) == [100]
    assert book.spent[0].at == late


def test_a_clock_set_back_brings_no_budget_back() -> None:
    budgets = Budgets(Pages())
    budgets.settle(reserved(budgets, 90, cap(100)), Usage(90, 0))
    refused(budgets, 30, cap(100), now=NOW - DAY)


def test_a_forgotten_reservation_lapses_and_is_still_charged_if_the_call_ends() -> None:
    budgets = Budgets(Pages())
    held = reserved(budgets, 90, cap(100, "month"))
    assert left(budgets, cap(100, "month"), now=NOW + RESERVED_FOR - 1) == [10]
    assert left(budgets, cap(100, "month"), now=NOW + RESERVED_FOR) == [100]
    assert budgets.settle(held, Usage(50, 0)) is not None
    assert budgets.settle(held, Usage(50, 0)) is None
    assert left(budgets, cap(100, "month"), now=NOW + RESERVED_FOR) == [50]


def test_a_lapsed_reservation_is_forgotten_after_a_day() -> None:
    budgets = Budgets(Pages())
    held = reserved(budgets, 90, cap(100, "month"))
    assert left(budgets, cap(100, "month"), now=NOW + RESERVED_FOR) == [100]
    left(budgets, now=NOW + LAPSED_KEPT)
    assert budgets.settle(held, Usage(50, 0)) is None


def test_what_was_spent_before_counts() -> None:
    before = Spent(
        "p:m", "key", "session", "/w", 1, 1, 0, 0, MicroUsd(25), "v", is_estimated=False, at=NOW
    )
    budgets = Budgets(Pages(before))
    caps = (cap(100), cap(100, each="key"), cap(100, each="session"), cap(100, each="workspace"))
    assert left(budgets, *caps) == [75] * 4
    assert budgets.amount_spent(OWNERS, "all", "day", NOW) == 25


def test_a_budget_set_while_calls_run_counts_them() -> None:
    budgets = Budgets(Pages())
    held, lapsed = reserved(budgets, 30), reserved(budgets, 7, now=NOW)
    budgets.settle(reserved(budgets, 5), Usage(5, 0))
    assert left(budgets, cap(100, "month")) == [58]
    budgets.settle(held, Usage(10, 0))
    assert left(budgets, cap(100, "month"), now=NOW + RESERVED_FOR) == [85]
    assert left(budgets, cap(100, "total"), now=NOW + RESERVED_FOR) == [85]
    budgets.settle(lapsed, Usage(7, 0))
    assert left(budgets, cap(100, "month"), cap(100, "total"), now=NOW + RESERVED_FOR) == [78, 78]


def test_idle_accounts_are_forgotten_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ACCOUNTS", 8)
    budgets = Budgets(Pages())
    session_cap = cap(100, "total", "session")
    busy = reserved(budgets, 40, session_cap, owners=Owners("key", "busy"))
    for number in range(50):
        owners = Owners("key", f"s{number}")
        budgets.settle(reserved(budgets, 30, session_cap, owners=owners), Usage(30, 0))
    assert len(budgets._accounts) <= 8
    assert all(
        left(budgets, session_cap, owners=Owners("key", f"s{number}")) == [70]
        for number in range(50)
    )
    assert left(budgets, session_cap, owners=Owners("key", "busy")) == [60]
    budgets.settle(busy, Usage(10, 0))
    assert left(budgets, session_cap, owners=Owners("key", "busy")) == [90]


def test_eight_at_once_are_admitted_only_as_far_as_the_money_goes() -> None:
    for _ in range(50):
        budgets, barrier = Budgets(Pages()), threading.Barrier(8)
        found: list[Reservation | Refused] = []

        def call(budgets: Budgets, barrier: threading.Barrier, found: list[object]) -> None:
            barrier.wait()
            found.append(budgets.reserve(OWNERS, costing(30), [cap(100)], NOW))

        threads = [threading.Thread(target=call, args=(budgets, barrier, found)) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sum(isinstance(each, Reservation) for each in found) == 3
        assert left(budgets, cap(100)) == [10]


def test_the_policys_budgets_are_caps_over_everything() -> None:
    assert caps_of([Budget("day", MicroUsd(5), "day")]) == (Cap("day", MicroUsd(5), "day", "all"),)


@pytest.mark.parametrize(
    ("at", "first", "end"),
    [
        ("2026-12-31T23:59:59Z", "2026-12-01", "2027-01-01"),
        ("2028-02-29T00:00:00Z", "2028-02-01", "2028-03-01"),
        ("1970-01-01T00:00:00Z", "1970-01-01", "1970-02-01"),
    ],
)
def test_months_are_calendar_months(at: str, first: str, end: str) -> None:
    windows = windows_at(read_instant(at))
    assert windows.month_first * DAY == read_instant(f"{first}T00:00:00Z")
    assert windows.month_end * DAY == read_instant(f"{end}T00:00:00Z")
