"""Replay over a ledger: in this process, or in ranges over a pool of processes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from pointsman.agents.decide import DECIDER as AGENT_DECIDER
from pointsman.audit.pool import Progress, home_opener, spread_ranges
from pointsman.audit.ranges import RANGE, ChainSize, Range, plan_ranges
from pointsman.audit.recorded_turns import turn_named
from pointsman.branches.decide import DECIDER as BRANCH_DECIDER
from pointsman.errors import IntegrityFailure, MissingSnapshot, NotFound
from pointsman.kernel.canonical import check_content
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Chain, Entry, entry_bytes
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.merkle import leaf_hash
from pointsman.kernel.record import DECISION, read_recorded
from pointsman.kernel.replay import Registry, Replayed, Replayer, Verdict
from pointsman.kernel.snapshot import verify_snapshot
from pointsman.placement.decide import DECIDER as PLACEMENT_DECIDER
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored
from pointsman.turns.compiled import compile_policy
from pointsman.turns.decide import DECIDER as TURN_DECIDER
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_text
from pointsman.turns.policy import POLICY_FORM, TurnPolicy

__all__ = [
    "REGISTRY",
    "HomeReplayer",
    "Progress",
    "ReplayReport",
    "decided_turn",
    "replay_all",
    "replay_named",
]

REGISTRY = Registry([PLACEMENT_DECIDER, TURN_DECIDER, BRANCH_DECIDER, AGENT_DECIDER])

MOST_SHOWN = 1_000
BATCH = 500

_SEAL = re.compile(rb'"digest":"(hmac-sha256:[0-9a-f]{64})"')


class ReplayReport(Struct, frozen=True, omit_defaults=True):
    """How many decisions came out the same, and which did not."""

    identical: int
    diverged: int
    unable: int
    others: tuple[Replayed, ...]
    before: int = 0
    """How many entries an earlier proof vouches for; they were not looked at."""
    whole_at: str = ""
    """When all was looked at last."""

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
        self.ledger = home.reader()
        self._home = home
        self._content = ContentReader(home.content, home.content_key())
        self._replayer = Replayer(REGISTRY, self.policy, self._content.text)
        self._chains = {
            number: Chain(home.identity.ledger, name)
            for name, number in self.ledger.chains().items()
        }

    def close(self) -> None:
        """Close the databases."""
        self.ledger.close()
        self._content.close()

    def replay(self, number: int, entry: Entry, facts: bytes | None) -> Replayed:
        """Re-run one decision, after checking its entry against its hash."""
        try:
            self.check(number, entry)
        except IntegrityFailure as error:
            kind = entry.kind.removeprefix(DECISION)
            return Replayed(entry.id, kind, Verdict.UNABLE, error.code, error.message)
        return self._replayer.replay(entry.id, entry.payload, facts)

    def check(self, number: int, entry: Entry) -> None:
        """Raise unless an entry fits its hash."""
        if leaf_hash(entry_bytes(self._chains[number].prefix, entry)) != entry.hash:
            raise IntegrityFailure("the entry is not what was recorded; run `pointsman verify`")

    def replay_range(self, each: Range, since: Instant) -> Iterator[Replayed]:
        """Re-run the decisions of a range."""
        rows = self.ledger.decisions(each.number, each.first, each.end, since)
        while batch := [*islice(rows, BATCH)]:
            self.expect(facts for _, facts in batch)
            for entry, facts in batch:
                yield self.replay(each.number, entry, facts)

    def expect(self, facts: Iterable[bytes | None]) -> None:
        """Name the texts that may be read soon."""
        self._content.expect(
            name.decode() for body in facts if body is not None for name in _SEAL.findall(body)
        )

    def report(self, each: Range, since: Instant) -> ReplayReport:
        """Re-run the decisions of a range, and count how they came out."""
        return _report(self.replay_range(each, since))

    def text(self, seal: Sealed) -> str:
        """Return the whole text of a message, or raise why it is not there."""
        return self._content.text(seal)

    def policy(self, name: str) -> bytes:
        """Return a recorded policy or other snapshot by its content id, verified."""
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


def decided_turn(home: Home, name: str) -> tuple[TurnPolicy, TurnFacts]:
    """Return the policy and the facts of a recorded turn, its text joined where rules read it."""
    with closing(HomeReplayer(home)) as replayer:
        stored = turn_named(replayer.ledger, name)
        replayer.check(stored.chain, stored.entry)
        _, record, _ = read_recorded(stored.entry.payload)
        body = _facts(replayer.ledger, stored)
        if body is None:
            raise MissingSnapshot(f"the facts `{record.facts_id}` are not stored")
        check_content(record.facts_id, body, "facts")
        policy = POLICY_FORM.form.decode(replayer.policy(record.policy_id))
        facts = FACTS_FORM.decode(body)
        reads_text = compile_policy(policy).reads_text
        return policy, with_text(facts, replayer.text) if reads_text else facts


def replay_all(
    home: Home,
    since: Instant = EPOCH,
    *,
    workers: int = 1,
    progress: Progress | None = None,
    replayed: Mapping[str, int] | None = None,
) -> ReplayReport:
    """Re-run every decision since an instant; `replayed` says what to leave out of each chain."""
    done_before = replayed or {}
    ranges = [
        replace(each, first=max(each.first, done_before.get(each.chain, 0)))
        for each in ledger_ranges(home)
        if each.end > done_before.get(each.chain, 0)
    ]
    total = sum(each.end - each.first for each in ranges)
    reports: list[ReplayReport] = []
    done = 0
    for each, report in zip(ranges, _reports(home, ranges, since, workers), strict=True):
        reports.append(report)
        done += each.end - each.first
        if progress is not None:
            progress(done, total)
    return merge_reports(reports)


def _reports(
    home: Home, ranges: Sequence[Range], since: Instant, workers: int
) -> Iterator[ReplayReport]:
    if workers <= 1 or len(ranges) <= 1:
        yield from _replay_here(home, ranges, since)
        return
    there = partial(_replay_in_process, home_opener(home), since)
    yield from (report for _, report in spread_ranges(there, ranges, workers))


def _replay_here(home: Home, ranges: Iterable[Range], since: Instant) -> Iterator[ReplayReport]:
    replayer = HomeReplayer(home)
    try:
        for each in ranges:
            yield replayer.report(each, since)
    finally:
        replayer.close()


def _replay_in_process(open_home: Callable[[], Home], since: Instant, each: Range) -> ReplayReport:
    return next(_replay_here(open_home(), [each], since))


def ledger_ranges(home: Home, length: int = RANGE) -> list[Range]:
    """Divide a ledger into ranges of entries, chain by chain."""
    ledger = home.reader()
    try:
        sizes = [ChainSize(name, n, ledger.size(n)) for name, n in ledger.chains().items()]
    finally:
        ledger.close()
    return plan_ranges(sizes, length)


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


def merge_reports(reports: Sequence[ReplayReport]) -> ReplayReport:
    """Add reports up; decisions that did not come out the same are listed up to `MOST_SHOWN`."""
    others = tuple(each for report in reports for each in report.others)[:MOST_SHOWN]
    return ReplayReport(
        sum(report.identical for report in reports),
        sum(report.diverged for report in reports),
        sum(report.unable for report in reports),
        others,
    )
