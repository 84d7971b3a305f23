"""Bisection of the record: which entry turned turns from one model to another.

The state of a turn is the policy and the facts about the world that it was decided on. One turn is
decided again under the states of others, halving the range each time, until two neighbours are
left of which one gives the one model and the next the other. Then the parts of the state in which
they differ are changed alone, and together, until the fewest that turn the turn are found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache
from itertools import combinations
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from pointsman.audit.recorded_turns import TURN
from pointsman.audit.replay import BATCH, HomeReplayer, Progress, ledger_ranges
from pointsman.errors import InputError, MissingSnapshot, NotFound, ReplayError
from pointsman.kernel.canonical import check_content
from pointsman.kernel.instant import EPOCH, Instant, instant_text
from pointsman.kernel.record import OUTCOME, read_recorded
from pointsman.recording.stops import LIFTED, ORDERED
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import Stored
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import DECISION_VERSION, decide
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_text
from pointsman.turns.policy import POLICY_FORM, TurnPolicy
from pointsman.turns.registry.models import EMBEDDED_MODEL, model_id, provider_of
from pointsman.turns.trace import OUTCOME_FORM

StatePart = Literal[
    "policy", "health", "keys", "learned rows", "budgets", "stops", "permission",
    "choice by hand", "time of day", "placement",
]  # fmt: skip

_FIELDS: Final[Mapping[StatePart, tuple[str, ...]]] = {
    "health": ("availability", "network_state", "excluded_models"),
    "keys": ("configured",),
    "learned rows": ("pattern_rows", "pattern_evidence", "explore_draw", "exploring"),
    "budgets": ("budgets", "cost_today_microusd"),
    "stops": ("stops",),
    "permission": ("allowed_models",),
    "choice by hand": ("override", "sticky_model", "named_model"),
    "time of day": ("local_minutes",),
    "placement": ("placement", "privacy_level"),
}
"""The facts about the world, by part. All other facts are those of the turn itself."""

_MOVED: Final = re.compile(r"\s*(.*?)\s*\bmoved from (\S+) to (\S+)\s*", re.DOTALL)
_EVERY: Final = ("", "turns", "every turn", "all turns")
MOST_PROBES: Final = 20
"""So many turns are tried as the one that is decided again; the newest first."""

_LOOK_BACK: Final = 500
"""So many entries of a kind are looked at for the one that changed a part of the state."""


class Flip(Struct, frozen=True):
    """The question: the condition on turns as written, and the models they moved between."""

    when: str
    before: str
    after: str


class StateCause(Struct, frozen=True):
    """A part of the state that turned the turn, and the entry that changed it.

    `fields` are the parts of the policy, or the facts, that differ and do it.
    """

    part: StatePart
    fields: tuple[str, ...]
    was: str
    became: str
    entry_id: str
    entry_kind: str
    at: Instant


class Bisection(Struct, frozen=True):
    """The answer: two neighbouring turns, and the fewest changes between them that turn a turn.

    `turns` meet the condition; `steps` is how many states the turn was decided under. `probe` is
    that turn. All `causes` together turn it, and none of them can be left out.
    """

    turns: int
    steps: int
    probe: str
    last_before: str
    first_after: str
    causes: tuple[StateCause, ...]


class _Seen(Struct, frozen=True):
    """A turn that meets the condition."""

    at: Instant
    chain: int
    seq: int
    decision_id: str
    turn_id: str
    chosen: str


class _State(Struct, frozen=True):
    """A turn's facts, and the policy they were decided under."""

    policy_id: str
    facts: TurnFacts


def read_flip(text: str) -> Flip:
    """Read `CONDITION moved from MODEL to MODEL`."""
    found = _MOVED.fullmatch(text)
    if found is None:
        raise InputError(
            f"`{text[:100]}` is no move of turns",
            hint="write `{message_contains_any: [commit]} moved from acme:big to acme:small`",
        )
    when, before, after = found.groups()
    if "\n" in when:
        raise InputError("a condition stands on one line")
    return Flip("{}" if when in _EVERY else when, model_id(before), model_id(after))


def rule_text(flip: Flip) -> bytes:
    """Write the condition as the one rule of a policy: its problems are told as a rule's are."""
    return f"schema_version: 1\nrules:\n- use: {EMBEDDED_MODEL}\n  when: {flip.when}\n".encode()


def bisect_flip(
    home: Home,
    flip: Flip,
    condition: TurnPolicy,
    since: Instant = EPOCH,
    progress: Progress | None = None,
) -> Bisection:
    """Find the entries that moved turns; `condition` is a policy of one rule with the condition."""
    if not home.database.exists():
        raise NotFound("nothing is recorded yet")
    with closing(_Bisector(home, compile_policy(condition))) as bisector:
        return bisector.run(flip, since, progress)


