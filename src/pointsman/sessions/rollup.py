"""The cost of a session: its planner and its workers, as a tree. Document 002 §6.7."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.sessions.message import SessionMessage


class ModelShare(Struct, frozen=True):
    """The share of one model in a session."""

    model: str
    cost_microusd: MicroUsd
    turns: int


class WorkerShare(Struct, frozen=True):
    """The share of one worker."""

    tool_use_id: str
    session_id: str
    model: str
    cost_microusd: MicroUsd
    turns: int


class Rollup(Struct, frozen=True):
    """A session's cost. INVARIANT: the total is the sum of the usage of all its messages."""

    session_id: str
    planner: tuple[ModelShare, ...]
    workers: tuple[WorkerShare, ...]

    @property
    def planner_microusd(self) -> MicroUsd:
        """The cost of the planner."""
        return MicroUsd(sum(each.cost_microusd for each in self.planner))

    @property
    def workers_microusd(self) -> MicroUsd:
        """The cost of the workers."""
        return MicroUsd(sum(each.cost_microusd for each in self.workers))

    @property
    def total_microusd(self) -> MicroUsd:
        """The cost of the session."""
        return MicroUsd(self.planner_microusd + self.workers_microusd)


class WorkerMessages(Struct, frozen=True):
    """A worker's session with its messages."""

    session_id: str
    tool_use_id: str
    messages: tuple[SessionMessage, ...]


def rollup(
    session_id: str, messages: Iterable[SessionMessage], workers: Iterable[WorkerMessages]
) -> Rollup:
    """Add up the usage of a session's messages, and of its workers'."""
    shares = tuple(worker_share(each) for each in workers)
    return Rollup(session_id, Shares(messages).by_model(), shares)


def rollup_text(found: Rollup) -> str:
    """Draw the tree."""
    turns = sum(each.turns for each in found.planner)
    models = ", ".join(each.model for each in found.planner) or "no model yet"
    branch, cost = "├" if found.workers else "└", dollars_text(found.planner_microusd)
    lines = [
        f"Session {found.session_id} — total ${dollars_text(found.total_microusd)}",
        f"{branch}─ planner ({models}): ${cost}, {_count(turns, 'turn')}",
    ]
    if found.workers:
        count = _count(len(found.workers), "delegation")
        lines.append(f"└─ workers: ${dollars_text(found.workers_microusd)}, {count}")
    for index, each in enumerate(found.workers):
        branch = "└" if index == len(found.workers) - 1 else "├"
        cost, turns_of = dollars_text(each.cost_microusd), _count(each.turns, "turn")
        name = each.model or "no model"
        lines.append(f"   {branch}─ {each.tool_use_id} → {name}: ${cost}, {turns_of}")
    return "\n".join(lines)


class Shares:
    """Adds up the shares of models, message by message; a turn's messages come together."""

    def __init__(self, messages: Iterable[SessionMessage] = ()) -> None:
        self._found: dict[str, ModelShare] = {}
        self._turn: dict[str, str] = {}
        self.add(messages)

    def add(self, messages: Iterable[SessionMessage]) -> None:
        """Count more messages."""
        for message in messages:
            model, usage = message.metadata.model, message.metadata.usage
            if model is None:
                continue
            known = self._found.get(model, ModelShare(model, MicroUsd(0), 0))
            cost = known.cost_microusd + (0 if usage is None else usage.cost_microusd)
            turns = known.turns + (self._turn.get(model) != message.turn_id)
            self._found[model] = ModelShare(model, MicroUsd(cost), turns)
            self._turn[model] = message.turn_id

    def by_model(self) -> tuple[ModelShare, ...]:
        """Return the share of each model, in the order they first spoke."""
        return tuple(self._found.values())


def worker_share(found: WorkerMessages) -> WorkerShare:
    """Return the share of one worker."""
    shares = Shares(found.messages).by_model()
    cost = MicroUsd(sum(each.cost_microusd for each in shares))
    turns = len({each.turn_id for each in found.messages})
    model = shares[-1].model if shares else ""
    return WorkerShare(found.tool_use_id, found.session_id, model, cost, turns)


def dollars_text(amount: MicroUsd) -> str:
    """Return an amount in dollars with at least two decimals."""
    whole, _, part = microusd_text(amount).partition(".")
    return f"{whole}.{part.ljust(2, '0')}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
