"""`placement.yaml` as it is written: the decision table of document 001, typed and closed.

What a schema cannot say is checked here too: order, uniqueness, and the four invariants.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.errors import Problem
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.schema import Schema, json_schema
from pointsman.placement.rules.labels import GivenLabel, LabelName
from pointsman.placement.rules.policy_rule import GivenPolicyRule
from pointsman.placement.rules.zones import GivenZones, ZoneName

Privacy = Literal["local", "cloud", "auto"]
Route = Literal["local", "cloud"]
Invariant = Literal[
    "deterministic", "no_probabilistic_routing", "no_hidden_fallback", "no_recursive_routing"
]
ErrorCode = Literal[
    "E-ROUTE-001",
    "E-ROUTE-002",
    "E-LOCAL-001",
    "E-CLOUD-001",
    "E-NET-001",
    "E-VALID-001",
    "E-VALID-002",
]

Operator = Literal["lte", "lt", "gt", "gte"]

OPERATORS: Final[tuple[Operator, ...]] = ("lte", "lt", "gt", "gte")
PRIVACY_LEVELS: Final[tuple[Privacy, ...]] = ("local", "cloud", "auto")
INVARIANTS: Final[tuple[Invariant, ...]] = (
    "deterministic",
    "no_probabilistic_routing",
    "no_hidden_fallback",
    "no_recursive_routing",
)
MAJOR: Final = "1"
"""The major version of tables and decisions that this program understands."""

RuleId = Annotated[str, Meta(pattern="^[A-Z][A-Z0-9_]*$", max_length=64)]
Version = Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$")]
Tokens = Annotated[int, Meta(ge=1, le=MAX_INT)]
Yes = Annotated[bool, Meta(extra_json_schema={"const": True})]
Bound = Literal["token_threshold"]


class TokenTest(Struct, frozen=True, forbid_unknown_fields=True):
    """A comparison of the token count; exactly one operator."""

    lte: Bound | UnsetType = UNSET
    lt: Bound | UnsetType = UNSET
    gt: Bound | UnsetType = UNSET
    gte: Bound | UnsetType = UNSET


class GivenCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """When a rule holds. `otherwise`: no earlier rule with the same privacy level matched."""

    privacy_level: Privacy
    token_count: TokenTest | UnsetType = UNSET
    local_model_available: bool | UnsetType = UNSET
    intent_supported_by_local: bool | UnsetType = UNSET
    otherwise: Yes | UnsetType = UNSET


class GivenAction(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a question goes; `fallback_allowed` is the default of the table where it is absent.

    With a `zone` a route to the cloud stays within it, whatever `auto` says.
    """

    route: Route
    fallback_allowed: bool | UnsetType = UNSET
    zone: ZoneName | UnsetType = UNSET


class GivenRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table."""

    id: RuleId
    condition: GivenCondition
    action: GivenAction


class InitialDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """What the stored decision said: it is read, never computed again (companion D-001-2)."""

    fallback_allowed: bool


class FailureCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """When a failure rule holds."""

    route: Route
    execution_failed: Yes
    initial_decision: InitialDecision | UnsetType = UNSET


class FailureAction(Struct, frozen=True, forbid_unknown_fields=True):
    """The action after a failure: another route, which is logged, or an error."""

    route: Route | UnsetType = UNSET
    log_escalation: Yes | UnsetType = UNSET
    requires_confirmation: bool | UnsetType = UNSET
    return_error: Yes | UnsetType = UNSET
    error_code: ErrorCode | UnsetType = UNSET


class GivenFailureRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the failure table."""

    id: RuleId
    condition: FailureCondition
    action: FailureAction