class _Bisector:
    def __init__(self, home: Home, condition: CompiledTurnPolicy) -> None:
        self._home = home
        self._condition = condition
        self._replayer = HomeReplayer(home)
        self._policy = cache(self._read_policy)
        self._ready = cache(self._compile)
        self._state = cache(self._read_state)
        self._steps = 0

    def close(self) -> None:
        self._replayer.close()

    def run(self, flip: Flip, since: Instant, progress: Progress | None) -> Bisection:
        seen = sorted(self._find_turns(since, progress), key=lambda e: (e.at, e.chain, e.seq))
        first = next((place for place, each in enumerate(seen) if each.chosen == flip.before), None)
        ends = [
            place
            for place, each in enumerate(seen)
            if each.chosen == flip.after and first is not None and place > first
        ]
        if first is None or not ends:
            raise NotFound(
                f"no such turn moved from {flip.before} to {flip.after}",
                hint=f"{len(seen)} recorded turns meet the condition",
            )
        for end in ends[: -MOST_PROBES - 1 : -1]:
            probe = self._state(seen[end].decision_id)
            if self._gives(probe, self._state(seen[first].decision_id)) == flip.before:
                low, high = self._halve(probe, flip, seen, (first, end))
                causes = self._causes(probe, flip, seen[low], seen[high])
                names = (seen[end].turn_id, seen[low].turn_id, seen[high].turn_id)
                return Bisection(len(seen), self._steps, *names, causes)
        raise NotFound(
            "no state turned these turns: they differ in what they ask",
            hint="narrow the condition, so that the turns are of one kind",
        )

    def _find_turns(self, since: Instant, progress: Progress | None) -> Iterator[_Seen]:
        ranges = ledger_ranges(self._home)
        total, done = sum(each.entries for each in ranges), 0
        for each in ranges:
            rows = [*self._replayer.ledger.decisions(each.number, each.first, each.end, since)]
            for start in range(0, len(rows), BATCH):
                batch = rows[start : start + BATCH]
                self._replayer.expect(facts for _, facts in batch)
                for entry, body in batch:
                    if entry.kind != TURN or body is None:
                        continue
                    _, record, aside = read_recorded(entry.payload)
                    if aside.is_preview or record.decision_version != DECISION_VERSION:
                        continue
                    if self._is_met(FACTS_FORM.decode(body)):
                        chosen = OUTCOME_FORM.decode(bytes(record.outcome)).chosen_model
                        place = (entry.at, each.number, entry.seq)
                        yield _Seen(*place, entry.id, entry.ref, chosen)
            done += each.entries
            if progress is not None:
                progress(done, total)

    def _is_met(self, facts: TurnFacts) -> bool:
        ready = self._condition
        try:
            facts = with_text(facts, self._replayer.text) if ready.reads_text else facts
            (rule,) = ready.scope(None).rules
            return rule.matches(ready.look(facts))
        except ReplayError:
            # Its text was erased: whether it is meant cannot be told.
            return False

    def _halve(
        self, probe: _State, flip: Flip, seen: Sequence[_Seen], between: tuple[int, int]
    ) -> tuple[int, int]:
        """Return two neighbours: under the state of the first the turn goes elsewhere."""
        low, high = between
        while high - low > 1:
            middle = (low + high) // 2
            if self._gives(probe, self._state(seen[middle].decision_id)) == flip.after:
                high = middle
            else:
                low = middle
        return low, high

    def _gives(self, probe: _State, state: _State, parts: Sequence[StatePart] | None = None) -> str:
        """Decide a turn under a state, or with some parts of its own changed to it."""
        self._steps += 1
        moved = [name for part in parts or _FIELDS for name in _FIELDS.get(part, ())]
        values = {name: getattr(state.facts, name) for name in moved}
        policy = state if parts is None or "policy" in parts else probe
        return self._decide(self._ready(policy.policy_id), replace(probe.facts, **values))

    @staticmethod
    def _decide(ready: CompiledTurnPolicy, facts: TurnFacts) -> str:
        return decide(ready, ready.complete(facts))[0].chosen_model

    def _causes(
        self, probe: _State, flip: Flip, before: _Seen, after: _Seen
    ) -> tuple[StateCause, ...]:
        """Find the fewest parts that turn a turn which has the state before."""
        old, new = self._state(before.decision_id), self._state(after.decision_id)
        facts = {name: getattr(old.facts, name) for names in _FIELDS.values() for name in names}
        start = _State(old.policy_id, replace(probe.facts, **facts))
        differing = [part for part in ("policy", *_FIELDS) if _differs(part, old, new)]
        for count in range(1, len(differing) + 1):
            for parts in combinations(differing, count):
                if self._gives(start, new, parts) == flip.after:
                    return tuple(self._cause(part, start, (old, new), (before, after), flip)
                                 for part in parts)  # fmt: skip
        return ()

    def _cause(
        self,
        part: StatePart,
        start: _State,
        states: tuple[_State, _State],
        turns: tuple[_Seen, _Seen],
        flip: Flip,
    ) -> StateCause:
        old, new = states
        if part == "policy":
            then, now = self._policy(old.policy_id), self._policy(new.policy_id)
            fields = self._policy_fields(then, now, start.facts, flip)
            was, became = _policy_text(then, fields), _policy_text(now, fields)
        else:
            fields = tuple(
                name
                for name in _FIELDS[part]
                if getattr(old.facts, name) != getattr(new.facts, name)
            )
            was, became = _facts_text(old.facts, fields), _facts_text(new.facts, fields)
        stored = (
            self._entry_of(part, new, turns)
            or self._replayer.ledger.with_id(turns[1].decision_id)[0]
        )
        entry = stored.entry
        return StateCause(part, fields, was, became, entry.id, entry.kind, entry.at)

    def _policy_fields(
        self, then: TurnPolicy, now: TurnPolicy, facts: TurnFacts, flip: Flip
    ) -> tuple[str, ...]:
        """Name the sections of the policy that turn the turn alone, else all that differ."""
        names = [name for name in asdict(then) if getattr(then, name) != getattr(now, name)]
        alone = []
        for name in names:
            try:
                mixed = compile_policy(replace(then, **{name: getattr(now, name)}))
            except (LookupError, InputError):
                # A section that names models which the other does not have.
                continue
            self._steps += 1
            if self._decide(mixed, facts) == flip.after:
                alone.append(name)
        return tuple(alone or names)

    def _entry_of(
        self, part: StatePart, state: _State, turns: tuple[_Seen, _Seen]
    ) -> Stored | None:
        """Find the entry that changed a part between two turns."""
        ledger, (before, after) = self._replayer.ledger, turns
        if part == "policy":
            return next(iter(ledger.with_id(state.policy_id)), None)
        about = _ENTRIES.get(part)
        if about is None:
            return None
        kinds, is_meant = about
        found = [
            stored
            for kind in kinds
            for stored in ledger.recent(kind, after.at, _LOOK_BACK)
            if is_meant(stored.entry.payload, state.facts)
        ]
        newest = max(found, key=lambda each: (each.entry.at, each.entry.seq), default=None)
        # The world may have turned before the last turn that still went the old way was decided
        # on facts that were gathered earlier: its own calls end after it.
        return newest if newest is None or newest.entry.at >= before.at else None

    def _read_state(self, decision_id: str) -> _State:
        (stored, *_) = self._replayer.ledger.with_id(decision_id)
        self._replayer.check(stored.chain, stored.entry)
        _, record, _ = read_recorded(stored.entry.payload)
        body = self._replayer.ledger.attachment(stored, record.facts_id)
        facts = FACTS_FORM.decode(body)
        # Without its text, only a rule that reads it misses it, and then says so.
        with suppress(MissingSnapshot):
            facts = with_text(facts, self._replayer.text)
        return _State(record.policy_id, facts)

    def _read_policy(self, name: str) -> TurnPolicy:
        body = self._replayer.policy(name)
        check_content(name, body, "policy")
        return POLICY_FORM.form.decode(body)

    def _compile(self, name: str) -> CompiledTurnPolicy:
        return compile_policy(self._policy(name))


