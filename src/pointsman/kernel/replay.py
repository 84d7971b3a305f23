"""Replay: run a recorded decision again on its recorded inputs, and compare bytes.

A registry holds the pure functions by kind and decision version; old versions stay in it, so that
every release can re-run what every release before it decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import MissingSnapshot, ReplayError, UnknownDecision
from pointsman.kernel.canonical import Form, check_content
from pointsman.kernel.content import Texts
from pointsman.kernel.document import Json
from pointsman.kernel.record import DECISION_FORM, DecisionRecord, Room, read_recorded

P = TypeVar("P")
R = TypeVar("R")
F = TypeVar("F")


class Decided(NamedTuple):
    """What a decide function says, as canonical bytes."""

    outcome: bytes
    trace: bytes


Decide = Callable[[bytes, Texts], Decided]
"""Decides on the bytes of recorded facts, under a policy that was read before."""

Policies = Callable[[str], bytes]
"""Returns a verified snapshot's body by its content id, or raises a ReplayError."""


def no_snapshots(name: str) -> bytes:
    """Stand in where no ledger is at hand."""
    raise MissingSnapshot(f"the snapshot `{name}` is not at hand")


class Decider(Protocol):
    """One decide function, reading and giving bytes."""

    kind: Room
    version: int

    def under(self, policy: bytes, snapshots: Policies) -> Decide:
        """Read a recorded policy once, for all the decisions made under it.

        `snapshots` gives what facts name beside the policy.
        """
        ...


class PureDecider(Generic[P, R, F]):
    """A room's `decide` with the forms of its policy and facts.

    `ready` makes a policy ready once, for all decisions under it; `opened` gives recorded facts
    their texts back where the policy reads them.
    """

    def __init__(
        self,
        kind: Room,
        version: int,
        forms: tuple[Form[P], Form[F]],
        ready: Callable[[P], R],
        decide: Callable[[R, F], Decided],
        opened: Callable[[R, F, Texts], F],
    ) -> None:
        self.kind = kind
        self.version = version
        self._policy, self._facts = forms
        self._make_ready = ready
        self._decide = decide
        self._opened = opened

    def under(self, policy: bytes, snapshots: Policies = no_snapshots) -> Decide:
        """Read a recorded policy once, for all the decisions made under it."""
        del snapshots
        ready = self._make_ready(self._policy.decode(policy))

        def run(facts: bytes, texts: Texts) -> Decided:
            return self._decide(ready, self._opened(ready, self._facts.decode(facts), texts))

        return run


class Difference(Struct, frozen=True):
    """One place where the recorded and the found value differ; None stands for absent, too."""

    path: str
    recorded: Json
    found: Json


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
        """Return the function that made decisions of this kind and version."""
        found = self._deciders.get((kind, version))
        if found is None:
            raise UnknownDecision(f"no code for `{kind}` decisions of version {version}")
        return found


class Replayer:
    """Re-runs decisions one after the other, reading each policy once."""

    def __init__(self, registry: Registry, policies: Policies, texts: Texts) -> None:
        self._registry = registry
        self._policies = policies
        self._texts = texts
        self._ready: dict[tuple[str, int, str], Decide] = {}

    def replay(self, decision_id: str, payload: bytes, facts: bytes | None) -> Replayed:
        """Run one recorded decision again; whatever stands in the way is a value, not an error."""
        kind = ""
        try:
            recorded, record, _ = read_recorded(payload)
            kind = record.kind
            found = self._decided_again(record, facts)
        except ReplayError as error:
            return Replayed(decision_id, kind, Verdict.UNABLE, error.code, error.message)
        if found == recorded:
            return Replayed(decision_id, kind, Verdict.IDENTICAL)
        rows = tuple(differences(msgspec.json.decode(recorded), msgspec.json.decode(found)))
        return Replayed(decision_id, kind, Verdict.DIVERGED, "REPLAY_DIVERGENCE", "", rows)

    def _decided_again(self, record: DecisionRecord, facts: bytes | None) -> bytes:
        if facts is None:
            raise MissingSnapshot(f"the facts `{record.facts_id}` are not stored")
        check_content(record.facts_id, facts, "facts")
        outcome, trace = self._decide(record)(facts, self._texts)
        return DECISION_FORM.encode(
            msgspec.structs.replace(record, outcome=Raw(outcome), trace=Raw(trace))
        )

    def _decide(self, record: DecisionRecord) -> Decide:
        key = (record.kind, record.decision_version, record.policy_id)
        ready = self._ready.get(key)
        if ready is None:
            decider = self._registry.decider(record.kind, record.decision_version)
            policy = self._policies(record.policy_id)
            check_content(record.policy_id, policy, "policy")
            ready = self._ready[key] = decider.under(policy, self._policies)
        return ready


def differences(recorded: Json, found: Json, path: str = "") -> list[Difference]:
    """List where two values differ, in the recorded value's order."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return _member_differences(recorded, found, path)
    if isinstance(recorded, list) and isinstance(found, list):
        return _member_differences(_by_index(recorded), _by_index(found), path)
    same = type(recorded) is type(found) and recorded == found
    return [] if same else [Difference(path or "$", recorded, found)]


def _by_index(items: list[Json]) -> dict[str, Json]:
    return {f"[{index}]": item for index, item in enumerate(items)}


def _member_differences(
    recorded: Mapping[str, Json], found: Mapping[str, Json], path: str
) -> list[Difference]:
    rows: list[Difference] = []
    for key in dict.fromkeys([*recorded, *found]):
        inner = path + key if key.startswith("[") else f"{path}.{key}".removeprefix(".")
        rows += differences(recorded.get(key), found.get(key), inner)
    return rows
