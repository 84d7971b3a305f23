"""The policy of placement: `placement.yaml`, read, checked, and made exact.

A policy is complete in itself: every default is written into it before it is named and recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema import Check, conform
from pointsman.kernel.snapshot import SnapshotForm
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.placement.facts import GROUPS
from pointsman.placement.rules.labels import Label, exact_labels, label_problems
from pointsman.placement.rules.policy_rule import (
    PolicyRule,
    exact_rules,
    reads_content,
)
from pointsman.placement.rules.policy_rule import problems as policy_rule_problems
from pointsman.placement.rules.table import (
    INVARIANTS,
    Defaults,
    ErrorCode,
    FailureAction,
    FailureCondition,
    GivenAction,
    GivenCondition,
    GivenFailureRule,
    GivenRule,
    InitialDecision,
    Invariant,
    Operator,
    PlacementFile,
    Privacy,
    Route,
    TokenTest,
    operators,
    problems,
)
from pointsman.placement.rules.totality import problems as totality_problems
from pointsman.placement.rules.zones import (
    BUILT_IN_ZONES,
    CLOUD,
    Zones,
    outer_zones,
    unknown_zone_problems,
    zone_problems,
)

EMBEDDED: Final = ("embedded:", "embedded/")
"""How the ids of embedded models begin: a demonstration, too small to bind turns to."""


_MEDICAL: Final = "without the words for an illness it would be another question"
UNMASKABLE: Final[dict[str, str]] = {
    **dict.fromkeys(("medical", "diagnosis", "medication", "procedure"), _MEDICAL),
    "own": "what a hit of your own detector means is not known here",
}
"""The groups and kinds that no placeholder can stand for, and why."""


class PlacementRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One row, exact; `says` is its condition in words, an `otherwise` written out."""

    id: str
    privacy_level: Privacy
    token_count: Operator | None
    local_model_available: bool | None
    intent_supported_by_local: bool | None
    is_otherwise: bool
    route: Route
    fallback_allowed: bool
    says: str
    zone: str | UnsetType = UNSET


class FailureRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One failure row, exact: `to` is empty where an error follows."""

    id: str
    route: Route
    fallback_allowed: bool | None
    to: Literal["local", "cloud", ""]
    requires_confirmation: bool
    error_code: ErrorCode | Literal[""]


class PlacementPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides about placement, besides the facts.

    `is_unreadable` stands for a table that cannot be read: nothing leaves then (ADR 0006).
    """

    router_version: str
    token_threshold: int
    rules: tuple[PlacementRule, ...]
    failure_rules: tuple[FailureRule, ...]
    invariants: tuple[Invariant, ...]
    auto: Literal["advisory", "binding"]
    stays_local: tuple[str, ...]
    taint: Literal["session", "off"]
    policy_rules: tuple[PolicyRule, ...]
    is_unreadable: bool = False
    local_model: str | UnsetType = UNSET
    masks: tuple[str, ...] | UnsetType = UNSET

    @property
    def masked_kinds(self) -> tuple[str, ...]:
        """The kinds and groups that leave under placeholders."""
        return () if self.masks is UNSET else self.masks

    @property
    def asks_detector(self) -> bool:
        """Whether it matters what a text holds: some kind must stay, or is masked."""
        return bool(self.stays_local or self.masked_kinds)

    zones: dict[str, tuple[str, ...]] | UnsetType = UNSET
    """For each zone that placement.yaml names, all those it lies within."""
    labels: tuple[Label, ...] | UnsetType = UNSET

    @property
    def all_labels(self) -> tuple[Label, ...]:
        """The labels of placement.yaml; none where it names none."""
        return () if self.labels is UNSET else self.labels

    @property
    def looks_into_texts(self) -> bool:
        """Whether it matters what the detector finds in a text."""
        return self.asks_detector or any(each.finds for each in self.all_labels)

    @property
    def all_zones(self) -> Zones:
        """The zones of placement.yaml; none where it names none."""
        return {} if self.zones is UNSET else self.zones

    @property
    def reads_content(self) -> bool:
        """Whether any rule looks at the text itself."""
        return reads_content(self.policy_rules)


