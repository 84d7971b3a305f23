"""Placement: policy, then privacy, then the table for `auto`; the network is a gate behind them.

Pure, and never raises on valid facts. Document 001, companion §1.1 and D-001-*.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from msgspec import UNSET
from msgspec.structs import replace

from pointsman.kernel.content import Texts
from pointsman.kernel.instant import EPOCH
from pointsman.kernel.replay import Decided, PureDecider
from pointsman.placement.compiled import CompiledPlacement
from pointsman.placement.facts import (
    FACTS_FORM,
    CountedBy,
    HumanOverride,
    Intent,
    LocalModel,
    Network,
    PlacementFacts,
    staying,
    with_text,
)
from pointsman.placement.policy import POLICY_FORM, PlacementPolicy, PlacementRule
from pointsman.placement.rules.policy_rule import (
    STRONGEST_FIRST,
    Action,
    PolicyRule,
    texts_of,
)
from pointsman.placement.rules.table import ErrorCode, Privacy, Route
from pointsman.placement.rules.totality import compare_tokens
from pointsman.placement.rules.zones import LOCAL, innermost, zone_text, zones_around
from pointsman.placement.trace import (
    MASK_NOTE,
    OUTCOME_FORM,
    TRACE_FORM,
    BoundSource,
    Gate,
    Inputs,
    PlacementOutcome,
    PlacementTrace,
    RuleLook,
    Step,
    StepName,
    StepOutcome,
    ZoneBound,
)

DECISION_VERSION = 1

_TELLING: Final[tuple[Action, ...]] = ("require_confirmation", "warn")
_HOLDING: Final[tuple[Action, ...]] = ("block", "force_local")
_NOT_COUNTED: Final = CountedBy("given", is_exact=False)


class Conclusion:
    """What the evaluation came to, before the gates behind it."""

    __slots__ = (
        "at", "error", "fallback_allowed", "gate", "is_escalation", "reason", "route", "rule_id",
        "zones",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - the parts of one conclusion
        self,
        at: StepName,
        rule_id: str,
        reason: str,
        *,
        route: Route | Literal[""] = "",
        gate: Gate = "open",
        error: ErrorCode | Literal[""] = "",
        fallback_allowed: bool = False,
        is_escalation: bool = False,
    ) -> None:
        self.at = at
        self.rule_id = rule_id
        self.reason = reason
        self.route = route
        self.gate = gate
        self.error = error
        self.fallback_allowed = fallback_allowed
        self.is_escalation = is_escalation
        self.zones: tuple[str, ...] = ()


class Placement:
    """One question on its way through the table."""

    __slots__ = (
        "action", "bounds", "facts", "inputs", "looks", "policy", "prompts", "ready", "steps",
        "strongest", "warnings",
    )  # fmt: skip

    def __init__(self, ready: CompiledPlacement, facts: PlacementFacts) -> None:
        self.ready = ready
        self.policy = ready.policy
        self.facts = facts
        self.steps: list[Step] = []
        self.looks: list[RuleLook] = []
        self.prompts: list[str] = []
        self.warnings: list[str] = []
        self.strongest: PolicyRule | None = None
        self.bounds: list[ZoneBound] = []
        """The zones that the question must stay within."""
        self.action = self._policy_action()
        self.inputs = self._inputs()

    def _policy_action(self) -> Action | Literal["none"]:
        """Ask every policy rule; the strongest action counts, and a human's may stand for it."""
        facts = self.facts
        if self.policy.policy_rules:
            content = facts.content if isinstance(facts.content, str) else ""
            texts = texts_of(content, facts.intent or "", facts.privacy_level)
            found = [rule for rule, test in self.ready.tests if test(texts, facts.token_count)]
            self.prompts = [rule.message for rule in found if rule.action == "require_confirmation"]
            self.warnings = [rule.message for rule in found if rule.action == "warn"]
            # DETERMINISM: of equal actions the first in the order of priority and id.
            for rule in found:
                if rule.zone is not UNSET:
                    self.note_bound(rule.zone, "rule", f"policy rule `{rule.id}`: {rule.message}")
            acting = (rule for rule in found if rule.action in STRONGEST_FIRST)
            self.strongest = min(acting, key=_strength, default=None)
        self._bind_by_facts()
        action: Action | Literal["none"] = "none"
        if self.strongest is not None and self.strongest.action != "stay_within":
            action = self.strongest.action
        if facts.human_override == "none" or action == "block":
            return action
        return "force_local" if facts.human_override == "force_local" else "force_cloud"

    def _bind_by_facts(self) -> None:
        """Note the zones that the facts, the labels of items and the session's taint name."""
        facts, taint = self.facts, self.facts.taint
        for zone in () if facts.stays_within is UNSET else facts.stays_within:
            self.note_bound(zone, "facts", "the facts say so")
        for label in () if facts.labels is UNSET else facts.labels:
            zone = self._label_zone(label)
            if zone != LOCAL:
                self.note_bound(zone, "label", f"label `{label}`")
        if taint is not None and taint.zones is not UNSET:
            for zone in taint.zones:
                why = f"this session held what must: turn {taint.turn_id}"
                self.note_bound(zone, "taint", why)

    def _inputs(self) -> Inputs:
        facts, local = self.facts, self.facts.local_model
        limit = token_limit(self.policy, local)
        return Inputs(
            facts.privacy_level,
            facts.network_state,
            facts.token_count,
            limit,
            facts.token_count <= limit,
            local.available,
            facts.intent is None or facts.intent in local.supported_intents,
            self.action,
            facts.human_override,
        )

    def stays(self) -> tuple[str, str]:
        """Return the rule and the reason why this question must stay, or two empty texts."""
        facts, policy = self.facts, self.policy
        if policy.is_unreadable:
            return "TABLE_UNREADABLE", "placement.yaml cannot be read, so nothing leaves"
        if facts.taint is not None and facts.taint.stays_here:
            return "TAINT_LOCAL", (
                f"this session held what must stay: turn {facts.taint.turn_id}, "
                f"{facts.taint.rule_id}"
            )
        labels = () if facts.labels is UNSET else facts.labels
        here = [each for each in labels if self._label_zone(each) == LOCAL]
        if here:
            return "LABEL_LOCAL", f"holds items labelled {', '.join(here)}"
        return self._stays_by_text()

    def _stays_by_text(self) -> tuple[str, str]:
        facts, policy = self.facts, self.policy
        if policy.asks_detector:
            if facts.sensitivity is None:
                return "SENSITIVE_UNKNOWN", "nobody looked into the text, so nothing leaves"
            if facts.sensitivity.has_failed:
                return "SENSITIVE_UNKNOWN", "the detector failed, so nothing leaves"
            kinds = staying(
                facts.sensitivity, policy.stays_local, policy.masked_kinds, facts.masking
            )
            if kinds:
                return "SENSITIVE_LOCAL", f"holds {', '.join(kinds)}" + self._obstacle()
        return "", ""

    def _label_zone(self, label: str) -> str:
        """Return the zone of a label; one that the policy does not know keeps its items here."""
        return self.ready.label_zones.get(label, LOCAL)

    def _obstacle(self) -> str:
        """Say why a text that could have left under placeholders did not."""
        masking = self.facts.masking
        if masking is UNSET or masking.obstacle is UNSET:
            return ""
        return f", which cannot be masked: {masking.obstacle}"

    def mask_note(self) -> str:
        """Count the placeholders of a text by kind; empty where it has none."""
        masking = self.facts.masking
        if masking is UNSET or masking.obstacle is not UNSET or not self.policy.masked_kinds:
            return ""
        told = ", ".join(f"{each.count} {each.kind}" for each in masking.kinds)
        return f"{MASK_NOTE}{told}" if told else ""

    def note_bound(self, zone: str, source: BoundSource, why: str) -> None:
        """Note a zone that the question must stay within."""
        self.bounds.append(ZoneBound(zone, source, why))

    def note(self, step: StepName, outcome: StepOutcome, detail: str) -> None:
        """Note how a step ended."""
        self.steps.append(Step(step, outcome, detail))


