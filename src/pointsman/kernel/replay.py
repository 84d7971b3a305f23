"""Replay: run a recorded decision again on its recorded inputs, and compare bytes.

A registry holds the pure functions by kind and decision version; old versions stay in it, so that
every release can re-run what every release before it decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import ReplayError, UnknownDecision
from pointsman.kernel.canonical import Form, check_content
from pointsman.kernel.content import Texts
from pointsman.kernel.difference import Difference, differences
from pointsman.kernel.record import DECISION_FORM, DecisionRecord, Room, read_recorded

P = TypeVar("P")
F = TypeVar("F")


class Decided(NamedTuple):
    """What a decide function says, as canonical bytes."""

    outcome: bytes
    trace: bytes


class Decider(Protocol):
    """One decide function, reading and giving bytes."""

    kind: Room
    version: int

    def run(self, policy: bytes, facts: bytes, texts: Texts) -> Decided:
        """Decide on recorded bytes."""
        ...


class PureDecider(Generic[P, F]):
    """A room's `decide` with the forms of its policy and facts."""

    def __init__(
        self,
        kind: Room,
        version: int,
        forms: tuple[Form[P], Form[F]],
        decide: Callable[[P, F], Decided],
        opened: Callable[[F, Texts], F],
    ) -> None:
        self.kind = kind
        self.version = version
        self._policy, self._facts = forms
        self._decide = decide
        self._opened = opened

    def run(self, policy: bytes, facts: bytes, texts: Texts) -> Decided:
        """Decide on recorded bytes."""
        stored = self._facts.decode(facts)
        return self._decide(self._policy.decode(policy), self._opened(stored, texts))


class Inputs(Protocol):
    """Where recorded inputs are read from; each raises a ReplayError when it cannot serve."""

    def policy(self, name: str) -> bytes:
        """Give a verified policy snapshot's body."""
        ...

    def facts(self, name: str) -> bytes:
        """Give the bytes of recorded facts."""
        ...

    @property
    def texts(self) -> Texts:
        """Give sealed texts back."""
        ...


class Verdict(StrEnum):
    """How a replay ended."""

    IDENTICAL = "identical"
    DIVERGED = "REPLAY_DIVERGENCE"
    UNABLE = "unable"


class Replayed(Struct, frozen=True):
    """The result of one replay; `code` and `reason` say why one could not run."""

    decision_id: str
    kind: str
    verdict: Verdict
    code: str = ""
    reason: str = ""
    differences: tuple[Difference, ...] = ()


class Registry:
    """The decide functions by kind and decision version."""

    def __init__(self, deciders: Iterable[Decider]) -> None:
        self._deciders: dict[tuple[str, int], Decider] = {
            (each.kind, each.version): each for each in deciders
        }

    def decider(self, kind: str, version: int) -> Decider:
        """Give the function that made decisions of this kind and version."""
        found = self._deciders.get((kind, version))
        if found is None:
            raise UnknownDecision(f"no code for `{kind}` decisions of version {version}")
        return found

    def replay(self, decision_id: str, payload: bytes, inputs: Inputs) -> Replayed:
        """Run one recorded decision again; whatever stands in the way is a value, not an error."""
        kind = ""
        try:
            recorded, record, _ = read_recorded(payload)
            kind = record.kind
            found = self._decided_again(record, inputs)
        except ReplayError as error:
            return Replayed(decision_id, kind, Verdict.UNABLE, error.code, error.message)
        if found == recorded:
            return Replayed(decision_id, kind, Verdict.IDENTICAL)
        rows = tuple(differences(msgspec.json.decode(recorded), msgspec.json.decode(found)))
        return Replayed(decision_id, kind, Verdict.DIVERGED, "REPLAY_DIVERGENCE", "", rows)

    def _decided_again(self, record: DecisionRecord, inputs: Inputs) -> bytes:
        decider = self.decider(record.kind, record.decision_version)
        policy, facts = inputs.policy(record.policy_id), inputs.facts(record.facts_id)
        check_content(record.policy_id, policy, "policy")
        check_content(record.facts_id, facts, "facts")
        outcome, trace = decider.run(policy, facts, inputs.texts)
        return DECISION_FORM.encode(
            msgspec.structs.replace(record, outcome=Raw(outcome), trace=Raw(trace))
        )
