"""Which branch a workflow takes. Pure, and never raises on facts that name a known decision.

Document 003, with the resolutions D-003-* of its companion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from pointsman.branches.compiled import CompiledDecision, CompiledDecisions, Wheel, compile_policy
from pointsman.branches.facts import FACTS_FORM, BranchFacts, RecordedFacts, from_recorded
from pointsman.branches.policy import POLICY_FORM, BranchPolicy
from pointsman.branches.rules.guardrails import judge_choice, known_approvals
from pointsman.branches.rules.table import Hits
from pointsman.branches.trace import (
    HELD,
    OUTCOME_FORM,
    TRACE_FORM,
    BranchOutcome,
    BranchTrace,
    CaseResult,
    ReadValue,
    Reason,
    Weighted,
)
from pointsman.errors import ValueRefused
from pointsman.expressions import builtins
from pointsman.expressions.evaluate import (
    UNKNOWN,
    EvaluationResult,
    EvaluationScope,
    RootNames,
    Unknown,
)
from pointsman.expressions.syntax import Path
from pointsman.expressions.values import MISSING, STEPS, Missing, NotKnown, Value, follow_path, same
from pointsman.kernel.canonical import canonical_json, content_id
from pointsman.kernel.content import Texts
from pointsman.kernel.replay import Decided, PureDecider
from pointsman.kernel.wb1 import METHOD, unit_bytes

DECISION_VERSION = 1
DEFAULT_LABEL = "default"

_NULL = Raw(b"null")
_NAMES = RootNames()


class _Choice(NamedTuple):
    """Which cases were chosen, in order, and why; none means the default."""

    cases: tuple[int, ...]
    reason: Reason
    results: tuple[CaseResult, ...]
    output: Value = None
    weighted: Weighted | None = None


def decide(compiled: CompiledDecisions, facts: BranchFacts) -> tuple[BranchOutcome, BranchTrace]:
    """Decide, and let the guardrails judge the choice."""
    found = compiled.decision(facts.decision_id)
    decision = found.decision
    answer, recorded = _input(found, facts)
    given: Value | Missing = MISSING if isinstance(answer.value, Unknown) else answer.value
    scope = EvaluationScope(facts.context, given)
    wheel = found.wheel
    choice = (
        _choose_by_table(found, scope) if wheel is None else _choose_by_weight(found, wheel, given)
    )
    chosen = tuple(decision.cases[each].target for each in choice.cases)
    labels = tuple(decision.cases[each].label for each in choice.cases)
    targets = chosen or (decision.default_target,)
    judgement = judge_choice(decision, targets, known_approvals(facts))
    is_held = judgement.verdict in HELD
    outcome = BranchOutcome(
        decision_id=decision.id,
        selected_targets=judgement.instead if is_held else targets,
        selected_labels=labels or (DEFAULT_LABEL,),
        selected_indexes=choice.cases,
        is_default=not choice.cases,
        reason=choice.reason,
        input_value=recorded,
        output=Raw(canonical_json(choice.output)),
        weighted=choice.weighted,
        guardrails=judgement.checks,
        verdict=judgement.verdict,
        blocked=judgement.verdict in {"block", "ask"},
        chosen_targets=targets,
        approval_required=judgement.approval_required,
    )
    read = tuple(_read(path, scope) for path in found.reads)
    return outcome, BranchTrace(choice.results, read, answer.missing, answer.reason)


def _input(found: CompiledDecision, facts: BranchFacts) -> tuple[EvaluationResult, Raw]:
    """Evaluate the input once; one that has no exact form counts as unknown."""
    answer = found.input.answer(EvaluationScope(facts.context))
    if isinstance(answer.value, Unknown):
        return answer, _NULL
    if answer.value is facts.context:
        return answer, Raw(facts.canonical)
    try:
        return answer, Raw(canonical_json(answer.value))
    except ValueRefused as error:
        return EvaluationResult(UNKNOWN, (), error.message), _NULL


def _choose_by_table(found: CompiledDecision, scope: EvaluationScope) -> _Choice:
    policy, hits = found.hit_policy, found.table.hits(scope)
    results = _results(found, hits)
    if not hits.hits:
        return _Choice((), Reason.NO_CASE_MATCHED, results)
    cases, reason = _POLICIES[policy](found, hits.hits)
    return _Choice(cases, reason, results, _output(found, cases, policy))


_Policy = Callable[[CompiledDecision, tuple[int, ...]], tuple[tuple[int, ...], Reason]]


def _all(_found: CompiledDecision, hits: tuple[int, ...]) -> tuple[tuple[int, ...], Reason]:
    return hits, Reason.MATCHED


def _lowest(found: CompiledDecision, hits: tuple[int, ...]) -> tuple[tuple[int, ...], Reason]:
    """Take the lowest number; of equal ones the first written (D-003-10)."""
    return (min(hits, key=lambda each: found.decision.cases[each].priority),), Reason.MATCHED


def _unique(_found: CompiledDecision, hits: tuple[int, ...]) -> tuple[tuple[int, ...], Reason]:
    return ((), Reason.SEVERAL_MATCHED) if len(hits) > 1 else (hits, Reason.MATCHED)


def _any(found: CompiledDecision, hits: tuple[int, ...]) -> tuple[tuple[int, ...], Reason]:
    cases = [found.decision.cases[each] for each in hits]
    first = found.outputs[hits[0]]
    is_one = all(each.target == cases[0].target for each in cases) and all(
        same(found.outputs[each], first) for each in hits
    )
    return (hits[:1], Reason.MATCHED) if is_one else ((), Reason.OUTPUTS_DIFFER)


def _by_rank(found: CompiledDecision, hits: tuple[int, ...]) -> tuple[tuple[int, ...], Reason]:
    return tuple(sorted(hits, key=lambda each: found.ranks[each])), Reason.MATCHED


def _best_by_rank(found: CompiledDecision, hits: tuple[int, ...]) -> tuple[tuple[int, ...], Reason]:
    return (min(hits, key=lambda each: found.ranks[each]),), Reason.MATCHED


_POLICIES: dict[str, _Policy] = {
    "first": _all,
    "collect": _all,
    "rule_order": _all,
    "priority": _lowest,
    "unique": _unique,
    "any": _any,
    "output_order": _by_rank,
    "output_priority": _best_by_rank,
}


def _output(found: CompiledDecision, cases: tuple[int, ...], policy: str) -> Value:
    """Return the output of the chosen rules: one value, a list of them, or their aggregate."""
    decision = found.decision
    if decision.aggregate == "count":
        return len(cases)
    if not cases or not found.has_outputs:
        return None
    values = [found.outputs[each] for each in cases]
    match decision.aggregate:
        case "sum":
            return _sum(values)
        case "min":
            return builtins.least([STEPS], *values)
        case "max":
            return builtins.greatest([STEPS], *values)
    is_list = policy in {"collect", "rule_order", "output_order"}
    return values if is_list else values[0]


def _sum(values: list[Value]) -> Value:
    try:
        return builtins.total([len(values) + STEPS], values)
    except (NotKnown, ArithmeticError):
        return None


def _choose_by_weight(found: CompiledDecision, wheel: Wheel, given: Value | Missing) -> _Choice:
    if wheel.total == 0:
        return _Choice((), Reason.ZERO_TOTAL_WEIGHT, found.no)
    unit = None if isinstance(given, Missing) else unit_bytes(given)
    if unit is None:
        return _Choice((), Reason.UNIT_REFUSED, found.skipped)
    slot = wheel.salted.slot(unit, wheel.total)
    placed = Weighted(METHOD, found.decision.salt, slot, wheel.total)
    case = wheel.case(slot)
    if case is None:
        return _Choice((), Reason.OUTSIDE_RANGES, found.no, None, placed)
    results = (*found.no[:case], found.yes[case], *found.no[case + 1 :])
    return _Choice((case,), Reason.MATCHED, results, None, placed)


def _results(found: CompiledDecision, hits: Hits) -> tuple[CaseResult, ...]:
    """Return the result of every case; without `include_evaluation`, only the true and unknown."""
    if not found.decision.logging.include_evaluation:
        told = sorted({*hits.hits, *hits.unknown})
        return tuple(_result(found, each, hits) for each in told)
    if not hits.unknown and len(hits.hits) <= 1:
        behind = found.skipped[hits.seen :]
        if not hits.hits:
            return found.no[: hits.seen] + behind
        (hit,) = hits.hits
        return (*found.no[:hit], found.yes[hit], *found.no[hit + 1 : hits.seen], *behind)
    seen = tuple(_result(found, each, hits) for each in range(hits.seen))
    return seen + found.skipped[hits.seen :]


def _result(found: CompiledDecision, number: int, hits: Hits) -> CaseResult:
    unknown = hits.unknown.get(number)
    if unknown is not None:
        return replace(
            found.no[number], result=None, missing=unknown.missing, reason=_unknown_text(unknown)
        )
    return found.yes[number] if number in hits.hits else found.no[number]


def _unknown_text(unknown: EvaluationResult) -> str:
    missing = ", ".join(f"`{each}`" for each in unknown.missing)
    parts = [f"missing {missing}" if missing else "", unknown.reason]
    return "unknown: " + "; ".join(each for each in parts if each)


def _read(path: Path, scope: EvaluationScope) -> ReadValue:
    found = follow_path(_NAMES.start(path.root, scope), path.steps)
    if isinstance(found, Missing):
        return ReadValue(path.text, _NULL, None, is_missing=True)
    canonical = canonical_json(found)
    if isinstance(found, list | dict):
        return ReadValue(path.text, _NULL, content_id(canonical), is_missing=False)
    return ReadValue(path.text, Raw(canonical), None, is_missing=False)


def _decide_bytes(ready: CompiledDecisions, facts: RecordedFacts) -> Decided:
    outcome, trace = decide(ready, from_recorded(facts))
    return Decided(OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))


def _as_recorded(_ready: CompiledDecisions, facts: RecordedFacts, _texts: Texts) -> RecordedFacts:
    return facts


DECIDER: PureDecider[BranchPolicy, CompiledDecisions, RecordedFacts] = PureDecider(
    "branch",
    DECISION_VERSION,
    (POLICY_FORM.form, FACTS_FORM),
    compile_policy,
    _decide_bytes,
    _as_recorded,
)
