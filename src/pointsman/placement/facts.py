"""What a placement may look at, frozen; and the same as a caller writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from pointsman.errors import InputError, Problem
from pointsman.kernel.canonical import MAX_INT, Form, canonical_json, content_id
from pointsman.kernel.codes import Code
from pointsman.kernel.content import Sealed, Texts
from pointsman.kernel.document import Document, Json
from pointsman.kernel.instant import Instant, read_instant
from pointsman.kernel.schema import conform
from pointsman.placement.rules.table import MAJOR, Privacy, Route

Group = Literal["pii", "secret", "medical", "own"]

GROUPS: Final[tuple[Group, ...]] = ("pii", "secret", "medical", "own")


class SensitivityFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing found: where, of which kind, why; `digest` is keyed and equal for equal finds."""

    kind: str
    group: Group
    start: int
    end: int
    digest: str
    reason: str


class Sensitivity(Struct, frozen=True, forbid_unknown_fields=True):
    """What the detector said. `total` counts all findings, of which the first are kept."""

    detector: str
    has_failed: bool
    total: int
    kinds: tuple[str, ...]
    findings: tuple[SensitivityFinding, ...]


class MaskedKind(Struct, frozen=True, forbid_unknown_fields=True):
    """How often a kind was masked in a request."""

    kind: str
    count: int


class Masking(Struct, frozen=True, forbid_unknown_fields=True):
    """The placeholders that a request leaves under; `obstacle` says why it has none.

    `values` tells which value each of them stands for. It is a seal once recorded.
    """

    kinds: tuple[MaskedKind, ...]
    obstacle: str | UnsetType = UNSET
    values: str | Sealed | UnsetType = UNSET


def staying(
    found: Sensitivity,
    stays_local: Sequence[str],
    masked: Sequence[str] = (),
    masking: Masking | UnsetType = UNSET,
) -> tuple[str, ...]:
    """Return the detected kinds that must stay; a group stands for all its kinds.

    A kind to be masked stays where it was not masked: without `masking`, or with an obstacle.
    """
    is_masked = masking is not UNSET and masking.obstacle is UNSET
    return tuple(
        kind
        for kind in found.kinds
        if (
            not is_masked
            if may_mask(kind, stays_local, masked)
            else _closeness(kind, stays_local) > 0
        )
    )


def may_mask(kind: str, stays_local: Sequence[str], masked: Sequence[str]) -> bool:
    """Tell whether a kind is one to be masked: named so, and not more closely as one that stays."""
    return _closeness(kind, masked) > _closeness(kind, stays_local)


def _closeness(kind: str, named: Sequence[str]) -> int:
    """Return how closely a list names a kind: 2 for itself, 1 for its group, 0 for neither."""
    # A kind carries its group: `secret.github_token`.
    group, _, name = kind.partition(".")
    if kind in named or name in named:
        return 2
    return int(group in named)


Intent = Literal["informational", "analytical", "retrieval"]
Network = Literal["online", "offline", "degraded"]
HumanOverride = Literal["none", "force_local", "force_remote"]

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
Anything = Annotated[object, Meta(extra_json_schema={"description": "any JSON value"})]


class LocalModel(Struct, frozen=True, forbid_unknown_fields=True):
    """What this machine can run."""

    model_name: str
    max_tokens: int | None
    supported_intents: tuple[Intent, ...]
    available: bool


