"""Evaluations as the JSON that commands and the gateway show: the shapes of the contract."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from pointsman.branches.explain import (
    ShownBranch,
    case_values,
    plain_numbers,
    to_json,
    to_screen,
    weight_number,
)
from pointsman.branches.policy import Case, Decision
from pointsman.expressions.values import Value
from pointsman.kernel.instant import instant_text
from pointsman.workflows.branch_log import LogEntry
from pointsman.workflows.branching import BranchEvaluation

_NUMBERS = msgspec.json.Encoder(decimal_format="number")
_MS_UNITS = (("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def evaluation_value(made: BranchEvaluation) -> dict[str, object]:
    """Return an evaluation as `decision evaluate --json` shows it."""
    asked = {
        "cached": made.is_cached,
        "evaluated_at": instant_text(made.evaluated_at),
        "evaluation_id": made.evaluation_id,
        "workflow_id": made.request.workflow_id,
        "stage_id": made.request.stage_id,
    }
    return to_json(_as_shown(made), asked)


def dry_run_value(made: BranchEvaluation) -> dict[str, object]:
    """Return a dry run: the same, and its would-be consequences."""
    value = evaluation_value(made)
    for name in ("evaluation_id", "evaluated_at", "workflow_id", "stage_id"):
        del value[name]
    return value | {
        "dry_run": True,
        "would_route_to": made.outcome.selected_targets,
        "would_block": made.outcome.blocked,
    }


def evaluation_screen(made: BranchEvaluation) -> str:
    """Render an evaluation as the why-screen."""
    text = to_screen(_as_shown(made))
    return f"Dry run: nothing is recorded\n{text}" if made.is_dry_run else text


def _as_shown(made: BranchEvaluation) -> ShownBranch:
    name = made.evaluation_id or "not recorded"
    return ShownBranch(
        f"{name} (cached)" if made.is_cached else name,
        made.at,
        made.policy_id,
        made.facts_id,
        1,
        made.decision.name,
        made.outcome,
        made.trace,
    )


def log_value(entry: LogEntry) -> dict[str, object]:
    """Return an entry of the decision log, without the parts the decision's `logging` hides."""
    logging, outcome = entry.decision.logging, entry.outcome
    return {
        "decision_id": outcome.decision_id,
        "decision_name": entry.decision.name,
        "timestamp": instant_text(entry.at),
        "input_value": plain_numbers(outcome.input_value) if logging.include_inputs else None,
        "selected_targets": outcome.selected_targets,
        "selected_labels": outcome.selected_labels,
        "evaluation_details": case_values(entry.trace) if logging.include_evaluation else [],
        "cached": entry.is_cached,
        "workflow_id": entry.about.workflow_id,
        "stage_id": entry.about.stage_id,
        "is_default": outcome.is_default,
        "reason": outcome.reason,
        "blocked": outcome.blocked,
        "verdict": outcome.verdict,
        "evaluated_at": instant_text(entry.evaluated_at),
        "evaluation_id": entry.id,
    }


def decision_value(decision: Decision, source: str, policy_id: str) -> dict[str, object]:
    """Return a decision in force, with every default filled in."""
    return {
        "id": decision.id,
        "name": decision.name,
        "type": decision.type,
        "input": decision.input,
        "hit_policy": decision.hit_policy if decision.type == "rule_table" else None,
        "cases": [_case(each) for each in decision.cases],
        "default": {"target": decision.default_target},
        "logging": decision.logging,
        "cache": {"enabled": decision.cache.enabled, "ttl": duration(decision.cache.ttl_ms)},
        "guardrails": decision.guardrails,
        "salt": decision.salt if decision.type == "weighted" else None,
        "source": source,
        "policy_id": policy_id,
    }


def value_to_json_numbers(value: Value) -> Raw:
    """Return a value with its decimals as ordinary numbers."""
    return Raw(_NUMBERS.encode(value))


def duration(milliseconds: int) -> str:
    """Write a duration the way people write one."""
    for unit, size in _MS_UNITS:
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def _case(case: Case) -> dict[str, object]:
    return {
        "target": case.target,
        "label": case.label,
        "condition": case.condition,
        "weight": weight_number(case.weight),
        "priority": case.priority,
        "ranges": case.ranges,
        "output": plain_numbers(case.output),
    }
