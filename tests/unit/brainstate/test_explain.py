"""What people read about a tick."""

from pointsman.brainstate.events import ActionWished, Insertion, RepairLooped, TickInputs
from pointsman.brainstate.explain import to_screen
from pointsman.brainstate.reading import StartingAttention, create_state
from pointsman.brainstate.state import ResourceBudget
from pointsman.brainstate.tick import tick_state

STATE, _ = create_state("seed", (), StartingAttention(), ResourceBudget(2048, 3), {})


def test_a_tick_is_told_line_by_line() -> None:
    events = (RepairLooped("nobody"), ActionWished("sem_write", "agent:a", "{}"))
    inputs = TickInputs(False, True, (Insertion("fact", '"secret words"', wm_id="w1"),), events)
    _, trace = tick_state(STATE, inputs)
    assert to_screen(trace).splitlines() == [
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
    _, trace = tick_state(STATE, TickInputs(wm=(Insertion("fact", "1", wm_id="\x1b[2J\n"),)))
    assert "\x1b" not in to_screen(trace)
    assert len(to_screen(trace).splitlines()) == 5


def test_silence_is_told() -> None:
    _, trace = tick_state(STATE, TickInputs(True))
    assert "reward 0.8: the council approved, the user said nothing" in to_screen(trace)
