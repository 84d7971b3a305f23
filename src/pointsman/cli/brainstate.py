"""`brainstate`: what a job has in mind, and one step on."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from pointsman.brainstate.hints import routing_hints
from pointsman.brainstate.reading import read_inputs
from pointsman.brainstate.state import BrainState
from pointsman.brainstate.trace import TickTrace
from pointsman.brainstate.view import JSON, hints_view, state_view
from pointsman.cli.terms import MOST_INPUT, Session, command, read_input
from pointsman.kernel.columns import cut_line, pad_line
from pointsman.kernel.document import DocumentLimits, printable
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import billionths_text


@click.group()
def brainstate() -> None:
    """What a job has in mind."""


@brainstate.command()
@click.argument("name", metavar="ID")
@command
def show(session: Session, name: str) -> None:
    """Show a recorded state in full, and its advice to the router."""
    with session.open() as pointsman:
        state = pointsman.agency.brainstate(name)
    hints = _plain(hints_view(routing_hints(state)))
    value = {
        "brainstate_snapshot_id": name,
        "brainstate": _plain(state_view(state)),
        "hints": hints,
    }
    session.show("\n".join(_lines(name, state)), value)


@brainstate.command()
@click.argument("name", metavar="ID")
@click.option("--inputs", "given", required=True, metavar="FILE|-",
              help="Votes, feedback, items for memory and events, as JSON.")  # fmt: skip
@command
def tick(session: Session, name: str, given: str) -> None:
    """Advance a recorded state by one tick; what it wishes for is asked for, not done."""
    inputs = read_inputs(read_json(*read_input(given), DocumentLimits(bytes=MOST_INPUT)))
    with session.open(create=True) as pointsman:
        made = pointsman.agency.tick(name, inputs)
    value = {
        "brainstate_snapshot_id": made.id,
        "brainstate": _plain(state_view(made.state)),
        "happenings": [
            _happening(made.trace, index) for index in range(len(made.trace.happenings))
        ],
        "action_requests": made.action_requests,
    }
    lines = [*_tick_lines(made.trace), "", *_lines(made.id, made.state)]
    lines += [f"request    {each}" for each in made.action_requests]
    session.show("\n".join(map(printable, lines)), value)


def _plain(value: object) -> object:
    return msgspec.json.decode(JSON.encode(value))


def _happening(trace: TickTrace, index: int) -> dict[str, str]:
    each = trace.happenings[index]
    return {
        "event_id": each.event_id,
        "event_type": each.event_type,
        "subject": each.subject,
        "why": each.why.value,
        "detail": each.detail,
    }


def _tick_lines(trace: TickTrace) -> Iterator[str]:
    for each in trace.happenings:
        yield f"{each.event_type:<16} {pad_line(cut_line(each.subject, 24), 24)} {each.why.meaning}"
    yield f"tick {trace.tick}: reward {billionths_text(trace.reward.value)}"


def _lines(name: str, state: BrainState) -> Iterator[str]:
    mind, budget = state.attention, state.resource_budget
    hints = routing_hints(state)
    yield f"mind       {name}"
    yield f"state      {state.brainstate_id}, next tick {state.tick}"
    marks = ("attention_gain", "explore_bias", "reward_signal")
    told = ", ".join(f"{each} {billionths_text(getattr(mind, each))}" for each in marks)
    yield f"attention  {told}"
    yield f"budget     {state.tokens_consumed} of {budget.token_budget} tokens used"
    yield f"depth      {hints.max_depth_allowed} of {budget.max_depth_allowed}"
    for goal in state.goals:
        priority = billionths_text(goal.priority)
        yield f"goal       {goal.goal_id}: {goal.type}, {goal.status}, priority {priority}"
    for item in state.wm:
        yield f"memory     {item.type}: {item.value[:50]} (ttl {item.ttl_ticks})"
    for held in state.cwm.items:
        yield f"held       {held.type}: {held.value[:50]}"
    for failure in state.recent_failures:
        yield f"failed     {failure.node_id}: {failure.reason[:50]}"
