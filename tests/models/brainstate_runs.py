"""Runs random jobs through the product and keeps what a replay needs."""

import hashlib
import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct
from tests.models import brainstate_jobs as jobs
from tests.models.brainstate_start import read_start

from pointsman.brainstate.events import INPUTS_FORM, TickInputs
from pointsman.brainstate.reading import read_inputs, start_state
from pointsman.brainstate.state import BRAINSTATE_FORM, BrainState
from pointsman.brainstate.tick import tick_state
from pointsman.brainstate.trace import TickTrace
from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.json_text import read_json

TICKS = 12


class EvolutionStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One tick of the course."""

    trace: TickTrace
    state_id: ContentId


class Evolution(Struct, frozen=True, forbid_unknown_fields=True):
    """From a snapshot through every tick. Equal bytes mean an equal course."""

    snapshot_id: ContentId
    steps: tuple[EvolutionStep, ...]


EVOLUTION_FORM = Form(Evolution)


def run_course(state: BrainState, inputs: Iterable[TickInputs]) -> tuple[BrainState, Evolution]:
    """Run a job's inputs through its state; return its last state and its course."""
    first = BRAINSTATE_FORM.id(state)
    steps: list[EvolutionStep] = []
    for each in inputs:
        state, trace = tick_state(state, each)
        steps.append(EvolutionStep(trace, BRAINSTATE_FORM.id(state)))
    return state, Evolution(first, tuple(steps))


class Job(NamedTuple):
    """A job as it was recorded: its snapshot, the inputs of its ticks, and how it went."""

    snapshot: bytes
    inputs: tuple[bytes, ...]
    evolution: bytes


def first(source: random.Random) -> BrainState:
    """Start a random job."""
    state, _ = start_state(read_start(read_json(jobs.text(jobs.start(source)), "start")))
    return state


def given_inputs(source: random.Random, state: BrainState) -> TickInputs:
    """Draw the inputs of a state's next tick."""
    known = [item.wm_id for item in (*state.wm, *state.cwm.items)]
    return read_inputs(read_json(jobs.text(jobs.inputs(source, known)), "inputs"))


def run(seed: int) -> Job:
    """Run one random job and record it."""
    source = random.Random(seed)
    state = begun = first(source)
    inputs = []
    for _ in range(TICKS):
        inputs.append(given_inputs(source, state))
        state, _ = tick_state(state, inputs[-1])
    _, course = run_course(begun, inputs)
    recorded = tuple(INPUTS_FORM.encode(each) for each in inputs)
    return Job(BRAINSTATE_FORM.form.encode(begun), recorded, EVOLUTION_FORM.encode(course))


def replayed(job: Job) -> bytes:
    """Run a recorded job again from its record alone."""
    state = BRAINSTATE_FORM.form.decode(job.snapshot)
    _, course = run_course(state, [INPUTS_FORM.decode(each) for each in job.inputs])
    return EVOLUTION_FORM.encode(course)


def digest(seeds: range) -> str:
    """Give one digest over the courses of many jobs."""
    total = hashlib.sha256()
    for seed in seeds:
        total.update(run(seed).evolution)
    return total.hexdigest()


def differing(seeds: range) -> Iterator[int]:
    """Give the seeds whose replay differs from what was recorded."""
    for seed in seeds:
        job = run(seed)
        if replayed(job) != job.evolution:
            yield seed


if __name__ == "__main__":
    import sys

    begin, end = (int(each) for each in sys.argv[1:3])
    sys.stdout.write(digest(range(begin, end)))