def _strength(rule: PolicyRule) -> int:
    actions: tuple[str, ...] = STRONGEST_FIRST
    return actions.index(rule.action)


def decide(
    compiled: CompiledPlacement, facts: PlacementFacts
) -> tuple[PlacementOutcome, PlacementTrace]:
    """Decide whether a question may leave this machine."""
    if (
        compiled.is_table_only
        and facts.taint is None
        and facts.sensitivity is None
        and facts.failed is None
        and facts.cloud_models is UNSET
        and facts.stays_within is UNSET
        and facts.labels is UNSET
    ):
        count, limit = facts.token_count, token_limit(compiled.policy, facts.local_model)
        outcome, trace = _decide_by_table(
            compiled,
            facts.privacy_level,
            facts.intent,
            facts.local_model,
            facts.cloud_model,
            facts.network_state,
            (count > limit) - (count < limit),
            facts.human_override,
        )
        return outcome, replace(trace, inputs=replace(trace.inputs, token_count=count))
    return _decide_by_steps(compiled, facts)


@lru_cache(maxsize=1024)
def _decide_by_table(  # noqa: PLR0913, PLR0917 - the facts the table reads; positional, as the cache is fastest so
    compiled: CompiledPlacement,
    privacy_level: Privacy,
    intent: Intent | None,
    local_model: LocalModel,
    cloud_model: str,
    network_state: Network,
    beside_limit: int,
    human_override: HumanOverride,
) -> tuple[PlacementOutcome, PlacementTrace]:
    """Decide where the table alone has a say. Remembered: that saves most of a placement.

    DETERMINISM: the parameters are all the facts that the table and the gates behind it read; the
    others are left empty, so a decision that read one of them would show. Of the number of tokens
    the table reads on which side of the limit it is: -1 below, 0 at it, 1 above.
    """
    facts = PlacementFacts(
        question_id="",
        session_id="",
        content="",
        privacy_level=privacy_level,
        intent=intent,
        constraints_id="",
        asked_at=EPOCH,
        local_model=local_model,
        cloud_model=cloud_model,
        network_state=network_state,
        token_count=token_limit(compiled.policy, local_model) + beside_limit,
        counted_by=_NOT_COUNTED,
        human_override=human_override,
    )
    return _decide_by_steps(compiled, facts)


