"""Bulk replay: every decision of a range re-run and compared."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw, Struct

from pointsman.audit.ranges import RANGE, Range
from pointsman.audit.replay import MOST_SHOWN, HomeReplayer, ledger_ranges
from pointsman.bulk.work import Conclusion, Work, value_of
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.storage.home import Home


class ReplayGiven(Struct, frozen=True):
    """Which decisions: those since an instant."""

    since: Instant = EPOCH
    length: int = RANGE


class ReplayPart(Struct, frozen=True):
    """How the decisions of one range came out, and those that did not come out the same."""

    identical: int
    diverged: int
    unable: int
    others: tuple[Raw, ...]


class _Replaying:
    def __init__(self, home: Home, given: ReplayGiven) -> None:
        self._replayer, self._since = HomeReplayer(home), given.since

    def part(self, each: Range) -> ReplayPart:
        found = self._replayer.report(each, self._since)
        others = tuple(value_of(other) for other in found.others)
        return ReplayPart(found.identical, found.diverged, found.unable, others)

    def close(self) -> None:
        self._replayer.close()


def merged_replays(parts: Sequence[ReplayPart]) -> ReplayPart:
    """Add parts up; those that are not the same are listed up to `MOST_SHOWN`."""
    return ReplayPart(
        sum(each.identical for each in parts),
        sum(each.diverged for each in parts),
        sum(each.unable for each in parts),
        tuple(other for each in parts for other in each.others)[:MOST_SHOWN],
    )


def _concluded(_home: Home, _given: ReplayGiven, parts: Sequence[ReplayPart]) -> Conclusion:
    found = merged_replays(parts)
    total = found.identical + found.diverged + found.unable
    told = f"{found.identical} of {total} decisions identical"
    value = {
        "total": total,
        "identical": found.identical,
        "diverged": found.diverged,
        "unable": found.unable,
        "others": found.others,
    }
    return Conclusion(found.identical == total, told, value_of(value))


REPLAY = Work(
    "replay",
    (ReplayGiven, ReplayPart),
    lambda home, given: ledger_ranges(home, given.length),
    _Replaying,
    _concluded,
)
