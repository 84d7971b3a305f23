"""Gathering: everything a turn's decision may look at, read once and frozen into its facts.

The only step that looks at the world: secrets that can be found, the time of day, similar turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cached_property, lru_cache
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.access.caps import Per, caps_of, windows_at
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.instant import DAY, SECOND, Instant
from pointsman.kernel.number import MicroUsd
from pointsman.recording.health import LiveHealth
from pointsman.recording.stops import Stops
from pointsman.signals.tokens import TOKENIZER, count_tokens
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import InForce, PolicyFiles
from pointsman.storage.policies.secrets import is_resolved
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.spend import SPEND, SpendQuery, SpendReader
from pointsman.turns.chain.exploring import explore_draw
from pointsman.turns.chain.override import MARKS, Mode, split_override
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.facts import (
    ANY_MODEL,
    BudgetLeft,
    CallerFacts,
    GivenFacts,
    Network,
    Privacy,
    SplitUnits,
    TurnFacts,
    turn_facts,
)
from pointsman.turns.learning.fingerprint import Fingerprint, Surroundings, fingerprint_of
from pointsman.turns.learning.pattern import ExploringSoFar, PatternSettings
from pointsman.turns.registry.models import (
    EMBEDDED_PROVIDER,
    ModelsFile,
    Provider,
    Tier,
    provider_of,
)
from pointsman.turns.registry.provider_state import Health

NOTHING_TOUCHED = Surroundings()
HOME_CALLER = CallerFacts(agent="pointsman")
"""The sender of turns of the command line and of conversations on the home itself."""
LOOK_S = 1.0
"""How long a secret counts as found, and a store of patterns as absent, without another look."""


class CallSurroundings(Struct, frozen=True):
    """The facts of a model call beside its message, and about its caller."""

    input_tokens: int
    named_model: str | None = None
    """The model that the request itself names."""
    sticky_model: str | None = None
    max_output_tokens: int | None = None
    workspace_path: str | None = None
    has_images: bool = False
    has_tool_calls_in_history: bool = False
    has_tools: bool = False
    has_system_prompt: bool = False
    requires_structured_output: bool = False
    cost_today_microusd: MicroUsd = MicroUsd(0)
    privacy_level: Privacy = "auto"
    network_state: Network = "online"
    availability: dict[str, Health] = {}
    allowed_models: tuple[str, ...] | None = None
    budgets: tuple[BudgetLeft, ...] = ()
    is_worker: bool = False
    delegate_tier: Tier | None = None
    skills_matching_message: tuple[str, ...] = ()
    touched: Surroundings = Surroundings()
    """What the session's tools touched before this turn."""
    turn_id: str = ""
    """What exploration is drawn from; without it nothing is explored."""
    caller: Callable[[], CallerFacts] = lambda: HOME_CALLER
    """Asked where a rule asks who calls."""
    tool_names: Callable[[], tuple[str, ...]] = tuple
    """Asked where a rule asks for the names of tools."""
    session_id: str = ""
    """The conversation, by which splits are drawn."""


class _Configured(Struct, frozen=True):
    """Which models were configured at a moment, and the providers whose secrets were missing."""

    ready: CompiledTurnPolicy
    at: float
    missing: tuple[Provider, ...]
    names: tuple[str, ...]


def _look_for_secrets(in_force: InForce, home: Path, now: float) -> _Configured:
    given = in_force.models.providers.values()
    missing = tuple(each for each in given if not is_resolved(each, home))
    names = configured_models(in_force.models, in_force.ready.models, home)
    return _Configured(in_force.ready, now, missing, names)


def configured_models(models: ModelsFile, known: Iterable[str], home: Path) -> tuple[str, ...]:
    """Name the models, of those known, whose provider's secrets can be found."""
    given = models.providers
    usable = {EMBEDDED_PROVIDER, *(name for name in given if is_resolved(given[name], home))}
    return tuple(name for name in known if provider_of(name) in usable)


