"""What a turn's decision may look at, frozen: nothing else about the world can matter to it."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.canonical import Form
from pointsman.kernel.columns import ascii_lower
from pointsman.kernel.content import Sealed, Texts
from pointsman.kernel.document import Document
from pointsman.kernel.literal import ClockTime, Count, Fraction, SignedUsd, Usd
from pointsman.kernel.number import MicroUsd, billionths, microusd
from pointsman.kernel.schema import conform
from pointsman.placement.rules.zones import CLOUD, LOCAL, ZoneName
from pointsman.placement.trace import Gate, Placed
from pointsman.turns.learning.evidence import Evidence
from pointsman.turns.learning.pattern import ExploringSoFar
from pointsman.turns.learning.pattern_row import PatternRow, Share, nearest_first
from pointsman.turns.learning.second_opinion import Opinion
from pointsman.turns.registry.models import Tier, model_id
from pointsman.turns.registry.provider_state import Health

Privacy = Literal["local", "cloud", "auto"]
Network = Literal["online", "offline", "degraded"]

ANY_MODEL = "*"


class Override(Struct, frozen=True, forbid_unknown_fields=True):
    """The `@alias` a message began with, and the model it stands for."""

    alias: str
    model: str


class BudgetLeft(Struct, frozen=True, forbid_unknown_fields=True):
    """What a budget still allows; below zero when it was overdrawn."""

    name: str
    left_microusd: MicroUsd


class SplitUnits(Struct, frozen=True, forbid_unknown_fields=True):
    """The names by which turns fall into the slots of a split; empty where there is none."""

    session: str = ""
    key: str = ""
    turn: str = ""


StopScope = Literal["all", "tenant", "provider"]


class ActiveStop(Struct, frozen=True, forbid_unknown_fields=True):
    """An order that stops all calls, those of the caller's tenant, or those to a provider."""

    id: str
    scope: StopScope
    name: str
    reason: str
    by: str


class CallerFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The sender of a turn: its key by id and name, its tenant, and the client it says it is.

    `agent` is in lower case; an empty text says that there is none.
    """

    key_id: str = ""
    key_name: str = ""
    tenant: str = ""
    agent: str = ""


class TurnFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of one turn, exact. The message is a seal once recorded."""

    message: str | Sealed
    override: Override | None = None
    sticky_model: str | None = None
    workspace_path: str | None = None
    is_worker: bool = False
    has_images: bool = False
    estimated_input_tokens: dict[str, int] = {}
    has_tool_calls_in_history: bool = False
    has_tool_definitions: bool = False
    has_system_prompt: bool = False
    requires_structured_output: bool = False
    skills_matching_message: tuple[str, ...] = ()
    file_extensions_in_context: tuple[str, ...] = ()
    local_minutes: int = 720
    cost_today_microusd: MicroUsd = MicroUsd(0)
    privacy_level: Privacy = "auto"
    network_state: Network = "online"
    availability: dict[str, Health] = {}
    pattern_rows: tuple[PatternRow, ...] = ()
    delegate_tier: Tier | None = None
    configured: tuple[str, ...] | None = None
    allowed_models: tuple[str, ...] | None = None
    budgets: tuple[BudgetLeft, ...] = ()
    excluded_models: tuple[str, ...] = ()
    price_table_id: str = ""
    catalogue_id: str = ""
    """The content id of the catalogue of models' capabilities."""
    tokenizer: str = ""
    placement: Placed | None = None
    pattern_evidence: Evidence | UnsetType = UNSET
    explore_draw: Share | UnsetType = UNSET
    exploring: ExploringSoFar | UnsetType = UNSET
    """The exploring before this turn; only where the turn drew to explore."""
    named_model: str | UnsetType = UNSET
    """The model that the request itself names: it takes the turn, or no model does."""
    max_output_tokens: int | UnsetType = UNSET
    """How long an answer the request allows."""
    caller: CallerFacts | UnsetType = UNSET
    """Gathered where a rule asks for it, and `tool_names` too: other facts keep their bytes."""
    tool_names: tuple[str, ...] | UnsetType = UNSET
    stops: tuple[ActiveStop, ...] | UnsetType = UNSET
    """The orders in force, where there are any."""
    split_units: SplitUnits | UnsetType = UNSET
    """Gathered where a rule has a split."""
    opinions: tuple[Opinion, ...] | UnsetType = UNSET
    """What those answered that were asked for a second opinion; only in the steps of one."""

    @property
    def asked_output(self) -> int | None:
        """The longest answer the request allows; None where it says nothing."""
        return None if self.max_output_tokens is UNSET else self.max_output_tokens

    @property
    def zones(self) -> tuple[str, ...]:
        """The innermost zones that the turn must stay within; `cloud` where it may go anywhere."""
        placed = self.placement
        if self.privacy_level == LOCAL or (placed is not None and placed.gate == "local"):
            return (LOCAL,)
        if placed is None or placed.zones is UNSET:
            return (CLOUD,)
        return placed.zones

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the items that the turn sends."""
        placed = self.placement
        return () if placed is None or placed.labels is UNSET else placed.labels

    def tokens_for(self, model: str) -> int:
        """Return the estimate for a model, else the one for any."""
        tokens = self.estimated_input_tokens
        return tokens.get(model, tokens.get(ANY_MODEL, 0))


FACTS_FORM = Form(TurnFacts)


class GivenSession(Struct, frozen=True, forbid_unknown_fields=True):
    """The session a turn belongs to, as a caller writes it."""

    sticky_model: str | None = None
    workspace_path: str | None = None
    is_worker: bool = False


class GivenRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A neighbour from the pattern store, as a caller writes it."""

    fingerprint_id: str
    model: str
    cost_usd: Usd
    sample_size: Count
    similarity: Fraction
    success: Fraction | None = None


class GivenBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """What a budget still allows, as a caller writes it."""

    name: str
    left_usd: SignedUsd


class GivenFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of a turn as a caller writes them: `pointsman route --facts`."""

    message: str
    session: GivenSession = GivenSession()
    has_images: bool = False
    estimated_input_tokens: Count | dict[str, Count] | None = None
    has_tool_calls_in_history: bool = False
    has_tool_definitions: bool = False
    has_system_prompt: bool = False
    requires_structured_output: bool = False
    skills_matching_message: tuple[str, ...] = ()
    file_extensions_in_context: tuple[str, ...] = ()
    local_time: ClockTime = "12:00"
    cost_today_usd: Usd = Decimal(0)
    privacy_level: Privacy = "auto"
    network_state: Network = "online"
    availability: dict[str, Health] = {}
    pattern_rows: tuple[GivenRow, ...] = ()
    delegate_tier: Tier | None = None
    configured: tuple[str, ...] | None = None
    allowed_models: tuple[str, ...] | None = None
    budgets: tuple[GivenBudget, ...] = ()
    excluded_models: tuple[str, ...] = ()
    named_model: str | None = None
    max_output_tokens: Count | None = None
    caller: CallerFacts | None = None
    tool_names: tuple[str, ...] | None = None
    stops: tuple[ActiveStop, ...] = ()
    split_units: SplitUnits | None = None
    stays_within: tuple[ZoneName, ...] = ()
    """The zones that the turn must stay within, as a placement would say."""
    labels: tuple[str, ...] = ()
    """The labels of the items that the turn sends, likewise."""


def read_facts(document: Document) -> GivenFacts:
    """Read facts a caller wrote, or raise with every problem at its place."""
    return conform(document, GivenFacts)


def turn_facts(given: GivenFacts, override: Override | None, message: str) -> TurnFacts:
    """Return the exact facts of a caller's input; `message` comes without its override."""
    session = given.session
    return TurnFacts(
        message=message,
        override=override,
        sticky_model=None if session.sticky_model is None else model_id(session.sticky_model),
        workspace_path=session.workspace_path,
        is_worker=session.is_worker,
        has_images=given.has_images,
        estimated_input_tokens=_tokens(given.estimated_input_tokens),
        has_tool_calls_in_history=given.has_tool_calls_in_history,
        has_tool_definitions=given.has_tool_definitions,
        has_system_prompt=given.has_system_prompt,
        requires_structured_output=given.requires_structured_output,
        skills_matching_message=given.skills_matching_message,
        file_extensions_in_context=tuple(map(ascii_lower, given.file_extensions_in_context)),
        local_minutes=minutes(given.local_time),
        cost_today_microusd=microusd(f"{given.cost_today_usd:f}"),
        privacy_level=given.privacy_level,
        network_state=given.network_state,
        availability={model_id(name): state for name, state in given.availability.items()},
        pattern_rows=nearest_first([_row(each) for each in given.pattern_rows]),
        delegate_tier=given.delegate_tier,
        configured=_ids(given.configured),
        allowed_models=_ids(given.allowed_models),
        budgets=tuple(map(_budget, given.budgets)),
        excluded_models=_ids(given.excluded_models) or (),
        named_model=UNSET if given.named_model is None else model_id(given.named_model),
        max_output_tokens=UNSET if given.max_output_tokens is None else given.max_output_tokens,
        caller=UNSET if given.caller is None else _caller(given.caller),
        tool_names=UNSET if given.tool_names is None else given.tool_names,
        stops=given.stops or UNSET,
        split_units=UNSET if given.split_units is None else given.split_units,
        placement=placed_within(
            given.stays_within, given.labels, is_local=given.privacy_level == LOCAL
        ),
    )


