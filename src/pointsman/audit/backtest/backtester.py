"""Recorded turns under another policy: the decisions that change, and the cost of reading them.

The facts are those recorded, so nothing but the policy differs. It records nothing, calls nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from pointsman.audit.backtest.result import (
    MOST_LISTED,
    Backtest,
    BacktestPart,
    BacktestTally,
    RedecidedTurn,
    Unable,
    sum_parts,
)
from pointsman.audit.pool import home_opener, spread_ranges
from pointsman.audit.ranges import RANGE, Range
from pointsman.audit.recorded_turns import TURN
from pointsman.audit.replay import BATCH, HomeReplayer, Progress, ledger_ranges
from pointsman.errors import MissingSnapshot, ReplayError, UnknownDecision
from pointsman.kernel.canonical import check_content
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.record import DecisionRecord, read_recorded
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.turns.compiled import compile_policy
from pointsman.turns.decide import DECISION_VERSION, decide
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_text
from pointsman.turns.policy import POLICY_FORM, TurnPolicy
from pointsman.turns.proofs.differences import Way, way_of
from pointsman.turns.proofs.examples import winner_of
from pointsman.turns.registry.models import model_id
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM

MANY_RANGES = 6
"""From so many ranges on, a backtest is done by several processes."""


def backtest(  # noqa: PLR0913 - the last four are asked for by name
    home: Home,
    policy: TurnPolicy,
    since: Instant = EPOCH,
    *,
    previews: bool = True,
    progress: Progress | None = None,
    workers: int | None = None,
    length: int = RANGE,
) -> Backtest:
    """Decide every recorded turn since an instant again under another policy.

    A long ledger is spread over as many processes as there are cores, unless `workers` says how
    many. However it is done, in ranges of whatever `length`, the result is the same.
    """
    if not home.database.exists():
        return sum_parts(policy, ())
    ranges = ledger_ranges(home, length)
    many = _worker_count(len(ranges)) if workers is None else workers
    total, done = sum(each.entries for each in ranges), 0
    parts = []
    with closing(_parts(home, policy, ranges, since, many, previews=previews)) as found:
        for each, part in found:
            parts.append(part)
            done += each.entries
            if progress is not None:
                progress(done, total)
    return sum_parts(policy, parts)


def _worker_count(ranges: int) -> int:
    # Another process first imports everything; a short ledger is done by then.
    return (os.cpu_count() or 1) if ranges >= MANY_RANGES else 1


def _parts(
    home: Home,
    policy: TurnPolicy,
    ranges: Sequence[Range],
    since: Instant,
    workers: int,
    *,
    previews: bool,
) -> Generator[tuple[Range, BacktestPart]]:
    if workers > 1 and len(ranges) > 1:
        body = POLICY_FORM.form.encode(policy)
        there = partial(_tally_in_process, home_opener(home), body, since, previews)
        yield from spread_ranges(there, ranges, workers)
        return
    backtester = HomeBacktester(home, policy, previews=previews)
    try:
        for each in ranges:
            yield each, backtester.tally_range(each, since)
    finally:
        backtester.close()


def _tally_in_process(
    open_home: Callable[[], Home],
    policy: bytes,
    since: Instant,
    previews: bool,  # noqa: FBT001 - handed to another process by place
    each: Range,
) -> BacktestPart:
    home = open_home()
    with told_errors(home.database):
        backtester = HomeBacktester(home, POLICY_FORM.form.decode(policy), previews=previews)
        with closing(backtester):
            return backtester.tally_range(each, since)


class HomeBacktester:
    """Decides recorded turns of a home again, under one other policy."""

    def __init__(self, home: Home, policy: TurnPolicy, *, previews: bool = True) -> None:
        self._previews = previews
        self._ready = compile_policy(policy)
        self._replayer = HomeReplayer(home)
        self._recorded_policy = cache(self._read_policy)

    def close(self) -> None:
        """Close the databases."""
        self._replayer.close()

    def tally_range(
        self, each: Range, since: Instant, most_listed: int = MOST_LISTED
    ) -> BacktestPart:
        """Decide the turns of a range again and count them."""
        tally = BacktestTally(most_listed)
        self.count(tally, each, since)
        return tally.part()

    def count(self, tally: BacktestTally, each: Range, since: Instant) -> None:
        """Decide the turns of a range again; a turn that cannot be decided is counted too."""
        for entry, facts in self.turns(each, since):
            try:
                decided = self.decide_again(each.number, entry, facts)
            except ReplayError as error:
                tally.miss(Unable(entry.ref, error.code, error.message))
                continue
            if decided is not None:
                tally.add(decided)

    def turns(self, each: Range, since: Instant) -> Iterator[tuple[Entry, bytes | None]]:
        """Yield the decisions of turns in a range, each with its facts."""
        rows = self._replayer.ledger.decisions(each.number, each.first, each.end, since)
        while batch := [*islice(rows, BATCH)]:
            self._replayer.expect(facts for _, facts in batch)
            yield from (row for row in batch if row[0].kind == TURN)

    def decide_again(self, number: int, entry: Entry, facts: bytes | None) -> RedecidedTurn | None:
        """Decide a recorded turn again, or raise; None for a preview where they are left out."""
        self._replayer.check(number, entry)
        _, record, aside = read_recorded(entry.payload)
        if aside.is_preview and not self._previews:
            return None
        return self._decide_again(entry, record, facts)

    def _decide_again(
        self, entry: Entry, record: DecisionRecord, body: bytes | None
    ) -> RedecidedTurn:
        facts = _read_facts(record, body)
        before = self._recorded_policy(record.policy_id)
        then = (OUTCOME_FORM.decode(bytes(record.outcome)), TRACE_FORM.decode(bytes(record.trace)))
        now = decide(self._ready, self._adapt_facts(facts, before))
        return RedecidedTurn(
            turn_id=entry.ref,
            at=entry.at,
            before=then,
            after=now,
            before_model=before.models.get(then[0].chosen_model),
            after_model=self._ready.models.get(now[0].chosen_model),
            before_tokens=facts.tokens_for(then[0].chosen_model),
            after_tokens=facts.tokens_for(now[0].chosen_model),
        )

    def _adapt_facts(self, facts: TurnFacts, before: TurnPolicy) -> TurnFacts:
        """Say the recorded facts in terms of the other policy's models."""
        changes: dict[str, object] = {}
        if facts.configured is not None:
            # A model that is new in the policy has no record of whether its key was there.
            new = (name for name in self._ready.models if name not in before.models)
            changes["configured"] = (*facts.configured, *new)
        if facts.override is not None:
            changes["override"] = replace(
                facts.override, model=self._model_of_alias(facts.override.alias)
            )
        return replace(self._join_text(facts), **changes)

    def _join_text(self, facts: TurnFacts) -> TurnFacts:
        if not self._ready.reads_text:
            return facts
        try:
            return with_text(facts, self._replayer.text)
        except MissingSnapshot:
            # Only a rule that is reached and reads the text misses it, and then says so.
            return facts

    def _model_of_alias(self, alias: str) -> str:
        aliases = self._ready.aliases
        model = aliases.get(alias) or aliases.get(model_id(alias))
        if model is None:
            raise ReplayError(f"`@{alias}` names no model under this policy")
        return model

    def _read_policy(self, name: str) -> TurnPolicy:
        body = self._replayer.policy(name)
        check_content(name, body, "policy")
        return POLICY_FORM.form.decode(body)


