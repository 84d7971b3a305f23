"""Bulk backtest: every turn of a range decided again under another policy."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pointsman.audit.backtest.backtester import HomeBacktester
from pointsman.audit.backtest.result import BacktestPart, backtest_value, sum_parts
from pointsman.audit.ranges import RANGE, Range
from pointsman.audit.replay import ledger_ranges
from pointsman.bulk.work import Conclusion, Work, value_of
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.storage.home import Home
from pointsman.turns.policy import POLICY_FORM, TurnPolicy

LISTED_IN_PART = 100
"""A part lists so many turns that change; how many there are is counted all the same."""


class BacktestGiven(Struct, frozen=True):
    """The other policy, as its canonical text, and which turns."""

    policy: str
    since: Instant = EPOCH
    previews: bool = True
    length: int = RANGE


def backtest_given(policy: TurnPolicy, since: Instant, *, previews: bool) -> BacktestGiven:
    """Write down a policy that is not in force."""
    return BacktestGiven(POLICY_FORM.form.encode(policy).decode(), since, previews)


class _Backtesting:
    def __init__(self, home: Home, given: BacktestGiven) -> None:
        self._again = HomeBacktester(home, _policy(given), previews=given.previews)
        self._since = given.since

    def part(self, each: Range) -> BacktestPart:
        return self._again.tally_range(each, self._since, LISTED_IN_PART)

    def close(self) -> None:
        self._again.close()


def _policy(given: BacktestGiven) -> TurnPolicy:
    return POLICY_FORM.form.decode(given.policy.encode())


def _concluded(_home: Home, given: BacktestGiven, parts: Sequence[BacktestPart]) -> Conclusion:
    found = sum_parts(_policy(given), parts)
    told = f"{found.turns} turns decided again, {found.changed_count} change model"
    return Conclusion(True, told, value_of(backtest_value(found)))  # noqa: FBT003 - a change is no fault


BACKTEST = Work(
    "backtest",
    (BacktestGiven, BacktestPart),
    lambda home, given: ledger_ranges(home, given.length),
    _Backtesting,
    _concluded,
)
