"""Money under any order of calls: nothing is overspent, every sum is exact, nothing is a float."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from pointsman.access.book import SPENT_FORM, Spent
from pointsman.access.budgets import RESERVED_FOR, Budgets, Refused, Reservation
from pointsman.access.caps import Account, Cap, Owners, account_of, is_counted, windows_at
from pointsman.access.charges import Tokens, charge_call, quote_call
from pointsman.kernel.instant import DAY, Instant, read_instant
from pointsman.kernel.number import MicroUsd, divide
from pointsman.providers.messages import Usage
from pointsman.turns.registry.prices import Price

START = read_instant("2026-03-30T00:00:00Z")
PRICE = Price(input=MicroUsd(1_000_000), output=MicroUsd(1_000_000))
CAPS = (
    Cap("day", MicroUsd(150), "day"),
    Cap("month", MicroUsd(400), "month"),
    Cap("session", MicroUsd(90), "total", "session"),
    Cap("key", MicroUsd(120), "day", "key"),
    Cap("workspace", MicroUsd(200), "total", "workspace"),
)
OWNERS = [
    Owners(key, session, place) for key in "ab" for session in ("", "s") for place in ("", "/w")
]


class Reserve(Struct, frozen=True):
    """Ask for money."""

    owners: Owners
    amount: int
    caps: tuple[Cap, ...]


class Settle(Struct, frozen=True):
    """End one of the calls with a share, in hundredths, of what was reserved; None is unknown."""

    which: int
    share: int | None


class Release(Struct, frozen=True):
    """Give up one of the calls."""

    which: int


class Wait(Struct, frozen=True):
    """Let time pass, or be set back."""

    time: int


STEPS = st.lists(
    st.one_of(
        st.builds(
            Reserve,
            st.sampled_from(OWNERS),
            st.integers(0, 80),
            st.lists(st.sampled_from(CAPS), unique_by=lambda cap: cap.name).map(tuple),
        ),
        st.builds(Settle, st.integers(0, 9), st.none() | st.integers(0, 100)),
        st.builds(Release, st.integers(0, 9)),
        st.builds(Wait, st.sampled_from([-DAY, 1, RESERVED_FOR // 2, RESERVED_FOR, DAY])),
    ),
    max_size=60,
)


class Model:
    """The same machine, written as slowly and plainly as possible."""

    def __init__(self) -> None:
        self.now = START
        self.open: dict[int, Reservation] = {}
        self.spent: list[Spent] = []

    def cost(self, account: Account) -> int:
        return sum(
            each.cost_microusd or 0
            for each in self.spent
            if is_counted(account, owners_of(each), each.at // DAY)
        )

    def add(self, spent: Spent) -> None:
        self.spent.append(spent)

    def reserved(self, account: Account) -> int:
        return sum(
            each.quote.amount_microusd or 0
            for each in self.open.values()
            if self.now - each.at < RESERVED_FOR
            and is_counted(account, each.owners, each.at // DAY)
        )

    def left(self, cap: Cap, owners: Owners) -> int | None:
        account = account_of(cap, owners, windows_at(self.now))
        if account is None:
            return None
        return cap.limit_microusd - self.cost(account) - self.reserved(account)


def owners_of(spent: Spent) -> Owners:
    return Owners(spent.key_id, spent.session_id, spent.workspace)


def run(budgets: Budgets, model: Model, step: object, made: list[Reservation]) -> None:
    match step:
        case Reserve(owners, amount, caps):
            lefts = [left for cap in caps if (left := model.left(cap, owners)) is not None]
            quote = quote_call("p:m", PRICE, "v1", amount, 0)
            found = budgets.reserve(owners, quote, caps, model.now)
            fits = amount == 0 or all(amount <= left for left in lefts)
            assert isinstance(found, Reservation if fits else Refused)
            if isinstance(found, Reservation):
                made.append(found)
                model.open[found.number] = found
        case Settle(which, share) if which < len(made):
            amount = made[which].quote.amount_microusd or 0
            usage = None if share is None else Usage(amount * share // 100, 0)
            is_open = model.open.pop(made[which].number, None) is not None
            assert (budgets.settle(made[which], usage) is not None) == is_open
        case Release(which) if which < len(made):
            is_open = model.open.pop(made[which].number, None) is not None
            assert budgets.release(made[which]) == is_open
        case Wait(time):
            model.now = Instant(max(model.now, model.now + time))
            budgets.remaining(Owners(), (), model.now)
            model.open = {
                number: each for number, each in model.open.items() if model.now - each.at < DAY
            }


@settings(max_examples=400, derandomize=True, deadline=None)
@given(STEPS)
def test_the_machine_admits_exactly_what_fits(steps: list[object]) -> None:
    model = Model()
    budgets, made = Budgets(model), []
    for step in steps:
        run(budgets, model, step, made)
        for owners in OWNERS:
            lefts = [left for cap in CAPS if (left := model.left(cap, owners)) is not None]
            found = [each.left_microusd for each in budgets.remaining(owners, CAPS, model.now)]
            assert found == lefts


@settings(max_examples=400, derandomize=True, deadline=None)
@given(STEPS)
def test_a_budget_that_always_applies_is_never_overspent(steps: list[object]) -> None:
    model = Model()
    budgets, made = Budgets(model), []
    for step in steps:
        always = Reserve(step.owners, step.amount, CAPS) if isinstance(step, Reserve) else step
        if isinstance(always, Settle) and made[always.which : always.which + 1]:
            held = made[always.which]
            # A call that comes back after its reservation lapsed is charged all the same.
            if model.now - held.at >= RESERVED_FOR:
                continue
        run(budgets, model, always, made)
        for owners in OWNERS:
            assert all(
                each.left_microusd >= 0 for each in budgets.remaining(owners, CAPS, model.now)
            )
    for spent in model.spent:
        assert type(spent.cost_microusd) is int
        assert SPENT_FORM.decode(SPENT_FORM.encode(spent)) == spent


COUNTS = st.integers(0, 2_000_000)
RATES = st.integers(0, 200_000_000).map(MicroUsd)


@settings(max_examples=500, derandomize=True, deadline=None)
@given(
    st.builds(Price, RATES, RATES, st.none() | RATES, st.none() | RATES),
    st.builds(Tokens, COUNTS, COUNTS, COUNTS, COUNTS),
)
def test_a_cost_is_the_exact_sum_rounded_once(price: Price, tokens: Tokens) -> None:
    quote = quote_call("p:m", price, "v1", 10_000_000, 10_000_000)
    usage = Usage(
        tokens.input_tokens,
        tokens.output_tokens,
        tokens.cached_input_tokens,
        tokens.cache_creation_input_tokens,
    )
    charge = charge_call(quote, usage)
    assert type(charge.cost_microusd) is int
    cached = price.input if price.cached_input is None else price.cached_input
    written = price.input if price.cache_write is None else price.cache_write
    assert price.input is not None
    assert price.output is not None
    assert cached is not None
    assert written is not None
    exact = tokens.input_tokens * price.input + tokens.output_tokens * price.output
    exact += tokens.cached_input_tokens * cached + tokens.cache_creation_input_tokens * written
    if charge.tokens == tokens:
        assert charge.cost_microusd == divide(exact, 1_000_000)
    else:
        assert charge.cost_microusd == quote.amount_microusd
        assert charge.is_estimated