BUILT_IN: Final = PlacementFile(
    router_version="1.0.0",
    defaults=Defaults(token_threshold=4096, fallback_allowed=False),
    rules=(
        GivenRule(
            "PRIVACY_LOCAL", GivenCondition("local"), GivenAction("local", fallback_allowed=False)
        ),
        GivenRule(
            "PRIVACY_CLOUD", GivenCondition("cloud"), GivenAction("cloud", fallback_allowed=False)
        ),
        GivenRule(
            "AUTO_LOCAL",
            GivenCondition(
                "auto",
                token_count=TokenTest(lte="token_threshold"),
                local_model_available=True,
                intent_supported_by_local=True,
            ),
            GivenAction("local", fallback_allowed=True),
        ),
        GivenRule(
            "AUTO_CLOUD",
            GivenCondition("auto", otherwise=True),
            GivenAction("cloud", fallback_allowed=False),
        ),
    ),
    failure_rules=(
        GivenFailureRule(
            "LOCAL_EXECUTION_FAILURE",
            FailureCondition("local", True, InitialDecision(fallback_allowed=True)),  # noqa: FBT003 - a value of the table
            FailureAction(route="cloud", log_escalation=True),
        ),
        GivenFailureRule(
            "LOCAL_EXECUTION_FAILURE_NO_FALLBACK",
            FailureCondition("local", True, InitialDecision(fallback_allowed=False)),  # noqa: FBT003 - a value of the table
            FailureAction(return_error=True, error_code="E-LOCAL-001"),
        ),
        GivenFailureRule(
            "CLOUD_EXECUTION_FAILURE",
            FailureCondition("cloud", True),  # noqa: FBT003 - a value of the table
            FailureAction(return_error=True, error_code="E-CLOUD-001"),
        ),
    ),
    invariants=INVARIANTS,
    auto="advisory",
)
"""The table of document 001, with the corrections of companion §6; the published page is this."""


def read_policy(
    text: bytes, source: str, kinds: Iterable[str], *checks: Check[PlacementFile]
) -> PlacementFile:
    """Read `placement.yaml`, or raise with every problem at its place.

    `kinds` are what the detector can find: `stays_local` may name them or their groups. `checks`
    hold the table against other files.
    """
    known = (*GROUPS, *kinds)

    def kind_problems(table: PlacementFile, document: Document) -> Iterable[Problem]:
        sensitive = table.sensitive
        masked = () if sensitive.mask is UNSET else sensitive.mask
        for name, kinds_given in (("stays_local", sensitive.stays_local), ("mask", masked)):
            for index, kind in enumerate(kinds_given):
                # What a detector of an operator's own may find is known to that detector alone.
                if kind not in known and not kind.startswith("own."):
                    hint = nearest(kind, known)
                    message = f"`{kind}` is nothing the detector knows"
                    told = f"did you mean `{hint}`?" if hint else f"known: {', '.join(known)}"
                    path = ("sensitive", name, index)
                    yield document.problem(path, Code.UNKNOWN_VALUE, message, told)
        yield from _mask_problems(sensitive.stays_local, masked, document)

    return conform(
        parse_yaml(text, source),
        PlacementFile,
        problems,
        totality_problems,
        kind_problems,
        _zone_problems,
        lambda table, document: label_problems(
            {} if table.labels is UNSET else table.labels, table.given_zones, known, document
        ),
        lambda table, document: policy_rule_problems(table.policy_rules, document),
        *checks,
    )


def _mask_problems(
    stays_local: Sequence[str],
    masked: Sequence[str],
    document: Document,
) -> Iterable[Problem]:
    """Find kinds that cannot be masked, or stand in both lists."""
    for index, kind in enumerate(masked):
        path = ("sensitive", "mask", index)
        why = UNMASKABLE.get(kind.partition(".")[0]) or UNMASKABLE.get(kind.rpartition(".")[2])
        if why:
            message = f"`{kind}` cannot be masked: {why}"
            yield document.problem(path, Code.INVALID_VALUE, message, "write it to `stays_local`")
        elif kind in stays_local:
            message = f"`{kind}` stands in `stays_local`, too: it stays, or is masked"
            yield document.problem(path, Code.INVALID_VALUE, message)


def _zone_problems(table: PlacementFile, document: Document) -> Iterable[Problem]:
    zones = table.given_zones
    yield from zone_problems(zones, document)
    for index, rule in enumerate(table.rules):
        if rule.action.zone is not UNSET:
            path = ("rules", index, "action", "zone")
            yield from unknown_zone_problems(rule.action.zone, zones, document, path)
    for index, policy_rule in enumerate(table.policy_rules):
        if policy_rule.zone is not UNSET:
            at = ("policy_rules", index, "zone")
            yield from unknown_zone_problems(policy_rule.zone, zones, document, at)
            if policy_rule.zone in BUILT_IN_ZONES:
                message = f"`stay_within` takes a zone of yours, not `{policy_rule.zone}`"
                hint = "write `force_local` for what stays here"
                yield document.problem(at, Code.INVALID_VALUE, message, hint)


