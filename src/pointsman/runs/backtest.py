"""Recorded turns under another policy: what would have changed, and what reading them would cost.

The facts are those recorded, so nothing but the policy differs. It records nothing, calls nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import MissingSnapshot, ReplayError, UnknownDecision
from pointsman.kernel.canonical import check_content
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.number import MicroUsd, divided
from pointsman.kernel.record import DECISION, DecisionRecord, read_recorded
from pointsman.runs.replay import HomeReplayer, Progress, ledger_ranges
from pointsman.storage.home import Home
from pointsman.turns.decide import DECISION_VERSION, decide
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_text
from pointsman.turns.policy import POLICY_FORM, TurnPolicy
from pointsman.turns.prices import PER_TOKENS
from pointsman.turns.ready import ReadyPolicy
from pointsman.turns.registry import Model, model_id
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM, Trace, TurnOutcome

TURN = DECISION + "turn"
MOST_LISTED = 10_000


class Change(Struct, frozen=True):
    """A turn that another model would take; an empty model is none, an empty policy likewise."""

    turn_id: str
    at: Instant
    before_model: str
    after_model: str
    before_policy: str
    after_policy: str
    rule: str | None


class Unable(Struct, frozen=True):
    """A turn that could not be decided again, and why."""

    turn_id: str
    code: str
    reason: str


class InputCost(Struct, frozen=True):
    """What reading the input of the comparable turns costs, by the estimates that were recorded.

    A turn is comparable when both models exist and have a known price; others are counted apart.
    """

    turns: int
    before_microusd: MicroUsd
    after_microusd: MicroUsd
    price_unknown: int
    no_model: int

    @property
    def difference_microusd(self) -> MicroUsd:
        """How much more the other policy costs; below zero when it costs less."""
        return MicroUsd(self.after_microusd - self.before_microusd)


class Backtest(Struct, frozen=True):
    """What became of the recorded turns; lists are cut after `MOST_LISTED`, counts never are.

    `by_rule` says how many turns each rule of the other policy takes, those that take none too.
    """

    turns: int
    unable_count: int
    unable: tuple[Unable, ...]
    changed_count: int
    changed: tuple[Change, ...]
    shifts: dict[tuple[str, str], int]
    by_rule: dict[str, int]
    models_before: dict[str, int]
    models_after: dict[str, int]
    cost: InputCost


def backtest(
    home: Home,
    policy: TurnPolicy,
    since: Instant = EPOCH,
    *,
    previews: bool = True,
    progress: Progress | None = None,
) -> Backtest:
    """Decide every recorded turn since an instant again under another policy."""
    tally = _Tally(policy)
    if not home.database.exists():
        return tally.result()
    again = _Again(home, policy)
    try:
        for number, entry, facts in again.decisions(since, progress):
            again.tell(tally, number, entry, facts, previews=previews)
    finally:
        again.close()
    return tally.result()


class _Decision(Struct, frozen=True):
    """One turn as it was decided and as it is decided now."""

    turn_id: str
    at: Instant
    before: tuple[TurnOutcome, Trace]
    after: tuple[TurnOutcome, Trace]
    before_model: Model | None
    after_model: Model | None
    before_tokens: int
    after_tokens: int


class _Again:
    """Decides recorded turns of a home again."""

    def __init__(self, home: Home, policy: TurnPolicy) -> None:
        self._home = home
        self._ready = ReadyPolicy(policy)
        self._replayer = HomeReplayer(home)
        self._recorded_policy = cache(self._read_policy)

    def close(self) -> None:
        self._replayer.close()

    def decisions(
        self, since: Instant, progress: Progress | None
    ) -> Iterator[tuple[int, Entry, bytes | None]]:
        """Give the recorded turns, chain by chain."""
        ranges = ledger_ranges(self._home)
        total, done = sum(each.end - each.first for each in ranges), 0
        for each in ranges:
            rows = self._replayer.ledger.decisions(each.number, each.first, each.end, since)
            yield from ((each.number, entry, facts) for entry, facts in rows if entry.kind == TURN)
            done += each.end - each.first
            if progress is not None:
                progress(done, total)

    def tell(
        self, tally: _Tally, number: int, entry: Entry, facts: bytes | None, *, previews: bool
    ) -> None:
        """Decide one turn again and count it; whatever stands in the way is counted too."""
        try:
            self._replayer.check(number, entry)
            _, record, aside = read_recorded(entry.payload)
            if aside.is_preview and not previews:
                return
            tally.add(self._decided(entry, record, facts))
        except ReplayError as error:
            tally.miss(Unable(entry.ref, error.code, error.message))

    def _decided(self, entry: Entry, record: DecisionRecord, body: bytes | None) -> _Decision:
        facts = _read_facts(record, body)
        before = self._recorded_policy(record.policy_id)
        then = (OUTCOME_FORM.decode(bytes(record.outcome)), TRACE_FORM.decode(bytes(record.trace)))
        now = decide(self._ready, self._adapted(facts, before))
        return _Decision(
            turn_id=entry.ref,
            at=entry.at,
            before=then,
            after=now,
            before_model=before.models.get(then[0].chosen_model),
            after_model=self._ready.models.get(now[0].chosen_model),
            before_tokens=facts.tokens_for(then[0].chosen_model),
            after_tokens=facts.tokens_for(now[0].chosen_model),
        )

    def _adapted(self, facts: TurnFacts, before: TurnPolicy) -> TurnFacts:
        """Say the recorded facts in terms of the other policy's models."""
        changes: dict[str, object] = {}
        if facts.configured is not None:
            # Nobody could record whether a model had its key before there was such a model.
            new = (name for name in self._ready.models if name not in before.models)
            changes["configured"] = (*facts.configured, *new)
        if facts.override is not None:
            changes["override"] = replace(facts.override, model=self._aliased(facts.override.alias))
        return replace(self._opened(facts), **changes)

    def _opened(self, facts: TurnFacts) -> TurnFacts:
        if not self._ready.reads_text:
            return facts
        try:
            return with_text(facts, self._replayer.text)
        except MissingSnapshot:
            # Only a rule that is reached and reads the text misses it, and then says so.
            return facts

    def _aliased(self, alias: str) -> str:
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