def _read_facts(record: DecisionRecord, body: bytes | None) -> TurnFacts:
    if record.decision_version != DECISION_VERSION:
        version = record.decision_version
        raise UnknownDecision(f"facts of decision version {version} cannot be decided on anew")
    if body is None:
        raise MissingSnapshot(f"the facts `{record.facts_id}` are not stored")
    check_content(record.facts_id, body, "facts")
    return FACTS_FORM.decode(body)


class RecordedWays(Struct, frozen=True):
    """The recorded turns under two policies; `unable` could not be decided again."""

    turns: int
    unable: int
    differing: dict[tuple[Way, Way], int]


def recorded_ways(
    home: Home,
    before: TurnPolicy,
    after: TurnPolicy,
    since: Instant = EPOCH,
    progress: Progress | None = None,
) -> RecordedWays:
    """Decide every recorded turn under both policies, and count those that differ."""
    differing: Counter[tuple[Way, Way]] = Counter()
    turns = unable = done = 0
    if not home.database.exists():
        return RecordedWays(0, 0, {})
    ranges = ledger_ranges(home, RANGE)
    total = sum(each.entries for each in ranges)
    with closing(HomeBacktester(home, before)) as old, closing(HomeBacktester(home, after)) as new:
        for each in ranges:
            for entry, facts in old.turns(each, since):
                try:
                    then = old.decide_again(each.number, entry, facts)
                    now = new.decide_again(each.number, entry, facts)
                except ReplayError:
                    unable += 1
                    continue
                if then is None or now is None:
                    continue
                turns += 1
                if then.after[0].chosen_model != now.after[0].chosen_model:
                    pair = (way_of(winner_of(*then.after)), way_of(winner_of(*now.after)))
                    differing[pair] += 1
            done += each.entries
            if progress is not None:
                progress(done, total)
    return RecordedWays(turns, unable, dict(differing))