def _differs(part: str, old: _State, new: _State) -> bool:
    if part == "policy":
        return old.policy_id != new.policy_id
    fields = next(names for name, names in _FIELDS.items() if name == part)
    return any(getattr(old.facts, name) != getattr(new.facts, name) for name in fields)


class _EndOf(Struct, frozen=True):
    model: str = ""


class _Ended(Struct):
    status: str = ""
    detail: _EndOf = _EndOf()


_ENDED: Final = msgspec.json.Decoder(_Ended)


def _is_health_news(payload: bytes, facts: TurnFacts) -> bool:
    """Tell whether the end of a call fits the health that facts hold of its model."""
    try:
        ended = _ENDED.decode(payload)
    except msgspec.MsgspecError:
        return False
    model = ended.detail.model
    states = {facts.availability.get(model), facts.availability.get(provider_of(model))}
    is_away = not states.isdisjoint(("unavailable", "degraded", "rate_limited"))
    return bool(model) and (ended.status == "failed") == is_away


def _is_any(_payload: bytes, _facts: TurnFacts) -> bool:
    return True


_ENTRIES: Final[Mapping[StatePart, tuple[tuple[str, ...], Callable[[bytes, TurnFacts], bool]]]] = {
    "health": ((OUTCOME,), _is_health_news),
    "learned rows": (("event.feedback.given", "event.turn.judged"), _is_any),
    "budgets": ((OUTCOME,), _is_any),
    "stops": ((ORDERED, LIFTED), _is_any),
}
"""The kinds of entries that change a part of the state, and which of them are meant."""


def _facts_text(facts: TurnFacts, fields: Sequence[str]) -> str:
    shown = {name: getattr(facts, name) for name in fields}
    return _short(msgspec.json.encode(shown).decode())


def _policy_text(policy: TurnPolicy, fields: Sequence[str]) -> str:
    shown = {name: getattr(policy, name) for name in fields}
    return _short(msgspec.json.encode(shown).decode())


def _short(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:399]}…"


def bisection_value(found: Bisection) -> dict[str, object]:
    """Return a bisection as JSON shows it."""
    causes = [{**asdict(each), "at": instant_text(each.at)} for each in found.causes]
    return {**asdict(found), "causes": causes}
