"""The first state of a job: goals opened, every constant filled in, memory empty (004 §8, §11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pointsman.brainstate.constants import Constants, DefaultUsed, fill_defaults
from pointsman.brainstate.events import NewGoal
from pointsman.brainstate.goals import defaults_of, open_goal
from pointsman.brainstate.seeded import brainstate_id, seeded_instant
from pointsman.brainstate.state import EMPTY_CWM, Attention, BrainState, ResourceBudget
from pointsman.kernel.number import Billionths, billionths_text


class StartingAttention(NamedTuple):
    """The modulators a job starts with; None takes the default."""

    attention_gain: Billionths | None = None
    explore_bias: Billionths | None = None
    reward_signal: Billionths | None = None


def create_state(
    job_seed: str,
    goals: Sequence[NewGoal],
    attention: StartingAttention,
    resource_budget: ResourceBudget,
    constants: Mapping[str, int],
    counter: int = 0,
) -> tuple[BrainState, tuple[DefaultUsed, ...]]:
    """Make the first state of a job, and a warning for each default.

    `counter` tells several states of one seed apart. The warnings are in the state as well.
    """
    limits, missing = fill_defaults(constants)
    mind, unsaid = _attention(attention, limits)
    unstated = [each for goal in goals for each in defaults_of(goal, limits)]
    warnings = (*missing, *unsaid, *unstated)
    first = counter + 1
    state = BrainState(
        brainstate_id=brainstate_id(job_seed, counter),
        job_seed=job_seed,
        timestamp=seeded_instant(counter),
        tick=0,
        sequence=first + len(goals),
        goals=tuple(open_goal(goal, limits, 0, first + place) for place, goal in enumerate(goals)),
        wm=(),
        cwm=EMPTY_CWM,
        attention=mind,
        resource_budget=resource_budget,
        tokens_consumed=0,
        recent_failures=(),
        constants=limits,
        warnings=warnings,
        last_updated=seeded_instant(first + len(goals) - 1),
    )
    return state, warnings


def _attention(given: StartingAttention, limits: Constants) -> tuple[Attention, list[DefaultUsed]]:
    defaults = Attention(
        limits.default_attention_gain, limits.default_explore_bias, limits.default_reward_signal
    )
    warnings: list[DefaultUsed] = []
    values: dict[str, Billionths] = {}
    for name, value in given._asdict().items():
        values[name] = getattr(defaults, name) if value is None else value
        if value is None:
            warnings.append(DefaultUsed(f"attention.{name}", billionths_text(values[name])))
    return Attention(**values), warnings
