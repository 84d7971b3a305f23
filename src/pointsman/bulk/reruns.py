"""Bulk replay and backtest: every decision of a range run again, as recorded or under a policy."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw, Struct

from pointsman.audit.backtest.backtester import BacktestCase, HomeBacktester
from pointsman.audit.backtest.result import BacktestPart, backtest_value, sum_parts
from pointsman.audit.ranges import RANGE, Range
from pointsman.audit.replay import MOST_SHOWN, HomeReplayer, ledger_ranges
from pointsman.bulk.work import BulkKind, BulkResult, value_of
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.storage.home import Home
from pointsman.turns.policy import POLICY_FORM, TurnPolicy

LISTED_IN_PART = 100
"""A part lists so many turns that change; all of them are counted."""


class ReplayGiven(Struct, frozen=True):
    """The decisions to replay: those since an instant."""

    since: Instant = EPOCH
    length: int = RANGE


class ReplayPart(Struct, frozen=True):
    """A replay report whose decisions stay the JSON they were written as."""

    identical: int
    diverged: int
    unable: int
    others: tuple[Raw, ...]


class _ReplayWorker:
    def __init__(self, home: Home, given: ReplayGiven) -> None:
        self._replayer, self._since = HomeReplayer(home), given.since

    def part(self, each: Range) -> ReplayPart:
        report = self._replayer.report(each, self._since)
        others = tuple(value_of(other) for other in report.others)
        return ReplayPart(report.identical, report.diverged, report.unable, others)

    def close(self) -> None:
        self._replayer.close()


def _conclude_replay(_home: Home, _given: ReplayGiven, parts: Sequence[ReplayPart]) -> BulkResult:
    identical, diverged = sum(p.identical for p in parts), sum(p.diverged for p in parts)
    unable = sum(part.unable for part in parts)
    total = identical + diverged + unable
    value = {
        "total": total,
        "identical": identical,
        "diverged": diverged,
        "unable": unable,
        "others": [other for part in parts for other in part.others][:MOST_SHOWN],
    }
    told = f"{identical} of {total} decisions identical"
    return BulkResult(identical == total, told, value_of(value))


REPLAY = BulkKind(
    "replay",
    (ReplayGiven, ReplayPart),
    lambda home, given: ledger_ranges(home, given.length),
    _ReplayWorker,
    _conclude_replay,
)


class BacktestGiven(Struct, frozen=True):
    """The other policy, as its canonical text, and the turns to decide again."""

    policy: str
    since: Instant = EPOCH
    previews: bool = True
    length: int = RANGE


def backtest_given(policy: TurnPolicy, since: Instant, *, previews: bool) -> BacktestGiven:
    """Write down a policy that is not in force."""
    return BacktestGiven(POLICY_FORM.form.encode(policy).decode(), since, previews)


class _BacktestWorker:
    def __init__(self, home: Home, given: BacktestGiven) -> None:
        cases = [BacktestCase(_policy(given))]
        self._backtester = HomeBacktester(home, cases, previews=given.previews)
        self._since = given.since

    def part(self, each: Range) -> BacktestPart:
        (found,) = self._backtester.tally_range(each, self._since, LISTED_IN_PART)
        return found

    def close(self) -> None:
        self._backtester.close()


def _policy(given: BacktestGiven) -> TurnPolicy:
    return POLICY_FORM.form.decode(given.policy.encode())


def _conclude_backtest(
    _home: Home, given: BacktestGiven, parts: Sequence[BacktestPart]
) -> BulkResult:
    found = sum_parts(_policy(given), parts)
    told = f"{found.turns} turns decided again, {found.changed_count} change model"
    return BulkResult(True, told, value_of(backtest_value(found)))  # noqa: FBT003 - a change is no fault


BACKTEST = BulkKind(
    "backtest",
    (BacktestGiven, BacktestPart),
    lambda home, given: ledger_ranges(home, given.length),
    _BacktestWorker,
    _conclude_backtest,
)