def token_limit(policy: PlacementPolicy, local: LocalModel) -> int:
    """Return how many tokens the local model may be given: the policy's threshold or its own."""
    most, threshold = local.max_tokens, policy.token_threshold
    return threshold if most is None else min(threshold, most)


def _decide_by_steps(
    compiled: CompiledPlacement, facts: PlacementFacts
) -> tuple[PlacementOutcome, PlacementTrace]:
    case = Placement(compiled, facts)
    found = _after_failure(case) if facts.failed is not None else _first(case)
    _bind_zones(case, found)
    found = _apply_gates(case, found)
    policy = compiled.policy
    model = ""
    if not found.error:
        model = facts.local_model.model_name
        model = model if found.route == "local" else _cloud_model(case, found)
    asks = bool(case.prompts) and not found.error
    is_escalation = found.is_escalation and not found.error
    outcome = PlacementOutcome(
        route="" if found.error else found.route,
        model=model,
        reason=found.reason,
        rule_id=found.rule_id,
        fallback_allowed=found.fallback_allowed and not found.error,
        requires_confirmation=asks or (is_escalation and _must_ask(policy, found.rule_id)),
        log_escalation=is_escalation,
        router_version=policy.router_version,
        error_code=found.error,
        gate=found.gate,
        zones=found.zones or UNSET,
    )
    trace = PlacementTrace(
        found.at,
        tuple(case.steps),
        tuple(case.looks),
        case.inputs,
        tuple(case.prompts),
        tuple(case.warnings),
        tuple(case.bounds) or UNSET,
    )
    return outcome, trace


def _first(case: Placement) -> Conclusion:
    found = _by_policy(case) or _by_privacy(case)
    return found or _by_table(case, "autoModeLogic")


def _by_policy(case: Placement) -> Conclusion | None:
    step: StepName = "policyEnforcement"
    facts, action = case.facts, case.action
    if action in {"none", *_TELLING}:
        case.note(step, "passedThrough", f"policy action {action}")
        return None
    by = _by_whom(case)
    if action == "block":
        case.note(step, "threw", by)
        return Conclusion(step, "POLICY_BLOCK", by, error="E-ROUTE-001", gate="closed")
    if action == "force_local":
        case.note(step, "terminated", by)
        return Conclusion(step, "POLICY_FORCE_LOCAL", by, route="local", gate="local")
    rule_id, why = case.stays()
    if facts.privacy_level == "local":
        rule_id, why = "PRIVACY_LOCAL", "the privacy level is local"
    if rule_id:
        reason = f"{by}, but {why} ({rule_id})"
        case.note(step, "threw", reason)
        return Conclusion(step, "POLICY_FORCE_CLOUD", reason, error="E-ROUTE-002", gate="closed")
    case.note(step, "terminated", by)
    return Conclusion(step, "POLICY_FORCE_CLOUD", by + case.mask_note(), route="cloud")


