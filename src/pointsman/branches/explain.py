"""A branch decision as text, at most 24 lines of 80 columns, and as the JSON of the contracts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

import msgspec
from msgspec import Raw, Struct

from pointsman.branches.compiled import plain
from pointsman.branches.trace import BranchOutcome, BranchTrace, CaseResult, ReadValue
from pointsman.kernel.columns import cut_line
from pointsman.kernel.document import printable
from pointsman.kernel.instant import Instant, instant_text

HEIGHT = 24

_MOST_READ = 4
_FOOT = 3
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


class ShownBranch(Struct, frozen=True):
    """A branch decision with the names it goes by."""

    decision_id: str
    at: Instant
    policy_id: str
    facts_id: str
    decision_version: int
    name: str
    outcome: BranchOutcome
    trace: BranchTrace


def to_screen(shown: ShownBranch) -> str:
    """Render a decision."""
    outcome, trace = shown.outcome, shown.trace
    head = [
        f"Decision {outcome.decision_id} · {shown.name} · {instant_text(shown.at)}",
        _chose(outcome),
        *_stop_lines(outcome),
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
    lines = [*head, *_fit(body, trace, outcome, room), "", *foot]
    return "\n".join(cut_line(printable(line)) for line in lines)


def _chose(outcome: BranchOutcome) -> str:
    targets = ", ".join(outcome.selected_targets) or "nothing"
    labels = ", ".join(outcome.selected_labels)
    return f"Chose: {targets}   ({labels}: {outcome.reason.replace('_', ' ')})"


def _stop_lines(outcome: BranchOutcome) -> Iterator[str]:
    if outcome.verdict in {"block", "escalate"}:
        word = "Blocked" if outcome.verdict == "block" else "Escalated"
        yield f"{word}: would have gone to {', '.join(outcome.chosen_targets)}"
    if outcome.approval_required:
        yield f"Waits for approval of {', '.join(outcome.approval_required)}"
    for check in outcome.guardrails:
        if not check.passed:
            yield f"  {check.check_name}: {check.message}"
    if outcome.weighted is not None:
        placed = outcome.weighted
        yield f"Slot {placed.slot} of {placed.total_weight} by {placed.method}, salt {placed.salt}"


def _inputs(trace: BranchTrace) -> Iterator[str]:
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


def _fit(body: list[str], trace: BranchTrace, outcome: BranchOutcome, room: int) -> list[str]:
    """Show all cases where they fit, else those that were true or unknown first."""
    if len(body) <= room:
        return body
    told = [case for case in trace.cases if case.result is not False and case.evaluated]
    lines = [line for case in told for line in _case(case, outcome)]
    shown = lines[: room - 1]
    return [*shown, f"  … {len(body) - len(shown)} more lines in --json"]


def to_json(shown: ShownBranch, asked: Mapping[str, object] = {}) -> dict[str, object]:
    """Return a decision as the contracts shape it; `asked` tells how a surface asked for it."""
    outcome, trace = shown.outcome, shown.trace
    return {
        "decision_id": outcome.decision_id,
        "selected_targets": outcome.selected_targets,
        "selected_labels": outcome.selected_labels,
        "is_default": outcome.is_default,
        "input_value": plain_numbers(outcome.input_value),
        "evaluation_details": case_values(trace),
        "weighted": outcome.weighted,
        "guardrails": _guardrail_values(outcome),
        "blocked": outcome.blocked,
        "timestamp": instant_text(shown.at),
        **asked,
        "reason": outcome.reason,
        "verdict": outcome.verdict,
        "chosen_targets": outcome.chosen_targets,
        "withheld_targets": outcome.withheld_targets,
        "approval_required": outcome.approval_required,
        "output": plain_numbers(outcome.output),
        "input_missing": trace.input_missing,
        "policy_id": shown.policy_id,
        "facts_id": shown.facts_id,
    }


def case_values(trace: BranchTrace) -> list[dict[str, object]]:
    """Return the result of every case, in order."""
    return [_detail(each) for each in trace.cases]


def _guardrail_values(outcome: BranchOutcome) -> list[dict[str, object]]:
    return [
        {
            "check_name": each.check_name,
            "passed": each.passed,
            "message": each.message,
            "decision_id": each.decision_id,
            "action": each.action,
            "escalation_target": each.escalation_target,
        }
        for each in outcome.guardrails
    ]


def plain_numbers(raw: Raw) -> Raw:
    """Return a recorded value with its decimals as ordinary numbers."""
    return Raw(_NUMBERS.encode(plain(raw)))


def _detail(case: CaseResult) -> dict[str, object]:
    return {
        "index": case.index,
        "label": case.label,
        "condition": case.condition,
        "result": case.result,
        "priority": case.priority,
        "weight": weight_number(case.weight),
        "evaluated": case.evaluated,
        "missing": case.missing,
        "reason": case.reason,
    }


def weight_number(text: str | None) -> Raw | None:
    """Return a recorded weight as an ordinary number."""
    return None if text is None else Raw(_NUMBERS.encode(Decimal(text)))
