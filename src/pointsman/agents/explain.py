"""The choice of an agent as text, on one screen of 80 columns, and as the JSON of document 000."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_type_hints

import msgspec
from msgspec import Struct

from pointsman.agents.codes import USER_MESSAGES
from pointsman.agents.trace import (
    AgentOutcome,
    DepthTrace,
    Exclusion,
    Ranked,
    RouteTrace,
    Scored,
    TokenTrace,
)
from pointsman.kernel.columns import WIDTH, cut_line, fold_line, pad_line
from pointsman.kernel.document import printable
from pointsman.kernel.number import SCALE, Billionths, billionths_text

HEIGHT: Final = 24

_FRACTIONS: Final = frozenset(
    name
    for kind in (Ranked, Scored, DepthTrace, TokenTrace, RouteTrace)
    for name, hint in get_type_hints(kind).items()
    if hint is Billionths
)


class ShownRoute(Struct, frozen=True):
    """A choice of an agent with its ids."""

    decision_id: str
    job_id: str
    trace_id: str
    router_snapshot_id: str
    selfrep_snapshot_id: str
    brainstate_snapshot_id: str
    facts_id: str
    decision_version: int
    elapsed_us: int
    outcome: AgentOutcome
    trace: RouteTrace


def to_json(shown: ShownRoute) -> dict[str, object]:
    """Return the answer of `POST /router/decide`, with ordinary numbers."""
    outcome = shown.outcome
    return {
        **answer(outcome, shown.trace),
        "router_snapshot_id": shown.router_snapshot_id,
        "selfrep_snapshot_id": shown.selfrep_snapshot_id,
        "brainstate_snapshot_id": shown.brainstate_snapshot_id,
        "trace_id": shown.trace_id,
        "job_id": shown.job_id,
        "decision_id": shown.decision_id,
        "facts_id": shown.facts_id,
        "decision_version": shown.decision_version,
        "elapsed_ms": shown.elapsed_us / 1000,
    }


def answer(outcome: AgentOutcome, trace: RouteTrace) -> dict[str, object]:
    """Return a decision in document 000's shape; `reason` repeats `reason_tag` (D-000-3)."""
    found: dict[str, object] = {
        "ordered_candidates": [
            {
                "node_id": each.node_id,
                "availability_score": number(each.availability_score),
                "final_score": number(each.final_score),
                "reason_tag": each.reason_tag.value,
                "reason": each.reason_tag.value,
            }
            for each in outcome.ordered_candidates
        ],
        "selected_agent": outcome.selected_agent,
        "reason_tag": None if outcome.reason_tag is None else outcome.reason_tag.value,
        "depth": outcome.depth,
        "token_budget": outcome.token_budget,
        "requires_action_request": outcome.requires_action_request,
        "action_reasons": list(outcome.action_reasons),
        "intent": outcome.intent,
        "required_action": outcome.required_action,
        "router_version": outcome.router_version,
        "route_trace": _with_numbers(msgspec.to_builtins(trace)),
    }
    if outcome.error_code:
        found["error_code"] = outcome.error_code
        found["cause"] = outcome.cause.value
        found["user_message"] = USER_MESSAGES[outcome.error_code]
    return found


def number(value: Billionths) -> float:
    """Return a fraction as an ordinary number, for showing only."""
    return value / SCALE


def _with_numbers(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: each / SCALE if key in _FRACTIONS and type(each) is int else _with_numbers(each)
            for key, each in value.items()
        }
    return [_with_numbers(each) for each in value] if isinstance(value, list | tuple) else value


def to_screen(shown: ShownRoute) -> str:
    """Render a choice: the agent, every candidate that lost, and why."""
    trace = shown.trace
    head = [*_head(shown), "", "Candidates:                     score       avail        apt"]
    foot = [
        "",
        f"decision {shown.decision_id} · version {shown.decision_version}",
        f"router   {shown.router_snapshot_id}",
        f"modules  {shown.selfrep_snapshot_id}",
        f"mind     {shown.brainstate_snapshot_id}",
    ]
    body = [*_score_lines(trace, shown.outcome), *map(_exclusion_line, trace.excluded)]
    hidden = trace.excluded_total - len(trace.excluded)
    room = HEIGHT - len(head) - len(foot)
    if len(body) > room or hidden:
        left = len(body) - (room - 1) + hidden if len(body) >= room else hidden
        body = [*body[: room - 1], f"  … {left} more in --json"]
    lines = [*head, *(body or ["  nobody was asked"]), *foot]
    return "\n".join(cut_line(printable(line)) for line in lines)


def _head(shown: ShownRoute) -> Iterator[str]:
    outcome, trace = shown.outcome, shown.trace
    again = f" · attempt {trace.attempt}" if trace.attempt > 1 else ""
    intent = f" · {outcome.intent}" if outcome.intent else ""
    yield f"Job {shown.job_id}{intent}{again}"
    if outcome.selected_agent is None:
        yield f"Chose: nobody   ({outcome.error_code}: {outcome.cause.meaning})"
        if reason := " ".join(trace.privacy_reason.split()):
            yield from fold_line(f"       {reason}", WIDTH, 0)[:2]
    else:
        yield f"Chose: {outcome.selected_agent}   ({outcome.reason_tag})"
        depth = f"depth {outcome.depth} of {trace.depth.base_depth} ({trace.depth.reason})"
        share = f"{outcome.token_budget} of {trace.tokens.token_budget} tokens"
        yield f"Gets:  {depth}, {share}"
    if outcome.requires_action_request:
        yield f"Needs an action request: {'; '.join(outcome.action_reasons)}"


def _score_lines(trace: RouteTrace, outcome: AgentOutcome) -> Iterator[str]:
    for each in trace.scored:
        mark = ">" if each.node_id == outcome.selected_agent else " "
        numbers = (each.final_score, each.availability_score, each.apt)
        columns = " ".join(f"{billionths_text(value):>11}" for value in numbers)
        tie = f", behind by {each.tie_break}" if each.tie_break else ""
        needs = f", needs {', '.join(each.unhealthy_dependencies)}"
        note = each.reason_tag.value + tie + (needs if each.unhealthy_dependencies else "")
        yield f"{mark} {_name(each.node_id)} {columns}  {note}"


def _exclusion_line(each: Exclusion) -> str:
    detail = f": {each.detail}" if each.detail else ""
    return f"x {_name(each.node_id)} {each.reason.meaning}{detail}"


def _name(node_id: str) -> str:
    most = 22
    return pad_line(cut_line(node_id, most), most)
