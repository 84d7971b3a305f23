"""Replay over a ledger: in this process, or in ranges over a pool of processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from pointsman.agents.decide import DECIDER as AGENT_DECIDER
from pointsman.branches.decide import DECIDER as BRANCH_DECIDER
from pointsman.errors import IntegrityFailure, NotFound
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Chain, Entry, entry_bytes
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.merkle import leaf_hash
from pointsman.kernel.record import DECISION
from pointsman.kernel.replay import Registry, Replayed, Replayer, Verdict
from pointsman.kernel.snapshot import verify_snapshot
from pointsman.placement.decide import DECIDER as PLACEMENT_DECIDER
from pointsman.storage.home import Home, open_home
from pointsman.storage.sqlite.reading import ContentReader, LedgerReader, Stored
from pointsman.turns.decide import DECIDER as TURN_DECIDER

REGISTRY = Registry([PLACEMENT_DECIDER, TURN_DECIDER, BRANCH_DECIDER, AGENT_DECIDER])

RANGE = 2_000
MOST_SHOWN = 1_000

Progress = Callable[[int, int], None]
"""Told how many entries are done, and of how many."""


class Range(Struct, frozen=True):
    """Some entries of one chain."""

    chain: str
    number: int
    first: int
    end: int


class ReplayReport(Struct, frozen=True):
    """How many decisions came out the same, and which did not."""

    identical: int
    diverged: int
    unable: int
    others: tuple[Replayed, ...]

    @property
    def total(self) -> int:
        """How many decisions were looked at."""
        return self.identical + self.diverged + self.unable

    @property
    def is_clean(self) -> bool:
        """Whether every decision was re-run and came out the same."""
        return self.identical == self.total


class HomeReplayer:
    """Replays decisions of one home."""

    def __init__(self, home: Home) -> None:
        self.ledger = LedgerReader(home.database)
        self._home = home
        self._content = ContentReader(home.content, home.content_key())
        self._replayer = Replayer(REGISTRY, self.policy, self._content.text)
        self._chains = {
            number: Chain(home.identity.ledger, name)
            for name, number in self.ledger.chains().items()
        }

    def close(self) -> None:
        """Let go of the databases."""
        self.ledger.close()
        self._content.close()

    def replay(self, number: int, entry: Entry, facts: bytes | None) -> Replayed:
        """Re-run one decision, after checking that its entry is what was recorded."""
        try:
            self.check(number, entry)
        except IntegrityFailure as error:
            kind = entry.kind.removeprefix(DECISION)
            return Replayed(entry.id, kind, Verdict.UNABLE, error.code, error.message)
        return self._replayer.replay(entry.id, entry.payload, facts)

    def check(self, number: int, entry: Entry) -> None:
        """Raise unless an entry is what was recorded."""
        if leaf_hash(entry_bytes(self._chains[number].prefix, entry)) != entry.hash:
            raise IntegrityFailure("the entry is not what was recorded; run `pointsman verify`")

    def replay_range(self, each: Range, since: Instant) -> Iterator[Replayed]:
        """Re-run the decisions of a range."""
        for entry, facts in self.ledger.decisions(each.number, each.first, each.end, since):
            yield self.replay(each.number, entry, facts)

    def text(self, seal: Sealed) -> str:
        """Give a message's text back whole, or say why it cannot be had."""
        return self._content.text(seal)

    def policy(self, name: str) -> bytes:
        """Give a recorded policy or other snapshot by its content id, verified."""
        snapshot = self.ledger.snapshot(name)
        verify_snapshot(snapshot, self._home.identity.ledger, self._home.keys)
        return snapshot.body


def replay_named(home: Home, names: Sequence[str]) -> ReplayReport:
    """Re-run the decisions with these ids, or about these turns."""
    replayer = HomeReplayer(home)
    try:
        found = [stored for name in names for stored in _decisions_named(replayer.ledger, name)]
        return _report(
            replayer.replay(each.chain, each.entry, _facts(replayer.ledger, each)) for each in found
        )
    finally:
        replayer.close()


def replay_all(
    home: Home, since: Instant = EPOCH, *, workers: int = 1, progress: Progress | None = None
) -> ReplayReport:
    """Re-run every decision since an instant."""
    ranges = ledger_ranges(home)
    total = sum(each.end - each.first for each in ranges)
    reports: list[ReplayReport] = []
    done = 0
    for each, report in zip(ranges, _reports(home, ranges, since, workers), strict=True):
        reports.append(report)
        done += each.end - each.first
        if progress is not None:
            progress(done, total)
    return _merged(reports)


def _reports(
    home: Home, ranges: Sequence[Range], since: Instant, workers: int
) -> Iterator[ReplayReport]:
    if workers <= 1 or len(ranges) <= 1:
        yield from _replayed_here(home, ranges, since)
        return
    # A forked child would share locks and database handles with threads it does not have.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(ranges)), mp_context=context) as pool:
        jobs = [pool.submit(_replayed_there, home.path, each, since) for each in ranges]
        # DETERMINISM: results are taken in the order of the ranges, not as they come in.
        yield from (job.result() for job in jobs)


def _replayed_here(home: Home, ranges: Iterable[Range], since: Instant) -> Iterator[ReplayReport]:
    replayer = HomeReplayer(home)
    try:
        for each in ranges:
            yield _report(replayer.replay_range(each, since))
    finally:
        replayer.close()


def _replayed_there(path: Path, each: Range, since: Instant) -> ReplayReport:
    return next(_replayed_here(open_home(path, create=False), [each], since))


def ledger_ranges(home: Home) -> list[Range]:
    """Divide a ledger into ranges of entries, chain by chain."""
    ledger = LedgerReader(home.database)
    try:
        return [
            Range(name, number, first, min(first + RANGE, size))
            for name, number in ledger.chains().items()
            for size in (ledger.size(number),)
            for first in range(0, size, RANGE)
        ]
    finally:
        ledger.close()


def _decisions_named(ledger: LedgerReader, name: str) -> list[Stored]:
    found = [
        stored
        for stored in (*ledger.with_id(name), *ledger.with_ref(name))
        if stored.entry.kind.startswith(DECISION)
    ]
    if not found:
        raise NotFound(f"no decision is recorded as `{name}`")
    return found


def _facts(ledger: LedgerReader, stored: Stored) -> bytes | None:
    return next(iter(ledger.attachments(stored)), None)


def _report(replayed: Iterable[Replayed]) -> ReplayReport:
    counts: Counter[Verdict] = Counter()
    others: list[Replayed] = []
    for each in replayed:
        counts[each.verdict] += 1
        if each.verdict is not Verdict.IDENTICAL and len(others) < MOST_SHOWN:
            others.append(each)
    return ReplayReport(
        counts[Verdict.IDENTICAL],
        counts[Verdict.DIVERGED],
        counts[Verdict.UNABLE],
        tuple(others),
    )


def _merged(reports: Sequence[ReplayReport]) -> ReplayReport:
    others = tuple(each for report in reports for each in report.others)[:MOST_SHOWN]
    return ReplayReport(
        sum(report.identical for report in reports),
        sum(report.diverged for report in reports),
        sum(report.unable for report in reports),
        others,
    )