def placed_within(
    zones: tuple[str, ...], labels: tuple[str, ...] = (), *, is_local: bool = False
) -> Placed | None:
    """Return the placement of a turn whose caller names zones or labels; None for neither."""
    zones = tuple(zone for zone in zones if zone != CLOUD)
    if not zones and not labels:
        return None
    gate: Gate = "zone" if zones else "local" if is_local else "open"
    said = ("", "STATED", gate, "the facts say so")
    return Placed(*said, zones=zones or UNSET, labels=labels or UNSET)


def with_seal(facts: TurnFacts, seal: Sealed) -> TurnFacts:
    """Return the facts as they are recorded: the text replaced by its seal."""
    return replace(facts, message=seal)


def with_placement(facts: TurnFacts, placed: Placed) -> TurnFacts:
    """Return the facts with the placement of the turn."""
    return replace(facts, placement=placed)


def with_text(facts: TurnFacts, texts: Texts) -> TurnFacts:
    """Return recorded facts with their text restored."""
    message = facts.message
    return facts if isinstance(message, str) else replace(facts, message=texts(message))


def minutes(text: str) -> int:
    """Read `HH:MM` as minutes since midnight."""
    return int(text[:2]) * 60 + int(text[3:])


def _tokens(given: int | dict[str, int] | None) -> dict[str, int]:
    if given is None:
        return {}
    if isinstance(given, int):
        return {ANY_MODEL: given}
    return {model_id(name): count for name, count in given.items()}


def _ids(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(map(model_id, names))


def _caller(given: CallerFacts) -> CallerFacts:
    return replace(given, agent=ascii_lower(given.agent))


def _budget(given: GivenBudget) -> BudgetLeft:
    return BudgetLeft(given.name, microusd(f"{given.left_usd:f}"))


def _row(given: GivenRow) -> PatternRow:
    return PatternRow(
        given.fingerprint_id,
        model_id(given.model),
        None if given.success is None else billionths(f"{given.success:f}"),
        microusd(f"{given.cost_usd:f}"),
        given.sample_size,
        billionths(f"{given.similarity:f}"),
    )
