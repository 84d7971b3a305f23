"""A job's whole course of mind: each tick's trace and the id of the state it led to (004 §8)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pointsman.brainstate.events import Inputs
from pointsman.brainstate.snapshot import snapshot_id
from pointsman.brainstate.state import BrainState
from pointsman.brainstate.tick import ticked
from pointsman.brainstate.trace import TickTrace
from pointsman.kernel.canonical import ContentId, Form


class Step(Struct, frozen=True, forbid_unknown_fields=True):
    """One tick of the course."""

    trace: TickTrace
    state_id: ContentId


class Evolution(Struct, frozen=True, forbid_unknown_fields=True):
    """From a snapshot through every tick. Equal bytes mean an equal course."""

    snapshot_id: ContentId
    steps: tuple[Step, ...]


EVOLUTION_FORM = Form(Evolution)


def evolved(state: BrainState, inputs: Iterable[Inputs]) -> tuple[BrainState, Evolution]:
    """Run a job's inputs through its state; give where it ended and how it came there."""
    first = snapshot_id(state)
    steps: list[Step] = []
    for each in inputs:
        state, trace = ticked(state, each)
        steps.append(Step(trace, snapshot_id(state)))
    return state, Evolution(first, tuple(steps))