def _by_whom(case: Placement) -> str:
    if case.action != "block" and case.facts.human_override != "none":
        return f"human override {case.facts.human_override}"
    rule = case.strongest
    return "" if rule is None else f"policy rule `{rule.id}`: {rule.message}"


def _by_privacy(case: Placement) -> Conclusion | None:
    step: StepName = "privacyEnforcement"
    level = case.facts.privacy_level
    if level == "local":
        return _by_table(case, step)
    rule_id, why = case.stays()
    if rule_id:
        case.note(step, "terminated", why)
        return Conclusion(step, rule_id, why, route="local", gate="local")
    if level == "cloud":
        return _by_table(case, step)
    case.note(step, "passedThrough", "privacy level auto, nothing must stay")
    return None


def _by_table(case: Placement, step: StepName) -> Conclusion:
    """Ask the rules of the privacy level in order: the first that holds decides."""
    level = case.facts.privacy_level
    for rule in case.ready.by_level[level]:
        is_hit = rule.is_otherwise or _holds(rule, case.inputs)
        case.looks.append(RuleLook(rule.id, rule.says, is_hit))
        if is_hit:
            if rule.zone is not UNSET:
                case.note_bound(rule.zone, "row", f"the table's row {rule.id}")
            binds = rule.route == "local" and (level == "local" or case.policy.auto == "binding")
            reason = rule.says + _notes(case) + case.mask_note()
            case.note(step, "terminated", rule.id)
            return Conclusion(
                step,
                rule.id,
                reason,
                route=rule.route,
                gate="local" if binds else "open",
                fallback_allowed=rule.fallback_allowed,
            )
    # INVARIANT: a table that was read is total; one made by hand may not be.
    reason = f"no rule holds for privacy level {level}"
    case.note(step, "threw", reason)
    return Conclusion(step, "NO_RULE", reason, error="E-ROUTE-001", gate="closed")


def _holds(rule: PlacementRule, inputs: Inputs) -> bool:
    asked = rule.local_model_available
    if asked is not None and asked != inputs.is_local_available:
        return False
    asked = rule.intent_supported_by_local
    if asked is not None and asked != inputs.is_intent_supported:
        return False
    test = rule.token_count
    return test is None or compare_tokens(test, inputs.token_count, inputs.token_limit)


def _notes(case: Placement) -> str:
    """Say what a reader could not guess from the rule."""
    inputs = case.inputs
    rules = case.ready.by_level[inputs.privacy_level]
    counts = any(rule.token_count is not None for rule in rules)
    if counts and inputs.token_limit < case.policy.token_threshold:
        return f"; token limit {inputs.token_limit}, the most the local model takes"
    return ""


def _after_failure(case: Placement) -> Conclusion:
    """Decide after a failure, by the fallback that the stored decision allowed."""
    step: StepName = "failureHandling"
    failed = case.facts.failed
    if failed is None:
        return _first(case)
    for rule in case.policy.failure_rules:
        says = _failure_says(rule.route, allowed=rule.fallback_allowed)
        is_hit = rule.route == failed.route and rule.fallback_allowed in {
            None,
            failed.fallback_allowed,
        }
        case.looks.append(RuleLook(rule.id, says, is_hit))
        if not is_hit:
            continue
        if not rule.to:
            reason = f"{failed.route} execution failed after {failed.rule_id}"
            case.note(step, "threw", rule.id)
            gate: Gate = "local" if failed.route == "local" else "open"
            return Conclusion(step, rule.id, reason, error=rule.error_code, gate=gate)
        return _escalate(case, rule.id, rule.to)
    reason = f"no failure rule holds for a failed {failed.route} execution"
    case.note(step, "threw", reason)
    return Conclusion(step, "NO_RULE", reason, error="E-ROUTE-001", gate="closed")


