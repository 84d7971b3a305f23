"""The decision log: evaluations read back from the ledger, and the JSON that they are shown as."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from pointsman.branches.explain import (
    ShownBranch,
    case_values,
    plain_numbers,
    to_json,
    to_screen,
    weight_number,
)
from pointsman.branches.policy import POLICY_FORM, Case, Decision
from pointsman.branches.trace import OUTCOME_FORM, TRACE_FORM, BranchOutcome, BranchTrace
from pointsman.expressions.values import Value
from pointsman.kernel.instant import EPOCH, Instant, instant_text
from pointsman.kernel.record import DECISION, read_recorded
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.workflows.branching import ABOUT_FORM, CACHED, About, BranchEvaluation

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


BRANCH = DECISION + "branch"

_NOTHING = About("", "", 0, "", 0, ())


class LogEntry(Struct, frozen=True):
    """One recorded evaluation."""

    id: str
    at: Instant
    seq: int
    is_cached: bool
    about: About
    decision: Decision
    outcome: BranchOutcome
    trace: BranchTrace

    @property
    def evaluated_at(self) -> Instant:
        """When the answer was decided: earlier than `at` where it came from the cache."""
        return Instant(self.about.evaluated_at) if self.is_cached else self.at


class Distribution(Struct, frozen=True):
    """How often each label of a decision was selected, in how many evaluations."""

    decision_id: str
    total: int
    labels: dict[str, int]


class BranchLog:
    """The evaluations of one ledger, in the order they happened."""

    def __init__(self, ledger: LedgerReader) -> None:
        self._ledger = ledger
        self._policies: dict[tuple[str, str], Decision] = {}

    def every(self, since: Instant = EPOCH) -> Iterator[LogEntry]:
        """Yield every evaluation from an instant on, that instant included (D-003-12)."""
        # DETERMINISM: ordered by instant, chain and place in the chain, never by text.
        return (self._entry(each) for each in self._ledger.of_kind(BRANCH, since))

    def about(self, workflow_id: str) -> Iterator[LogEntry]:
        """Yield the evaluations of one workflow."""
        found = self._ledger.with_ref(workflow_id)
        return (self._entry(each) for each in found if each.entry.kind.startswith(BRANCH))

    def query(
        self,
        decision_id: str | None = None,
        workflow_id: str | None = None,
        since: Instant = EPOCH,
    ) -> Iterator[LogEntry]:
        """Yield the evaluations the log shows; a decision may keep its own out of it."""
        for each in self.every(since):
            is_wanted = decision_id is None or each.outcome.decision_id == decision_id
            is_meant = workflow_id is None or each.about.workflow_id == workflow_id
            if is_wanted and is_meant and each.decision.logging.log_decision:
                yield each

    def distribution(self, decision_id: str) -> Distribution:
        """Count the labels of a decision, also where the log does not show it (D-003-18)."""
        labels: Counter[str] = Counter()
        total = 0
        for each in self.every():
            if each.outcome.decision_id == decision_id:
                total += 1
                labels.update(each.outcome.selected_labels)
        return Distribution(decision_id, total, dict(sorted(labels.items())))

    def _entry(self, stored: Stored) -> LogEntry:
        entry = stored.entry
        _, record, _ = read_recorded(entry.payload)
        outcome = OUTCOME_FORM.decode(bytes(record.outcome))
        _, *rest = self._ledger.attachments(stored) or [b""]
        about = ABOUT_FORM.decode(rest[0]) if rest else _NOTHING
        return LogEntry(
            entry.id,
            entry.at,
            entry.seq,
            entry.kind.endswith(f".{CACHED}"),
            about,
            self._decision(record.policy_id, outcome.decision_id),
            outcome,
            TRACE_FORM.decode(bytes(record.trace)),
        )

    def _decision(self, policy_id: str, decision_id: str) -> Decision:
        found = self._policies.get((policy_id, decision_id))
        if found is None:
            policy = POLICY_FORM.form.decode(self._ledger.snapshot(policy_id).body)
            found = next(each for each in policy.decisions if each.id == decision_id)
            self._policies[policy_id, decision_id] = found
        return found
