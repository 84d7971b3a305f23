"""A job as text on one screen, and as JSON with ordinary numbers; a verdict apart from both."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pointsman.agents.explain import number
from pointsman.jobs.jobs import JobResult
from pointsman.jobs.log import FinalOutput, Iteration, ReflectiveLog, VoteCast
from pointsman.jobs.replay import JobVerdict
from pointsman.kernel.columns import cut_line, pad_line
from pointsman.kernel.document import printable
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import billionths_text

SHOWN_TEXT = 2_000
AXES = ("correctness", "relevance", "safety", "coherence")


def job_value(result: JobResult, *, with_text: bool = True) -> dict[str, object]:
    """Return a job as JSON; without its text for callers who may only see its course."""
    log = result.log
    value = log_value(log)
    value |= {"prev_hash": result.prev_hash, "hash": result.hash, "is_resumed": result.is_resumed}
    if with_text:
        value["text"] = result.text
    return value


def log_value(log: ReflectiveLog) -> dict[str, object]:
    """Return a log as JSON; it holds no text of the query or the answers."""
    value: dict[str, object] = msgspec.to_builtins(log)
    outcome = log.router_decision
    return value | {
        "created_at_seeded": instant_text(log.created_at_seeded),
        "router_decision": msgspec.to_builtins(outcome)
        | {
            "ordered_candidates": [
                {
                    "node_id": each.node_id,
                    "availability_score": number(each.availability_score),
                    "final_score": number(each.final_score),
                    "reason_tag": each.reason_tag.value,
                }
                for each in outcome.ordered_candidates
            ]
        },
        "iteration_trace": [_iteration(each) for each in log.iteration_trace],
        "council_votes": [_vote(each) for each in log.council_votes],
        "final_output": None if log.final_output is None else _final(log.final_output),
    }


def _iteration(each: Iteration) -> dict[str, object]:
    value: dict[str, object] = msgspec.to_builtins(each)
    return value | {"council_votes": [_vote(vote) for vote in each.council_votes]}


def _vote(vote: VoteCast) -> dict[str, object]:
    value: dict[str, object] = msgspec.to_builtins(vote)
    return value | {axis: number(getattr(vote, axis)) for axis in AXES}


def _final(final: FinalOutput) -> dict[str, object]:
    value: dict[str, object] = msgspec.to_builtins(final)
    return value | {"confidence": None if final.confidence is None else number(final.confidence)}


def verdict_value(verdict: JobVerdict) -> dict[str, object]:
    """Return a verdict as JSON."""
    value: dict[str, object] = msgspec.to_builtins(verdict)
    return value | {"is_identical": verdict.is_identical}


def job_screen(result: JobResult) -> str:
    """Render a job: each agent that was called, its result, and the answer."""
    log = result.log
    again = ", resumed" if result.is_resumed else ""
    lines = [f"Job {log.job_id}: {log.status}{again}", ""]
    for each in log.iteration_trace:
        lines += _iteration_lines(each)
    lines += [f"error    {each.code}: {each.detail}" for each in log.errors]
    lines += [f"warning  {each}" for each in log.warnings]
    lines += [f"request  {each}" for each in log.action_requests]
    lines += ["", f"log      {log.log_id}", f"modules  {log.snapshot_ids['selfrep']}"]
    lines += [f"mind     {log.brainstate_before}", f"      -> {log.brainstate_after}"]
    head = "\n".join(cut_line(printable(line)) for line in lines)
    return head if result.text is None else f"{head}\n\n{_answer(result.text)}"


def _iteration_lines(each: Iteration) -> Iterator[str]:
    out = each.router_output
    who = each.agent_id or "nobody"
    budget = f"depth {out.depth}, {out.token_budget} tokens" if each.agent_id else ""
    yield f"{each.number:>3}  {pad_line(who, 24)} {each.status:<16} {budget}"
    if each.reason:
        yield f"     {each.reason}"
    for vote in each.council_votes:
        marks = ", ".join(f"{axis} {billionths_text(getattr(vote, axis))}" for axis in AXES)
        said = "approves" if vote.approve else "rejects"
        yield f"     {vote.voter} {said}: {marks}"


def _answer(text: str) -> str:
    lines = [printable(line) for line in text[:SHOWN_TEXT].splitlines()]
    more = "" if len(text) <= SHOWN_TEXT else "\n… the rest in --json"
    return "\n".join(lines) + more


def verdict_screen(verdict: JobVerdict) -> str:
    """Render a verdict; it holds no text of the query or the answers."""
    said = "identical" if verdict.is_identical else f"{verdict.verdict.value}: {verdict.code}"
    lines = [f"job {verdict.job_id} ({verdict.log_id}): {said}"]
    if verdict.reason:
        lines.append(f"  {verdict.reason}")
    count = len(verdict.steps)
    lines.append(f"  {verdict.iterations} iterations, {count} steps came out the same")
    return "\n".join(cut_line(printable(line)) for line in lines)