class Defaults(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds where a row does not say."""

    token_threshold: Tokens
    fallback_allowed: bool


class Sensitive(Struct, frozen=True, forbid_unknown_fields=True):
    """What a text may hold that must not leave this machine.

    `stays_local` names kinds of the detector or its groups `pii` and `secret`. With `taint:
    session`, whatever had to stay keeps the later turns of its session here too. `mask` names kinds
    that leave under placeholders, which the answer is freed from; of two entries that name a
    kind, the one for the kind itself counts, not the one for its group.
    """

    stays_local: tuple[str, ...] = ()
    mask: tuple[str, ...] | UnsetType = UNSET
    taint: Literal["session", "off"] = "session"


class PlacementFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`placement.yaml` as it is written.

    `local_model` takes the turns that must stay here and that no other candidate can take. Without
    `auto`, AUTO_LOCAL binds where that is any model but the embedded one.
    """

    router_version: Version
    defaults: Defaults
    rules: Annotated[tuple[GivenRule, ...], Meta(min_length=1)]
    failure_rules: Annotated[tuple[GivenFailureRule, ...], Meta(min_length=1)]
    invariants: Annotated[tuple[Invariant, ...], Meta(min_length=1)]
    auto: Literal["advisory", "binding"] | UnsetType = UNSET
    sensitive: Sensitive = Sensitive()
    local_model: Annotated[str, Meta(min_length=3, max_length=191)] | UnsetType = UNSET
    policy_rules: tuple[GivenPolicyRule, ...] = ()
    zones: GivenZones | UnsetType = UNSET
    labels: dict[LabelName, GivenLabel] | UnsetType = UNSET

    @property
    def given_zones(self) -> GivenZones:
        """The zones that are written, beside those that are built in."""
        return {} if self.zones is UNSET else self.zones


def placement_schema() -> Schema:
    """Return the JSON Schema of `placement.yaml`: its actions are one thing or the other."""
    schema = json_schema(PlacementFile)
    parts = schema["$defs"]
    parts["FailureAction"] |= {
        "oneOf": [
            {"required": ["route", "log_escalation"], **_without("return_error", "error_code")},
            {
                "required": ["return_error"],
                **_without("route", "log_escalation", "requires_confirmation"),
            },
        ]
    }
    parts["TokenTest"] |= {"minProperties": 1, "maxProperties": 1}
    parts["PlacementFile"]["properties"]["invariants"] |= {
        "uniqueItems": True,
        "allOf": [{"contains": {"const": each}} for each in INVARIANTS],
    }
    return schema


def _without(*names: str) -> Schema:
    return {"not": {"anyOf": [{"required": [name]} for name in names]}}


def problems(table: PlacementFile, document: Document) -> Iterable[Problem]:
    """Find what breaks a rule that the schema cannot state."""
    if table.router_version.partition(".")[0] != MAJOR:
        message = f"`{table.router_version}` is of a major version unknown here"
        hint = f"this program understands {MAJOR}.x.y"
        yield document.problem(("router_version",), Code.UNKNOWN_VALUE, message, hint)
    yield from _invariant_problems(table, document)
    seen: set[str] = set()
    ids = [("rules", index, row.id) for index, row in enumerate(table.rules)]
    ids += [("failure_rules", index, row.id) for index, row in enumerate(table.failure_rules)]
    for name, index, rule_id in ids:
        if rule_id in seen:
            message = f"the id `{rule_id}` is taken by an earlier rule"
            yield document.problem((name, index, "id"), Code.DUPLICATE_KEY, message)
        seen.add(rule_id)
    # The cells of a row rest on each other: of a wrong row, only the wrong cell is told.
    for index, rule in enumerate(table.rules):
        if document.is_sound(("rules", index)):
            yield from _rule_problems(table, index, rule, document)
    for index, failure in enumerate(table.failure_rules):
        if document.is_sound(("failure_rules", index)):
            yield from _failure_problems(index, failure, document)


def _invariant_problems(table: PlacementFile, document: Document) -> Iterable[Problem]:
    for each in INVARIANTS:
        count = table.invariants.count(each)
        if count != 1:
            message = f"the invariant `{each}` must be listed once, not {count} times"
            yield document.problem(("invariants",), Code.INVALID_VALUE, message)


def _rule_problems(
    table: PlacementFile, index: int, rule: GivenRule, document: Document
) -> Iterable[Problem]:
    condition, action = rule.condition, rule.action
    at = ("rules", index)
    if condition.token_count is not UNSET and len(operators(condition.token_count)) != 1:
        message = "a token test has one of `lte`, `lt`, `gt`, `gte`"
        yield document.problem((*at, "condition", "token_count"), Code.INVALID_VALUE, message)
    if condition.otherwise is not UNSET:
        yield from _otherwise_problems(table, index, document)
    if condition.privacy_level == "local" and action.route != "local":
        message = "a question whose privacy level is `local` cannot be routed to the cloud"
        yield document.problem((*at, "action", "route"), Code.INVALID_VALUE, message)
    allowed = table.defaults.fallback_allowed
    if action.fallback_allowed is not UNSET:
        allowed = action.fallback_allowed
    if allowed and (action.route == "cloud" or condition.privacy_level != "auto"):
        message = "only a local route under privacy level `auto` may fall back"
        hint = "write `fallback_allowed: false`"
        yield document.problem((*at, "action"), Code.INVALID_VALUE, message, hint)
    if action.zone is not UNSET and action.route == "local":
        message = "a `zone` belongs to a route to the cloud: what is routed here is here already"
        yield document.problem((*at, "action", "zone"), Code.INVALID_VALUE, message)


def _otherwise_problems(table: PlacementFile, index: int, document: Document) -> Iterable[Problem]:
    condition = table.rules[index].condition
    path = ("rules", index, "condition", "otherwise")
    others = (condition.token_count, condition.local_model_available)
    if any(each is not UNSET for each in (*others, condition.intent_supported_by_local)):
        message = "`otherwise` stands alone beside `privacy_level`"
        yield document.problem(path, Code.INVALID_VALUE, message)
    later = [each for each in table.rules[index + 1 :] if _same_group(each, table.rules[index])]
    if later:
        message = f"`otherwise` must be the last of its group, `{later[0].id}` follows"
        yield document.problem(path, Code.INVALID_VALUE, message)


def _same_group(one: GivenRule, other: GivenRule) -> bool:
    return one.condition.privacy_level == other.condition.privacy_level


def _failure_problems(index: int, rule: GivenFailureRule, document: Document) -> Iterable[Problem]:
    action, condition = rule.action, rule.condition
    path = ("failure_rules", index, "action")
    if (action.route is UNSET) == (action.return_error is UNSET):
        message = "an action has either `route` or `return_error: true`"
        yield document.problem(path, Code.INVALID_VALUE, message)
    elif action.route is not UNSET:
        yield from _escalation_problems(rule, document, path)
    elif action.log_escalation is not UNSET or action.requires_confirmation is not UNSET:
        message = "`log_escalation` and `requires_confirmation` belong to a `route`"
        yield document.problem(path, Code.INVALID_VALUE, message)
    stored = condition.initial_decision
    if condition.route == "cloud" and stored is not UNSET and stored.fallback_allowed:
        message = "a cloud decision never allows a fallback"
        at = ("failure_rules", index, "condition", "initial_decision")
        yield document.problem(at, Code.INVALID_VALUE, message)


def _escalation_problems(
    rule: GivenFailureRule, document: Document, path: tuple[str | int, ...]
) -> Iterable[Problem]:
    stored = rule.condition.initial_decision
    if rule.condition.route in {"cloud", rule.action.route}:
        message = "no_recursive_routing: only a failed local route may go on, and only to the cloud"
        yield document.problem(path, Code.INVALID_VALUE, message)
    if stored is UNSET or not stored.fallback_allowed:
        message = (
            "no_hidden_fallback: another route needs `initial_decision: {fallback_allowed: true}`"
        )
        yield document.problem(path, Code.INVALID_VALUE, message)
    if rule.action.log_escalation is UNSET:
        message = "no_hidden_fallback: another route needs `log_escalation: true`"
        yield document.problem(path, Code.INVALID_VALUE, message)
    if rule.action.error_code is not UNSET:
        message = "`error_code` belongs to `return_error`"
        yield document.problem(path, Code.INVALID_VALUE, message)


def operators(test: TokenTest) -> list[Operator]:
    """Return the operators of a token test that are written."""
    return [name for name in OPERATORS if getattr(test, name) is not UNSET]
