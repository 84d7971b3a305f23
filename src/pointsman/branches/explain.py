"""The why-screen of a branch: one decision as text, at most 24 lines of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from pointsman.branches.trace import BranchOutcome, CaseResult, ReadValue, Trace
from pointsman.kernel.columns import cut_line
from pointsman.kernel.document import printable
from pointsman.kernel.instant import Instant, instant_text

HEIGHT = 24

_MOST_READ = 4
_FOOT = 3


class ShownBranch(Struct, frozen=True):
    """A branch decision with the names it goes by."""

    decision_id: str
    at: Instant
    policy_id: str
    facts_id: str
    decision_version: int
    name: str
    outcome: BranchOutcome
    trace: Trace


def branch_screen(shown: ShownBranch) -> str:
    """Render a decision."""
    outcome, trace = shown.outcome, shown.trace
    head = [
        f"Decision {outcome.decision_id} · {shown.name} · {instant_text(shown.at)}",
        _chose(outcome),
        *_stopped(outcome),
        *_inputs(trace),
        "",
        "Cases:" if trace.cases else "Cases: not kept",
    ]
    foot = [
        f"decision {shown.decision_id} · version {shown.decision_version}",
        f"policy   {shown.policy_id}",
        f"facts    {shown.facts_id}",
    ]
    room = HEIGHT - len(head) - _FOOT - 1
    body = [line for case in trace.cases for line in _case(case, outcome)]
    lines = [*head, *_fitted(body, trace, outcome, room), "", *foot]
    return "\n".join(cut_line(printable(line)) for line in lines)


def _chose(outcome: BranchOutcome) -> str:
    targets = ", ".join(outcome.selected_targets) or "nothing"
    labels = ", ".join(outcome.selected_labels)
    return f"Chose: {targets}   ({labels}: {outcome.reason.replace('_', ' ')})"


def _stopped(outcome: BranchOutcome) -> Iterator[str]:
    if outcome.verdict in {"block", "escalate"}:
        word = "Blocked" if outcome.blocked else "Escalated"
        yield f"{word}: would have gone to {', '.join(outcome.chosen_targets)}"
    if outcome.approval_required:
        yield f"Waits for approval of {', '.join(outcome.approval_required)}"
    for check in outcome.guardrails:
        if not check.passed:
            yield f"  {check.check_name}: {check.message}"
    if outcome.weighted is not None:
        placed = outcome.weighted
        yield f"Slot {placed.slot} of {placed.total_weight} by {placed.method}, salt {placed.salt}"


def _inputs(trace: Trace) -> Iterator[str]:
    if trace.input_missing:
        yield f"Input: missing {', '.join(trace.input_missing)}"
    elif trace.input_reason:
        yield f"Input: {trace.input_reason}"
    for each in trace.read[:_MOST_READ]:
        yield f"  {each.path} = {_value(each)}"
    if len(trace.read) > _MOST_READ:
        yield f"  … {len(trace.read) - _MOST_READ} more values in --json"


def _value(read: ReadValue) -> str:
    if read.is_missing:
        return "missing"
    text = read.content_id or bytes(read.value).decode()
    # A decimal is recorded as a tagged text.
    return text[3:-1] if text.startswith('"d:') else text


def _case(case: CaseResult, outcome: BranchOutcome) -> Iterator[str]:
    mark = ">" if case.index in outcome.selected_indexes else " "
    condition = f"  {case.condition}" if case.condition else ""
    weight = f"  weight {case.weight}" if case.weight is not None else ""
    yield f"{mark} [{case.index + 1}] {_result(case):<13} {case.label}{weight}{condition}"
    if case.reason:
        yield f"      {case.reason}"


def _result(case: CaseResult) -> str:
    if not case.evaluated:
        return "not evaluated"
    return {True: "true", False: "false", None: "unknown"}[case.result]


def _fitted(body: list[str], trace: Trace, outcome: BranchOutcome, room: int) -> list[str]:
    """Show all cases where they fit, else those that were true or unknown first."""
    if len(body) <= room:
        return body
    told = [case for case in trace.cases if case.result is not False and case.evaluated]
    lines = [line for case in told for line in _case(case, outcome)]
    shown = lines[: room - 1]
    return [*shown, f"  … {len(body) - len(shown)} more lines in --json"]