class Gathering:
    """Gathers the facts of turns in one home."""

    def __init__(
        self,
        home: Home,
        files: PolicyFiles,
        health: Callable[[], LiveHealth],
        stops: Stops | None = None,
    ) -> None:
        self._home = home
        self._stops = stops
        self._files = files
        self._health = health
        self.warnings: tuple[str, ...] = ()
        self._patterns_seen = (float("-inf"), False)
        self._configured: _Configured | None = None
        self.learns_in_background = False
        """Whether turns go on while much is learned: an event loop must not wait for that."""

    @cached_property
    def _patterns(self) -> PatternStore:
        return PatternStore(self._home.patterns, in_background=self.learns_in_background)

    @cached_property
    def vector_of(self) -> Callable[[str], bytes]:
        """The function that makes the vector of a text: letters and tokens."""
        # Imported here: numpy takes longer to load than most commands take.
        from pointsman.signals.embedding import text_vector  # noqa: PLC0415 - see above

        return text_vector

    def facts(self, in_force: InForce, message: str, now: Instant) -> TurnFacts:
        """Gather the facts of a decision about this message; `warnings` tell what failed."""
        self.warnings = ()
        health = self._health()
        if health.trouble:
            self.warnings = (health.trouble,)
        cost_today, budgets = self._spending(in_force, now)
        _, text = split_override(message, in_force.ready.aliases)
        around = CallSurroundings(
            input_tokens=count_tokens(text),
            availability=health.peek(),
            cost_today_microusd=cost_today,
            budgets=budgets,
        )
        return self.facts_of_call(in_force, message, around, now, "strict")

    def _spending(self, in_force: InForce, now: Instant) -> tuple[MicroUsd, tuple[BudgetLeft, ...]]:
        """Read today's spending, and the remaining amounts of budgets for all callers."""
        caps = [cap for cap in caps_of(in_force.ready.policy.budgets) if cap.each == "all"]
        windows, place = windows_at(now), self._home.place(SPEND)
        if not place.exists():
            return MicroUsd(0), tuple(BudgetLeft(cap.name, cap.limit_microusd) for cap in caps)
        with closing(SpendReader(place)) as reader:

            def spent_in(per: Per) -> int:
                first, end = windows.span(per)
                asked = SpendQuery(first_day=first, end_day=end)
                return sum(each.amounts.cost_microusd for each in reader.totals("all", asked))

            left = [MicroUsd(cap.limit_microusd - spent_in(cap.per)) for cap in caps]
            found = zip(caps, left, strict=True)
            return MicroUsd(spent_in("day")), tuple(
                BudgetLeft(cap.name, each) for cap, each in found
            )

    def facts_of_call(
        self, in_force: InForce, message: str, around: CallSurroundings, now: Instant, mode: Mode
    ) -> TurnFacts:
        """Gather the facts of a decision about one model call."""
        override, text = None, message
        if message.startswith(MARKS):
            override, text = split_override(message, in_force.ready.aliases, mode)
        most = around.max_output_tokens
        facts = TurnFacts(
            message=text,
            override=override,
            sticky_model=around.sticky_model,
            workspace_path=around.workspace_path,
            is_worker=around.is_worker,
            has_images=around.has_images,
            estimated_input_tokens={ANY_MODEL: around.input_tokens},
            has_tool_calls_in_history=around.has_tool_calls_in_history,
            has_tool_definitions=around.has_tools,
            has_system_prompt=around.has_system_prompt,
            requires_structured_output=around.requires_structured_output,
            skills_matching_message=around.skills_matching_message,
            file_extensions_in_context=around.touched.file_extensions,
            local_minutes=local_minutes(now),
            cost_today_microusd=around.cost_today_microusd,
            privacy_level=around.privacy_level,
            network_state=around.network_state,
            availability=around.availability,
            delegate_tier=around.delegate_tier,
            configured=self.configured_models(in_force),
            allowed_models=around.allowed_models,
            budgets=around.budgets,
            price_table_id=self._files.prices.id,
            catalogue_id=self._files.catalogue.id,
            tokenizer=TOKENIZER,
            named_model=around.named_model or UNSET,
            max_output_tokens=UNSET if most is None or not 0 < most <= MAX_INT else most,
            caller=around.caller() if in_force.ready.asks_caller else UNSET,
            tool_names=around.tool_names() if in_force.ready.asks_tool_names else UNSET,
        )
        if in_force.ready.split_by:
            facts = replace(facts, split_units=_split_units(in_force.ready.split_by, around))
        stops = self._stops
        if stops is not None and stops.in_force():
            facts = replace(facts, stops=stops.facts(around.caller().tenant) or UNSET)
        has_patterns = self._has_patterns()
        if around.is_worker or not (has_patterns or in_force.ready.learns_on_purpose):
            return facts
        settings = in_force.ready.scope(facts.workspace_path).pattern
        if settings.mode == "off":
            return facts
        draw = explore_draw(around.turn_id, settings)
        if draw is not UNSET:
            facts = replace(
                facts, explore_draw=draw, exploring=self._exploring(settings, draw, now)
            )
        return self._add_patterns(facts, settings, around.touched) if has_patterns else facts

    def _exploring(
        self, settings: PatternSettings, draw: int, now: Instant
    ) -> ExploringSoFar | UnsetType:
        """Count the explored turns so far, for a turn that drew to explore."""
        if settings.explore is UNSET or draw >= settings.explore:
            return UNSET
        if settings.explore_first is UNSET:
            return UNSET
        return self._patterns.exploring_so_far(Instant(now - now % DAY)) or UNSET

    def _has_patterns(self) -> bool:
        """Tell whether anything was learned yet; asked anew a second after it was asked last."""
        now = time.monotonic()
        if now - self._patterns_seen[0] > LOOK_S:
            # Tables in a database are there from the start, and each look at them is a journey.
            is_there = self._home.patterns.exists() and self._patterns.has_rows()
            self._patterns_seen = (now, is_there)
        return self._patterns_seen[1]

    def configured_models(self, in_force: InForce) -> tuple[str, ...]:
        """Name the models whose provider's secrets can be found.

        A missing secret is looked for at every turn: it counts from the turn after it was set.
        """
        now, known, home = time.monotonic(), self._configured, self._home.path
        if (
            known is None
            or known.ready is not in_force.ready
            or now - known.at > LOOK_S
            or any(is_resolved(each, home) for each in known.missing)
        ):
            known = self._configured = _look_for_secrets(in_force, home, now)
        return known.names

    def given_facts(self, in_force: InForce, given: GivenFacts) -> TurnFacts:
        """Return the exact facts of what a caller wrote; neither clock nor records are looked at.

        Unless the caller says so, a model is configured if its provider's secrets can be found.
        """
        if given.configured is None:
            given = replace(given, configured=self.configured_models(in_force))
        return exact_facts(given, in_force.ready, self._files)

    def _add_patterns(
        self, facts: TurnFacts, settings: PatternSettings, touched: Surroundings = NOTHING_TOUCHED
    ) -> TurnFacts:
        """Add the patterns of similar turns, by the policy's method."""
        # Imported here: numpy takes longer to load than a home without patterns takes to decide.
        from pointsman.signals.embedding import hashed_letters  # noqa: PLC0415 - see above

        message = facts.message if isinstance(facts.message, str) else ""
        look = turn_fingerprint(facts, touched)
        if settings.method is UNSET:
            rows = self._patterns.find_rows(look, hashed_letters(message), settings.k)
            self._warn(rows.reason)
            return replace(facts, pattern_rows=rows.rows)
        target = None if settings.target is UNSET else settings.target
        found = self._patterns.evidence(look, self.vector_of(message), settings.k, target)
        self._warn(found.reason)
        return replace(facts, pattern_evidence=found.evidence or UNSET)

    def _warn(self, reason: str) -> None:
        if reason:
            self.warnings = (*self.warnings, f"{self._home.patterns}: {reason}")

    def close(self) -> None:
        """Let go of the pattern store."""
        if "_patterns" in self.__dict__:
            self._patterns.close()


