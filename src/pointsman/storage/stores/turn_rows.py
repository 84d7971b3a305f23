"""What the ledger says of turns, as rows to be added, and what a few of them add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pointsman.kernel.instant import SECOND, Instant

BUCKET: Final = 300 * SECOND
"""Five minutes: what counts over time are kept by."""


class TurnMade(Struct, frozen=True):
    """A turn as it was decided; empty texts where there is nothing."""

    at: Instant
    turn_id: str
    decision_id: str
    session_id: str
    model: str
    policy: str
    rule: str
    workspace: str
    digest: str
    gate: str
    placement_rule: str
    rejected: int
    is_preview: bool
    is_worker: bool
    rules_in_vain: tuple[str, ...] = ()
    tenant: str = ""


class LaterMade(Struct, frozen=True):
    """Another model took a turn over, or was asked: a fallback, the user, a second opinion."""

    turn_id: str
    decision_id: str
    model: str
    is_fallback: bool = True


class CallMade(Struct, frozen=True):
    """A call of a turn ended."""

    decision_id: str
    model: str
    is_failed: bool
    error_class: str
    cost_microusd: int
    input_tokens: int
    output_tokens: int
    elapsed_us: int
    first_byte_us: int = 0


class RefusalMade(Struct, frozen=True):
    """A call that would have gone on in its turn was kept from its model by its placement."""

    turn_id: str


class WorkerMade(Struct, frozen=True):
    """A session handed work to another."""

    parent: str
    worker: str


Row = TurnMade | LaterMade | CallMade | RefusalMade | WorkerMade


Bound = tuple[str | int, ...] | dict[str, str | int]


class _Session:
    """What a few turns and calls add to a session, in the order they happened."""

    def __init__(self, at: Instant, tenant: str) -> None:
        self.tenant = tenant
        self.first = self.last = at
        self.turns = self.fallbacks = self.switches = self.calls = self.cost = self.worker = 0
        self.began = self.model = ""

    def goes_to(self, model: str) -> None:
        """Note which model takes it now; one that none takes changes nothing."""
        if model:
            self.switches += bool(self.model) and self.model != model
            self.began = self.began or model
            self.model = model

    def parameters(self, name: str) -> dict[str, str | int]:
        return {
            "session": name, "first": self.first, "last": self.last, "turns": self.turns,
            "fallbacks": self.fallbacks, "switches": self.switches, "began": self.began,
            "model": self.model, "calls": self.calls, "cost": self.cost, "worker": self.worker,
            "tenant": self.tenant,
        }  # fmt: skip


class TurnSums:
    """What a few rows add to each sum: written once for all of them, not row by row."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[int, str, str], list[int]] = {}
        self._rules: dict[tuple[str, str], list[int]] = {}
        self._facets: Counter[tuple[str, str, str]] = Counter()
        self._sessions: dict[str, _Session] = {}

    def add_turn(self, row: TurnMade) -> None:
        """Count a turn; a preview is none."""
        for what in ("model", "policy", "rule", "workspace"):
            if getattr(row, what):
                self._facets[what, getattr(row, what), row.tenant] += 1
        if row.is_preview:
            return
        self._bucket(row.at, row.model, row.tenant)[0] += 1
        for rule, place in (*((each, 1) for each in row.rules_in_vain), (row.rule, 0)):
            if rule:
                sums = self._rules.setdefault((rule, row.tenant), [0, 0, 0])
                sums[place] += 1
                sums[2] = max(sums[2], row.at)
        if row.session_id:
            session = self._session(row.session_id, row.at, row.tenant)
            session.turns += 1
            session.worker = max(session.worker, int(row.is_worker))
            session.goes_to(row.model)

    def add_later(self, at: Instant, session_id: str, tenant: str, row: LaterMade) -> None:
        """Count that another model took a turn over."""
        self._bucket(at, row.model, tenant)[1] += row.is_fallback
        if session_id:
            session = self._session(session_id, at, tenant)
            session.fallbacks += row.is_fallback
            session.goes_to(row.model)

    def add_call(self, at: int, session_id: str, tenant: str, row: CallMade) -> None:
        """Count a call of a turn that was decided at an instant."""
        self._bucket(Instant(at), row.model, tenant)[2] += row.cost_microusd
        if session_id:
            session = self._session(session_id, Instant(at), tenant)
            session.calls += 1
            session.cost += row.cost_microusd

    def statements(self) -> Iterator[tuple[str, Bound]]:
        """Return the rows to write: the name of a statement, and its values."""
        for bucket, sums in self._buckets.items():
            yield "add_bucket", (*bucket, *sums)
        for rule, sums in self._rules.items():
            yield "add_rule", (*rule, *sums)
        for value, turns in self._facets.items():
            yield "add_facet", (*value, turns)
        for name, session in self._sessions.items():
            yield "add_session", session.parameters(name)

    def _bucket(self, at: Instant, model: str, tenant: str) -> list[int]:
        return self._buckets.setdefault((at // BUCKET, model, tenant), [0, 0, 0])

    def _session(self, name: str, at: Instant, tenant: str) -> _Session:
        found = self._sessions.setdefault(name, _Session(at, tenant))
        found.first, found.last = min(found.first, at), max(found.last, at)
        return found