class _Tally:
    """Counts decisions as they come."""

    def __init__(self, policy: TurnPolicy) -> None:
        rules = (*policy.rules, *(rule for each in policy.workspaces for rule in each.rules))
        self._rules: Counter[str] = Counter({rule.name: 0 for rule in rules})
        self._shifts: Counter[tuple[str, str]] = Counter()
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._changed: list[Change] = []
        self._unable: list[Unable] = []
        self._unable_count = 0
        self._costs = _Costs()

    def miss(self, unable: Unable) -> None:
        self._unable_count += 1
        if len(self._unable) < MOST_LISTED:
            self._unable.append(unable)

    def add(self, decision: _Decision) -> None:
        then, now = decision.before[0].chosen_model, decision.after[0].chosen_model
        self._before[then] += 1
        self._after[now] += 1
        self._costs.add(decision)
        rule = _winner(*decision.after)[1]
        if rule is not None:
            self._rules[rule] += 1
        if then != now:
            self._shifts[then, now] += 1
            if len(self._changed) < MOST_LISTED:
                self._changed.append(_change(decision))

    def result(self) -> Backtest:
        return Backtest(
            turns=self._before.total(),
            unable_count=self._unable_count,
            unable=tuple(self._unable),
            changed_count=self._shifts.total(),
            changed=tuple(sorted(self._changed, key=lambda each: (each.at, each.turn_id))),
            shifts=dict(sorted(self._shifts.items(), key=lambda each: (-each[1], each[0]))),
            by_rule=dict(self._rules),
            models_before=_most_first(self._before),
            models_after=_most_first(self._after),
            cost=self._costs.result(),
        )


class _Costs:
    """Adds costs up exactly and rounds once."""

    def __init__(self) -> None:
        self._turns = self._unknown = self._no_model = 0
        self._before = self._after = 0

    def add(self, decision: _Decision) -> None:
        if decision.before_model is None or decision.after_model is None:
            self._no_model += 1
            return
        then = _rate(decision.before_model)
        now = _rate(decision.after_model)
        if then is None or now is None:
            self._unknown += 1
            return
        self._turns += 1
        self._before += then * decision.before_tokens
        self._after += now * decision.after_tokens

    def result(self) -> InputCost:
        return InputCost(
            turns=self._turns,
            before_microusd=MicroUsd(divided(self._before, PER_TOKENS)),
            after_microusd=MicroUsd(divided(self._after, PER_TOKENS)),
            price_unknown=self._unknown,
            no_model=self._no_model,
        )


def _rate(model: Model) -> MicroUsd | None:
    return None if model.price is None else model.price.input


def _change(decision: _Decision) -> Change:
    before_policy, _ = _winner(*decision.before)
    after_policy, rule = _winner(*decision.after)
    return Change(
        turn_id=decision.turn_id,
        at=decision.at,
        before_model=decision.before[0].chosen_model,
        after_model=decision.after[0].chosen_model,
        before_policy=before_policy,
        after_policy=after_policy,
        rule=rule,
    )


def _winner(outcome: TurnOutcome, trace: Trace) -> tuple[str, str | None]:
    if outcome.winner_index < 0:
        return "", None
    winner = trace.chain[outcome.winner_index]
    return winner.policy, winner.rule_name


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
