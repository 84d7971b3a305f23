"""What people read about a tick."""

from pointsman.brainstate.created import StartingAttention, created
from pointsman.brainstate.events import ActionWished, Inputs, Insertion, RepairLooped
from pointsman.brainstate.explain import explained
from pointsman.brainstate.state import ResourceBudget
from pointsman.brainstate.tick import ticked

STATE, _ = created("seed", (), StartingAttention(), ResourceBudget(2048, 3), {})


def test_a_tick_is_told_line_by_line() -> None:
    events = (RepairLooped("nobody"), ActionWished("sem_write", "agent:a", "{}"))
    inputs = Inputs(False, True, (Insertion("fact", '"secret words"', wm_id="w1"),), events)
    _, trace = ticked(STATE, inputs)
    assert explained(trace).splitlines() == [
        "tick 0 of bs:seed:0",
        "reward 0: the council rejected, an upvote, which does not count",
        "attention_gain 0.5 → 0.475",
        "explore_bias 0.15 → 0.2955",
        "wm_inserted w1: no equal item was in memory (ttl_ticks 3)",
        "ignored nobody: no goal goes by this id (repair_loop)",
        "action_wished agent:a: an event asks for it (sem_write)",
        f"wish {trace.wishes[0].action_id[:12]}: {trace.wishes[0].justification}",
    ]


def test_what_callers_name_cannot_move_a_cursor() -> None:
    _, trace = ticked(STATE, Inputs(wm=(Insertion("fact", "1", wm_id="\x1b[2J\n"),)))
    assert "\x1b" not in explained(trace)
    assert len(explained(trace).splitlines()) == 5


def test_silence_is_told() -> None:
    _, trace = ticked(STATE, Inputs(True))
    assert "reward 0.8: the council approved, the user said nothing" in explained(trace)