def placement_policy(table: PlacementFile) -> PlacementPolicy:
    """Make a table exact: defaults filled in, `otherwise` written out."""
    rules = tuple(_rule(table, index) for index in range(len(table.rules)))
    return PlacementPolicy(
        router_version=table.router_version,
        token_threshold=table.defaults.token_threshold,
        rules=rules,
        failure_rules=tuple(map(_failure_rule, table.failure_rules)),
        # DETERMINISM: one order, whatever order they are written in.
        invariants=tuple(each for each in INVARIANTS if each in table.invariants),
        auto=auto_of(table),
        stays_local=tuple(sorted(set(table.sensitive.stays_local))),
        taint=table.sensitive.taint,
        policy_rules=exact_rules(table.policy_rules),
        local_model=table.local_model,
        masks=_masks(table),
        zones=outer_zones(table.given_zones) or UNSET,
        labels=UNSET if table.labels is UNSET else exact_labels(table.labels) or UNSET,
    )


def _masks(table: PlacementFile) -> tuple[str, ...] | UnsetType:
    given = table.sensitive.mask
    return UNSET if given is UNSET or not given else tuple(sorted(set(given)))


def auto_of(table: PlacementFile) -> Literal["advisory", "binding"]:
    """Tell whether the `auto` rows bind: as the table says, else by the model it names."""
    if table.auto is not UNSET:
        return table.auto
    own = table.local_model
    is_meant = own is not UNSET and not own.startswith(EMBEDDED)
    return "binding" if is_meant else "advisory"


def _rule(table: PlacementFile, index: int) -> PlacementRule:
    given = table.rules[index]
    condition, action = given.condition, given.action
    allowed = action.fallback_allowed
    tests = [] if condition.token_count is UNSET else operators(condition.token_count)
    return PlacementRule(
        id=given.id,
        privacy_level=condition.privacy_level,
        token_count=tests[0] if tests else None,
        local_model_available=_or_none(condition.local_model_available),
        intent_supported_by_local=_or_none(condition.intent_supported_by_local),
        is_otherwise=condition.otherwise is not UNSET,
        route=action.route,
        fallback_allowed=table.defaults.fallback_allowed if allowed is UNSET else allowed,
        says=_says(table, index),
        zone=UNSET if action.zone == CLOUD else action.zone,
    )


def _says(table: PlacementFile, index: int) -> str:
    """Write a condition in words; an `otherwise` is the negation of what stands before it."""
    condition = table.rules[index].condition
    level = f"privacy_level = {condition.privacy_level}"
    if condition.otherwise is UNSET:
        return " and ".join([level, *_tests(condition)])
    before = [
        " and ".join(_tests(rule.condition)) or "true"
        for rule in table.rules[:index]
        if rule.condition.privacy_level == condition.privacy_level
    ]
    return " and ".join([level, *(f"not ({each})" for each in before)])


def _tests(condition: GivenCondition) -> list[str]:
    tests = [] if condition.token_count is UNSET else operators(condition.token_count)
    said = [f"token_count {_SIGNS[each]} token_threshold" for each in tests]
    for name in ("local_model_available", "intent_supported_by_local"):
        value = getattr(condition, name)
        if value is not UNSET:
            said.append(name if value else f"not {name}")
    return said


_SIGNS: Final[dict[Operator, str]] = {"lte": "<=", "lt": "<", "gt": ">", "gte": ">="}


def _failure_rule(given: GivenFailureRule) -> FailureRule:
    condition, action = given.condition, given.action
    stored = condition.initial_decision
    code: ErrorCode | Literal[""] = ""
    if action.route is UNSET:
        code = "E-LOCAL-001" if condition.route == "local" else "E-CLOUD-001"
        code = code if action.error_code is UNSET else action.error_code
    return FailureRule(
        id=given.id,
        route=condition.route,
        fallback_allowed=None if stored is UNSET else stored.fallback_allowed,
        to="" if action.route is UNSET else action.route,
        requires_confirmation=action.requires_confirmation is True,
        error_code=code,
    )


def _or_none(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


POLICY_FORM = SnapshotForm("placement.policy", 1, PlacementPolicy)
