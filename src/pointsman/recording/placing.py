"""Gathering for placement: the candidate models, the session's taint, the text's sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import Instant
from pointsman.placement.facts import (
    CloudModel,
    CountedBy,
    GivenPlacement,
    LocalModel,
    MaskedKind,
    Masking,
    PlacementFacts,
    Sensitivity,
    Taint,
    may_mask,
    placement_facts,
)
from pointsman.placement.policy import PlacementPolicy
from pointsman.providers.dialects.masked_body import MaskedBody, mask_body
from pointsman.recording.labels import NO_ITEMS, ToolItems, labels_of
from pointsman.recording.own_detectors import OwnDetectors, with_own
from pointsman.recording.taints import Taints
from pointsman.signals.masking import Placeholders
from pointsman.signals.sensitivity import LongText, sensitivity, sensitivity_of_parts
from pointsman.signals.tokens import Counted, count_for_model
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import InForce
from pointsman.turns.facts import ANY_MODEL, TurnFacts
from pointsman.turns.registry.models import Model, model_id, provider_of


class PlacedTurn(Struct, frozen=True):
    """The names of the turn that a placement is about."""

    turn_id: str
    session_id: str
    asked_at: Instant
    items: Callable[[], Iterable[str]] | None = None
    """Names what stands in the history, where the session is known by its opening alone."""
    tools: Callable[[], ToolItems] = lambda: NO_ITEMS
    """Finds the calls of tools that are sent; asked where placement.yaml names labels."""
    handed_labels: tuple[str, ...] = ()
    """Labels that come with a request: from its caller's header, or from a worker's planner."""


class MaskedRequest(Struct, frozen=True):
    """A request under placeholders, and the values they stand for."""

    found: MaskedBody
    placeholders: Placeholders


def is_to_be_masked(policy: PlacementPolicy, found: Sensitivity) -> bool:
    """Tell whether a text holds something that the policy wants masked."""
    return bool(policy.masked_kinds and kinds_to_mask(policy, found))


def kinds_to_mask(policy: PlacementPolicy, found: Sensitivity) -> list[str]:
    """Return the kinds of a text that the policy wants masked."""
    named = policy.masked_kinds
    return [kind for kind in found.kinds if may_mask(kind, policy.stays_local, named)]


def _without_masked(
    policy: PlacementPolicy, found: Sensitivity | None, masking: Masking | UnsetType
) -> Sensitivity | None:
    """Return what a text still holds once it is masked: what stands under placeholders is free."""
    if found is None or masking is UNSET or masking.obstacle is not UNSET:
        return found
    masked = policy.masked_kinds
    kinds = (each for each in found.kinds if not may_mask(each, policy.stays_local, masked))
    return replace(found, kinds=tuple(kinds))


def masking_of(masked: MaskedRequest, wanted: Iterable[str]) -> Masking:
    """Return the fact of a masked request: how much by kind, and the values behind it.

    INVARIANT: a kind that was found in the text and was not masked in the request is an obstacle:
    both are looked through, and they need not cut their texts alike.
    """
    found = masked.found
    missed = [kind for kind in wanted if kind not in found.counts]
    obstacle = found.obstacle or (f"{', '.join(missed)} has no place in it" if missed else "")
    if obstacle:
        return Masking((), obstacle=obstacle)
    kinds = tuple(MaskedKind(kind, count) for kind, count in found.counts.items())
    return Masking(kinds, values=masked.placeholders.table())


def facts_of_turn(  # noqa: PLR0913 - what one placement looks at
    in_force: InForce,
    facts: TurnFacts,
    about: PlacedTurn,
    *,
    taint: Taint | None = None,
    sensitivity: Sensitivity | None = None,
    labels: tuple[str, ...] | UnsetType = UNSET,
    masking: Masking | UnsetType = UNSET,
) -> PlacementFacts:
    """Return the placement facts of a turn."""
    local, cloud = _candidates(in_force, facts)
    stated, zones = facts.placement, in_force.placement.policy.zones
    own = in_force.placement.policy.local_model
    is_binding = in_force.placement.policy.auto == "binding" and facts.privacy_level == "auto"
    if is_binding and own is not UNSET and model_id(own) in in_force.ready.models:
        # INVARIANT: a turn is bound to the model that is meant to serve, never to a stand-in.
        local = _local_named(in_force.ready.models, model_id(own), facts)
    return PlacementFacts(
        question_id=about.turn_id,
        session_id=about.session_id,
        content=facts.message,
        privacy_level=facts.privacy_level,
        intent=None,
        constraints_id="",
        asked_at=about.asked_at,
        local_model=local,
        cloud_model=cloud,
        network_state=facts.network_state,
        token_count=facts.tokens_for(ANY_MODEL),
        counted_by=_estimated_by(facts.tokenizer),
        sensitivity=sensitivity,
        taint=taint,
        masking=masking,
        cloud_models=UNSET if zones is UNSET else _cloud_models(in_force.ready.models, facts),
        stays_within=UNSET if stated is None else stated.zones,
        labels=labels if stated is None or stated.labels is UNSET else stated.labels,
    )


def facts_given(given: GivenPlacement) -> PlacementFacts:
    """Return the placement facts that a caller wrote; tokens are counted where not given."""
    count = given.state.token_count
    if count is not None:
        return placement_facts(given, count, CountedBy("given", is_exact=False))
    found: Counted = count_for_model(given.question.content, given.state.local_model.model_name)
    return placement_facts(given, found.tokens, CountedBy(found.tokenizer, found.is_exact))


def _candidates(in_force: InForce, facts: TurnFacts) -> tuple[LocalModel, str]:
    """Return the local candidate of a placement, and the name of the cloud one."""
    models = in_force.ready.models
    if facts.availability or facts.excluded_models:
        return _local(models, facts), _best(models, facts, "cloud")
    # Then all depends on which are configured: found once for each policy.
    known = in_force.candidates.get(facts.configured)
    if known is None:
        known = (_local(models, facts), _best(models, facts, "cloud"))
        in_force.candidates[facts.configured] = known
    return known


def _local(models: dict[str, Model], facts: TurnFacts) -> LocalModel:
    return _local_named(models, _best(models, facts, "local"), facts)


def _local_named(models: dict[str, Model], name: str, facts: TurnFacts) -> LocalModel:
    found = models.get(name)
    most = None if found is None else found.capabilities.max_context_tokens
    return LocalModel(name or "none", most, (), bool(name) and _is_usable(name, facts))


@cache
def _estimated_by(tokenizer: str) -> CountedBy:
    return CountedBy(tokenizer, is_exact=False)


def _best(models: dict[str, Model], facts: TurnFacts, location: str) -> str:
    """Name the first model there that can be used, else the first at all.

    DETERMINISM: by name, because a recorded policy keeps no order of its models.
    """
    names = sorted(name for name, model in models.items() if model.location == location)
    usable = [name for name in names if _is_usable(name, facts)]
    return next(iter([*usable, *names]), "")


def _cloud_models(models: dict[str, Model], facts: TurnFacts) -> tuple[CloudModel, ...]:
    """Return the models of the cloud with their zones: those that can be used come first.

    DETERMINISM: by name, because a recorded policy keeps no order of its models.
    """
    names = sorted(name for name, model in models.items() if model.location == "cloud")
    names.sort(key=lambda name: not _is_usable(name, facts))
    return tuple(CloudModel(name, models[name].zone) for name in names)


def _is_usable(name: str, facts: TurnFacts) -> bool:
    if facts.configured is not None and name not in facts.configured:
        return False
    states = (facts.availability.get(provider_of(name)), facts.availability.get(name))
    is_out = "unavailable" in states or "rate_limited" in states
    return not is_out and name not in facts.excluded_models


class PlacementGathering:
    """Gathers the facts of placements; may be shared by threads."""

    def __init__(self, home: Home, taints: Taints, own: Callable[[], OwnDetectors | None]) -> None:
        self._home = home
        self._taints = taints
        self._own = own

    def gather(
        self,
        in_force: InForce,
        facts: TurnFacts,
        about: PlacedTurn,
        text: Callable[[], str | LongText] | None = None,
        masked: Callable[[], MaskedRequest] | None = None,
    ) -> PlacementFacts:
        """Gather the placement facts of a turn.

        `text` gives everything that would leave with the message; without it, that is the message.
        `masked` gives the request as it leaves under placeholders; without it, nothing is masked.
        INVARIANT: a caller that gives it sends nothing else to a model in the cloud.
        """
        taint = None
        if in_force.placement.policy.taint != "off":
            taint = self._taints.of(about.session_id, about.items)
        found = None
        policy = in_force.placement.policy
        if policy.looks_into_texts:
            found = self._sensitivity(in_force, facts.message if text is None else text())
        masking: Masking | UnsetType = UNSET
        if found is not None and is_to_be_masked(in_force.placement.policy, found):
            if masked is not None:
                masking = masking_of(masked(), kinds_to_mask(in_force.placement.policy, found))
            elif text is None:
                masking = self._masking_of_message(in_force, facts.message, about, found)
        labels: tuple[str, ...] | UnsetType = UNSET
        if policy.labels is not UNSET or about.handed_labels:
            plain = _without_masked(policy, found, masking)
            own = labels_of(
                policy.all_labels, about.tools(), plain, knows_workers=policy.taint != "off"
            )
            labels = tuple(dict.fromkeys((*own, *about.handed_labels)))
        return facts_of_turn(
            in_force,
            facts,
            about,
            taint=taint,
            sensitivity=found,
            masking=masking,
            labels=labels,
        )

    def _masking_of_message(
        self, in_force: InForce, message: str | Sealed, about: PlacedTurn, found: Sensitivity
    ) -> Masking | UnsetType:
        """Mask a message that is decided about and sent nowhere."""
        if not isinstance(message, str):
            return UNSET
        body = msgspec.json.encode({"text": message})
        masked = self.mask_request(in_force, about.session_id, body)
        return masking_of(masked, kinds_to_mask(in_force.placement.policy, found))

    def mask_request(self, in_force: InForce, session_id: str, body: bytes) -> MaskedRequest:
        """Return a request with placeholders for what the policy wants masked."""
        policy = in_force.placement.policy
        placeholders = Placeholders(
            self._home.content_key(),
            session_id,
            lambda kind: may_mask(kind, policy.stays_local, policy.masked_kinds),
        )
        try:
            found = mask_body(body, placeholders)
        except Exception:  # noqa: BLE001 - whatever it fails of, nothing may leave then
            found = MaskedBody(body, {}, "the request could not be read for it")
        return MaskedRequest(found, placeholders)

    def given_facts(self, in_force: InForce, given: GivenPlacement) -> PlacementFacts:
        """Return the placement facts that a caller wrote; no record is read."""
        facts = facts_given(given)
        found, policy = self._sensitivity(in_force, facts.content), in_force.placement.policy
        facts = replace(facts, sensitivity=found)
        if policy.labels is not UNSET and facts.labels is UNSET:
            facts = replace(facts, labels=labels_of(policy.labels, NO_ITEMS, found))
        if found is None or not is_to_be_masked(policy, found):
            return facts
        about = PlacedTurn(facts.question_id, facts.session_id, facts.asked_at)
        masking = self._masking_of_message(in_force, facts.content, about, found)
        return replace(facts, masking=masking)

    def _sensitivity(
        self, in_force: InForce, content: str | Sealed | LongText
    ) -> Sensitivity | None:
        """Ask the detector, if the policy wants to know what a text holds."""
        if not in_force.placement.policy.looks_into_texts or isinstance(content, Sealed):
            return None
        key = self._home.content_key()
        if isinstance(content, LongText):
            found = sensitivity_of_parts(content.parts, key, content.memo)
        else:
            found = sensitivity(content, key)
        own = self._own()
        if own is None:
            return found
        text = content if isinstance(content, str) else content.text()
        return with_own(found, own.names, own.find(text), text, key)