def _split_units(by: frozenset[str], around: CallSurroundings) -> SplitUnits:
    """Return the names of a turn that some split is drawn by; the others stay out of its facts."""
    return SplitUnits(
        around.session_id if "session" in by else "",
        around.caller().key_id if "key" in by else "",
        around.turn_id if "turn" in by else "",
    )


def exact_facts(given: GivenFacts, ready: CompiledTurnPolicy, files: PolicyFiles) -> TurnFacts:
    """Return the exact facts of what a caller wrote; the world is not looked at."""
    # A worker's task brief is no user's message: an @ in it is text (document 002 §6.9.1).
    mode: Mode = "off" if given.session.is_worker else "strict"
    override, message = split_override(given.message, ready.aliases, mode)
    facts = turn_facts(given, override, message)
    tokens, tokenizer = facts.estimated_input_tokens, "given"
    if ANY_MODEL not in tokens:
        # A model without an estimate must not pass as needing no tokens at all.
        tokens, tokenizer = {**tokens, ANY_MODEL: count_tokens(message)}, TOKENIZER
    return replace(
        ready.complete(facts),
        estimated_input_tokens=tokens,
        tokenizer=tokenizer,
        price_table_id=files.prices.id,
        catalogue_id=files.catalogue.id,
    )


def turn_fingerprint(facts: TurnFacts, touched: Surroundings = NOTHING_TOUCHED) -> Fingerprint:
    """Take the fingerprint of a turn as it begins: the one it is looked up and learned by."""
    message = facts.message if isinstance(facts.message, str) else ""
    around = replace(
        touched,
        file_extensions=facts.file_extensions_in_context,
        has_images=facts.has_images,
        has_tool_calls_in_history=facts.has_tool_calls_in_history,
        estimated_input_tokens=facts.tokens_for(ANY_MODEL),
        workspace_path=facts.workspace_path,
    )
    return fingerprint_of(message, around)


def local_minutes(instant: Instant) -> int:
    """Return the minutes since local midnight at an instant."""
    return _minutes_of(instant // (60 * SECOND))


@lru_cache(maxsize=2)
def _minutes_of(minute: int) -> int:
    local = time.localtime(minute * 60)
    return local.tm_hour * 60 + local.tm_min