class CountedBy(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tokenizer counted, and whether it is the model's own. `given` by the caller."""

    tokenizer: str
    is_exact: bool


class Taint(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a session stays here: the turn with text that must not leave, and its rule.

    With `zones` it may leave, and stays within all of them.
    """

    turn_id: str
    rule_id: str
    zones: tuple[str, ...] | UnsetType = UNSET

    @property
    def stays_here(self) -> bool:
        """Whether nothing of the session may leave this machine."""
        return self.zones is UNSET


class CloudModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A model that a cloud route may take, and the zone it stands in."""

    name: str
    zone: str


class Failed(Struct, frozen=True, forbid_unknown_fields=True):
    """The stored decision whose execution failed."""

    route: Route
    rule_id: str
    fallback_allowed: bool


class PlacementFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of one placement, exact. The content is a seal once recorded."""

    question_id: str
    session_id: str
    content: str | Sealed
    privacy_level: Privacy
    intent: Intent | None
    constraints_id: str
    asked_at: Instant
    local_model: LocalModel
    cloud_model: str
    network_state: Network
    token_count: int
    counted_by: CountedBy
    human_override: HumanOverride = "none"
    sensitivity: Sensitivity | None = None
    taint: Taint | None = None
    failed: Failed | None = None
    masking: Masking | UnsetType = UNSET
    cloud_models: tuple[CloudModel, ...] | UnsetType = UNSET
    """Gathered where placement.yaml names zones: the first that may serve is the cloud model."""
    stays_within: tuple[str, ...] | UnsetType = UNSET
    """The zones that a caller's own facts name."""
    labels: tuple[str, ...] | UnsetType = UNSET
    """The labels of the items that are sent; gathered where placement.yaml names labels."""


FACTS_FORM = Form(PlacementFacts)


class GivenQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """The question, as a caller writes it."""

    id: Name
    session_id: Name
    content: str
    privacy_level: Privacy
    timestamp: str
    intent: Intent | None = None
    constraints: dict[str, Anything] | None = None


class GivenLocalModel(Struct, frozen=True, forbid_unknown_fields=True):
    """What the machine can run, as a caller writes it."""

    model_name: Name
    supported_intents: tuple[Intent, ...]
    available: bool
    max_tokens: Annotated[int, Meta(ge=1, le=MAX_INT)] | None = None


class GivenCloudModel(Struct, frozen=True, forbid_unknown_fields=True):
    """The model a cloud route would take, as a caller writes it."""

    model_name: Name
    zone: Name | UnsetType = UNSET


class GivenState(Struct, frozen=True, forbid_unknown_fields=True):
    """The state of the machine, as a caller writes it."""

    local_model: GivenLocalModel
    cloud_model: GivenCloudModel
    network_state: Network
    token_count: Count | None = None


class GivenDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision as `place --json` prints it."""

    route: Route
    model: Name
    rule_id: str
    fallback_allowed: bool
    router_version: str
    reason: str = ""
    confidence: Annotated[object, Meta(extra_json_schema={"const": 1})] = 1
    requires_confirmation: bool = False
    log_escalation: bool = False
    trace: Anything = None
    decision_id: str = ""
    policy_id: str = ""
    facts_id: str = ""
    decision_version: int = 0
    elapsed_ms: Anything = None


class GivenPlacement(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of a placement, as a caller writes them: `pointsman place --facts`."""

    question: GivenQuestion
    state: GivenState
    human_override: HumanOverride = "none"
    initial_decision: GivenDecision | UnsetType = UNSET
    execution_failed: bool | UnsetType = UNSET


def read_facts(document: Document) -> GivenPlacement:
    """Read facts a caller wrote, or raise with every problem at its place."""
    return conform(document, GivenPlacement, _problems)


def placement_facts(
    given: GivenPlacement, token_count: int, counted_by: CountedBy
) -> PlacementFacts:
    """Return the exact facts of a caller's input."""
    question, state = given.question, given.state
    local = state.local_model
    return PlacementFacts(
        question_id=question.id,
        session_id=question.session_id,
        content=question.content,
        privacy_level=question.privacy_level,
        intent=question.intent,
        constraints_id=_constraints_id(question.constraints),
        asked_at=read_instant(question.timestamp),
        local_model=LocalModel(
            local.model_name, local.max_tokens, local.supported_intents, local.available
        ),
        cloud_model=state.cloud_model.model_name,
        network_state=state.network_state,
        token_count=token_count,
        counted_by=counted_by,
        human_override=given.human_override,
        failed=_stored_failure(given),
        cloud_models=_cloud_models(state.cloud_model),
    )


def _cloud_models(given: GivenCloudModel) -> tuple[CloudModel, ...] | UnsetType:
    return UNSET if given.zone is UNSET else (CloudModel(given.model_name, given.zone),)


def with_seal(
    facts: PlacementFacts, seal: Sealed, values: Sealed | UnsetType = UNSET
) -> PlacementFacts:
    """Return the facts as they are recorded: the text and the masked values by their seals."""
    masking = facts.masking
    if masking is not UNSET and masking.values is not UNSET:
        masking = replace(masking, values=values)
    return replace(facts, content=seal, masking=masking)


def with_text(facts: PlacementFacts, texts: Texts) -> PlacementFacts:
    """Return recorded facts with their text restored."""
    content = facts.content
    return facts if isinstance(content, str) else replace(facts, content=texts(content))


def _stored_failure(given: GivenPlacement) -> Failed | None:
    stored = given.initial_decision
    if stored is UNSET:
        return None
    return Failed(stored.route, stored.rule_id, stored.fallback_allowed)


def _constraints_id(constraints: dict[str, object] | None) -> str:
    if constraints is None:
        return ""
    value: dict[str, Json] = constraints  # type: ignore[assignment] # read from JSON
    return content_id(canonical_json(value))


def _problems(given: GivenPlacement, document: Document) -> Iterable[Problem]:
    try:
        read_instant(given.question.timestamp)
    except InputError as error:
        path = ("question", "timestamp")
        yield document.problem(path, Code.INVALID_VALUE, error.message, error.hint)
    stored, has_failed = given.initial_decision, given.execution_failed is True
    if (stored is not UNSET) != has_failed:
        message = "`initial_decision` and `execution_failed: true` come together"
        yield document.problem((), Code.INVALID_VALUE, message)
    if stored is UNSET:
        return
    if stored.router_version.partition(".")[0] != MAJOR:
        message = f"`{stored.router_version}` is of a major version unknown here"
        path = ("initial_decision", "router_version")
        yield document.problem(path, Code.UNKNOWN_VALUE, message)
    if stored.fallback_allowed and (stored.route == "cloud" or stored.log_escalation):
        message = "a fallback decision, or one for the cloud, never allows a fallback"
        path = ("initial_decision", "fallback_allowed")
        yield document.problem(path, Code.INVALID_VALUE, message)