def _escalate(case: Placement, rule_id: str, to: Route) -> Conclusion:
    step: StepName = "failureHandling"
    stays, why = case.stays()
    if case.facts.privacy_level == "local":
        stays, why = "PRIVACY_LOCAL", "the privacy level is local"
    elif case.action in _HOLDING:
        stays, why = f"POLICY_{case.action.upper()}", _by_whom(case)
    if stays:
        reason = f"the stored decision allows a fallback, but {why} ({stays})"
        case.note(step, "threw", reason)
        return Conclusion(step, rule_id, reason, error="E-ROUTE-002", gate="local")
    for row in case.ready.by_level["auto"]:
        # A turn that may fall back was placed by these rows: where they end, it may go no farther.
        if row.zone is not UNSET:
            case.note_bound(row.zone, "row", f"the table's row {row.id}")
    case.note(step, "terminated", rule_id)
    reason = "local execution failed, the stored decision allows a fallback"
    return Conclusion(step, rule_id, reason, route=to, is_escalation=True)


def _failure_says(route: Route, *, allowed: bool | None) -> str:
    said = f"route = {route} and execution_failed"
    if allowed is None:
        return said
    return f"{said} and {'' if allowed else 'not '}initial_decision.fallback_allowed"


def _bind_zones(case: Placement, found: Conclusion) -> None:
    """Hold a question within the zones that rules, taints and the table's row name."""
    if not case.bounds:
        return
    found.zones = innermost((each.zone for each in case.bounds), case.policy.all_zones)
    if not found.zones:
        return
    if found.gate == "open":
        found.gate = "zone"
    first = {each.zone: each.why for each in reversed(case.bounds)}
    said = zone_text(f"{zone} ({first[zone]})" for zone in found.zones)
    found.reason += f"; stays within {said}"


def _cloud_model(case: Placement, found: Conclusion) -> str:
    """Return the first model of the cloud that lies within the zones; empty where none does."""
    if not found.zones:
        return case.facts.cloud_model
    models, zones = case.facts.cloud_models, case.policy.all_zones
    for model in () if models is UNSET else models:
        if frozenset(found.zones) <= frozenset(zones_around(model.zone, zones)):
            return model.name
    return ""


def _apply_gates(case: Placement, found: Conclusion) -> Conclusion:
    """Hold a route that cannot be taken: no model here, or no network out."""
    facts = case.facts
    if found.error or not found.route:
        return found
    if found.route == "local":
        if not facts.local_model.available:
            # Stays local, and errs: never the cloud instead (companion D-001-10).
            found.error = "E-LOCAL-001"
            found.reason += f"; {facts.local_model.model_name} is not available"
            case.note(found.at, "threw", "the local model is not available")
        return found
    if facts.network_state == "offline":
        case.note("networkGate", "threw", "offline")
        offline = Conclusion(
            "networkGate",
            "NETWORK_UNAVAILABLE",
            f"{found.rule_id} says cloud, and the network is offline",
            error="E-NET-001",
            gate=found.gate,
        )
        offline.zones = found.zones
        return offline
    if not _cloud_model(case, found):
        within = f" within {zone_text(found.zones)}" if found.zones else ""
        found.error = "E-CLOUD-001"
        found.reason += f"; no cloud model{within} is configured"
        case.note(found.at, "threw", f"no cloud model{within} is configured")
        return found
    detail = "online"
    if facts.network_state == "degraded":
        detail = "degraded: reachable but slow"
        found.reason += "; network degraded"
    case.note("networkGate", "passedThrough", detail)
    return found


def _must_ask(policy: PlacementPolicy, rule_id: str) -> bool:
    return any(rule.id == rule_id and rule.requires_confirmation for rule in policy.failure_rules)


def _decide_bytes(ready: CompiledPlacement, facts: PlacementFacts) -> Decided:
    outcome, trace = decide(ready, facts)
    return Decided(OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))


def _restore_text(ready: CompiledPlacement, facts: PlacementFacts, texts: Texts) -> PlacementFacts:
    # Only a policy that reads the text needs it: erasing leaves the others replayable.
    return with_text(facts, texts) if ready.reads_content else facts


DECIDER: PureDecider[PlacementPolicy, CompiledPlacement, PlacementFacts] = PureDecider(
    "placement",
    DECISION_VERSION,
    (POLICY_FORM.form, FACTS_FORM),
    CompiledPlacement,
    _decide_bytes,
    _restore_text,
)
