"""Recorded turns under another policy: the decisions that change, and the cost of reading them.

The facts are those recorded, so nothing but the policy differs. It records nothing, calls nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, partial
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from pointsman.audit.backtest.model_runs import ModelRun, read_runs
from pointsman.audit.backtest.result import (
    MOST_LISTED,
    Backtest,
    BacktestPart,
    BacktestTally,
    RedecidedTurn,
    Unable,
    sum_parts,
)
from pointsman.audit.backtest.scenario import AS_IT_WAS, Scenario, facts_in, policy_in
from pointsman.audit.pool import home_opener, spread_ranges
from pointsman.audit.ranges import RANGE, Range
from pointsman.audit.recorded_turns import TURN
from pointsman.audit.replay import BATCH, HomeReplayer, Progress, ledger_ranges
from pointsman.errors import MissingSnapshot, ReplayError, UnknownDecision
from pointsman.kernel.canonical import check_content
from pointsman.kernel.content import Texts
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
from pointsman.turns.registry.models import Model, model_id
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM, TurnOutcome, TurnTrace

MANY_RANGES = 6
"""From so many ranges on, a backtest is done by several processes."""


def backtest(  # noqa: PLR0913 - the last five are asked for by name
    home: Home,
    policy: TurnPolicy,
    since: Instant = EPOCH,
    *,
    previews: bool = True,
    progress: Progress | None = None,
    workers: int | None = None,
    length: int = RANGE,
    scenario: Scenario = AS_IT_WAS,
) -> Backtest:
    """Decide every recorded turn since an instant again under another policy."""
    cases = [BacktestCase(policy, scenario)]
    (found,) = backtest_all(
        home, cases, since, previews=previews, progress=progress, workers=workers, length=length
    )
    return found


class BacktestCase(Struct, frozen=True):
    """Another policy, and what else may be other than it was."""

    policy: TurnPolicy
    scenario: Scenario = AS_IT_WAS

    @property
    def effective_policy(self) -> TurnPolicy:
        """The policy at the prices of the scenario."""
        return policy_in(self.scenario, self.policy)


def backtest_all(  # noqa: PLR0913 - as above
    home: Home,
    cases: Sequence[BacktestCase],
    since: Instant = EPOCH,
    *,
    previews: bool = True,
    progress: Progress | None = None,
    workers: int | None = None,
    length: int = RANGE,
) -> list[Backtest]:
    """Decide every recorded turn since an instant again under several policies, in one pass.

    A long ledger is spread over as many processes as there are cores, unless `workers` says how
    many. However it is done, in ranges of whatever `length`, the result is the same.
    """
    parts: list[list[BacktestPart]] = []
    if home.database.exists():
        ranges = ledger_ranges(home, length)
        many = _worker_count(len(ranges)) if workers is None else workers
        total, done = sum(each.entries for each in ranges), 0
        with closing(_parts(home, cases, ranges, since, many, previews=previews)) as found:
            for each, made in found:
                parts.append(made)
                done += each.entries
                if progress is not None:
                    progress(done, total)
    return [
        sum_parts(case.effective_policy, [made[place] for made in parts])
        for place, case in enumerate(cases)
    ]


def _worker_count(ranges: int) -> int:
    # Another process first imports everything; a short ledger is done by then.
    return (os.cpu_count() or 1) if ranges >= MANY_RANGES else 1


def _parts(
    home: Home,
    cases: Sequence[BacktestCase],
    ranges: Sequence[Range],
    since: Instant,
    workers: int,
    *,
    previews: bool,
) -> Generator[tuple[Range, list[BacktestPart]]]:
    if workers > 1 and len(ranges) > 1:
        given = [(POLICY_FORM.form.encode(each.policy), each.scenario) for each in cases]
        there = partial(_tally_in_process, home_opener(home), given, since, previews)
        yield from spread_ranges(there, ranges, workers)
        return
    backtester = HomeBacktester(home, cases, previews=previews)
    try:
        for each in ranges:
            yield each, backtester.tally_range(each, since)
    finally:
        backtester.close()


def _tally_in_process(
    open_home: Callable[[], Home],
    given: Sequence[tuple[bytes, Scenario]],
    since: Instant,
    previews: bool,  # noqa: FBT001 - handed to another process by place
    each: Range,
) -> list[BacktestPart]:
    home = open_home()
    cases = [BacktestCase(POLICY_FORM.form.decode(body), scenario) for body, scenario in given]
    with told_errors(home.database):
        backtester = HomeBacktester(home, cases, previews=previews)
        with closing(backtester):
            return backtester.tally_range(each, since)


class RecordedTurn(Struct, frozen=True):
    """A recorded turn, read and checked, and the policy it was decided under."""

    turn_id: str
    at: Instant
    facts: TurnFacts
    decided: tuple[TurnOutcome, TurnTrace]
    policy: TurnPolicy
    runs: tuple[ModelRun, ...] = ()


class HomeBacktester:
    """Decides recorded turns of a home again, under one or several other policies."""

    def __init__(self, home: Home, cases: Sequence[BacktestCase], *, previews: bool = True) -> None:
        self._previews = previews
        self._replayer = HomeReplayer(home)
        self._deciders = [Redecider(each, self._replayer.text) for each in cases]
        self._recorded_policy = cache(self._read_policy)

    def close(self) -> None:
        """Close the databases."""
        self._replayer.close()

    def tally_range(
        self, each: Range, since: Instant, most_listed: int = MOST_LISTED
    ) -> list[BacktestPart]:
        """Decide the turns of a range again under each policy and count them."""
        tallies = [BacktestTally(decider.models, most_listed) for decider in self._deciders]
        for batch in self._batches(each, since):
            runs = read_runs(self._replayer.ledger, [entry for entry, _ in batch])
            for entry, facts in batch:
                try:
                    turn = self.read_turn(each.number, entry, facts, runs.get(entry.id, ()))
                except ReplayError as error:
                    for tally in tallies:
                        tally.miss(Unable(entry.ref, error.code, error.message))
                    continue
                if turn is not None:
                    self._count(tallies, turn)
        return [tally.part() for tally in tallies]

    def _count(self, tallies: Sequence[BacktestTally], turn: RecordedTurn) -> None:
        """Count a turn under each policy; where it cannot be decided, that is counted too."""
        for decider, tally in zip(self._deciders, tallies, strict=True):
            try:
                tally.add(decider.decide_again(turn))
            except ReplayError as error:
                tally.miss(Unable(turn.turn_id, error.code, error.message))

    def _batches(self, each: Range, since: Instant) -> Iterator[list[tuple[Entry, bytes | None]]]:
        rows = self._replayer.ledger.decisions(each.number, each.first, each.end, since)
        while batch := [*islice(rows, BATCH)]:
            self._replayer.expect(facts for _, facts in batch)
            yield [row for row in batch if row[0].kind == TURN]

    def turns(self, each: Range, since: Instant) -> Iterator[tuple[Entry, bytes | None]]:
        """Yield the decisions of turns in a range, each with its facts."""
        return (row for batch in self._batches(each, since) for row in batch)

    def decide_again(
        self, number: int, entry: Entry, facts: bytes | None
    ) -> list[RedecidedTurn] | None:
        """Decide a turn again under each policy, or raise; None for a preview that is left out."""
        turn = self.read_turn(number, entry, facts)
        return None if turn is None else [each.decide_again(turn) for each in self._deciders]

    def read_turn(
        self, number: int, entry: Entry, facts: bytes | None, runs: tuple[ModelRun, ...] = ()
    ) -> RecordedTurn | None:
        """Read a recorded turn, or raise; None for a preview where they are left out."""
        self._replayer.check(number, entry)
        _, record, aside = read_recorded(entry.payload)
        if aside.is_preview and not self._previews:
            return None
        return RecordedTurn(
            entry.ref,
            entry.at,
            _read_facts(record, facts),
            (OUTCOME_FORM.decode(bytes(record.outcome)), TRACE_FORM.decode(bytes(record.trace))),
            self._recorded_policy(record.policy_id),
            runs,
        )

    def _read_policy(self, name: str) -> TurnPolicy:
        body = self._replayer.policy(name)
        check_content(name, body, "policy")
        return POLICY_FORM.form.decode(body)


class Redecider:
    """Decides recorded turns again under one other policy; `texts` joins their messages."""

    def __init__(self, case: BacktestCase, texts: Texts) -> None:
        self._scenario, self._texts = case.scenario, texts
        self._ready = compile_policy(case.effective_policy)

    @property
    def models(self) -> Mapping[str, Model]:
        """The models of the policy."""
        return self._ready.models

    def decide_again(self, turn: RecordedTurn) -> RedecidedTurn:
        """Decide a turn again, or raise."""
        facts = self._adapt_facts(turn.facts, turn.policy)
        return RedecidedTurn(
            turn_id=turn.turn_id,
            at=turn.at,
            before=turn.decided,
            after=decide(self._ready, facts),
            before_models=turn.policy.models,
            after_models=self._ready.models,
            facts=turn.facts,
            runs=turn.runs,
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
        joined = replace(self._join_text(facts), **changes)
        return facts_in(self._scenario, joined, self._ready.models)

    def _join_text(self, facts: TurnFacts) -> TurnFacts:
        if not self._ready.reads_text:
            return facts
        try:
            return with_text(facts, self._texts)
        except MissingSnapshot:
            # Only a rule that is reached and reads the text misses it, and then says so.
            return facts

    def _model_of_alias(self, alias: str) -> str:
        aliases = self._ready.aliases
        model = aliases.get(alias) or aliases.get(model_id(alias))
        if model is None:
            raise ReplayError(f"`@{alias}` names no model under this policy")
        return model


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
    with closing(HomeBacktester(home, [BacktestCase(before), BacktestCase(after)])) as both:
        for each in ranges:
            for entry, facts in both.turns(each, since):
                try:
                    found = both.decide_again(each.number, entry, facts)
                except ReplayError:
                    unable += 1
                    continue
                if found is None:
                    continue
                turns += 1
                then, now = found
                if then.after[0].chosen_model != now.after[0].chosen_model:
                    pair = (way_of(winner_of(*then.after)), way_of(winner_of(*now.after)))
                    differing[pair] += 1
            done += each.entries
            if progress is not None:
                progress(done, total)
    return RecordedWays(turns, unable, dict(differing))
