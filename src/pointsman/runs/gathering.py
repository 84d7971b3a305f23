"""Gathering: everything a turn's decision may look at, read once and frozen into its facts.

The only step that looks at the world: secrets that can be found, the time of day, similar turns.
"""

from __future__ import annotations

import time
from contextlib import closing
from decimal import Decimal

from msgspec.structs import replace

from pointsman.kernel.instant import SECOND, Instant
from pointsman.kernel.number import microusd_text
from pointsman.signals.tokens import TOKENIZER, count_tokens
from pointsman.storage.home import Home
from pointsman.storage.policies import InForce, PolicyFiles
from pointsman.storage.secrets import is_resolved
from pointsman.storage.sqlite.patterns import PatternStore
from pointsman.turns.facts import ANY_MODEL, GivenBudget, GivenFacts, TurnFacts, turn_facts
from pointsman.turns.fingerprint import Surroundings, fingerprint_of, hashed_vector
from pointsman.turns.override import Mode, split_override
from pointsman.turns.pattern_row import PatternRow
from pointsman.turns.ready import ReadyPolicy
from pointsman.turns.registry import EMBEDDED_PROVIDER, provider_of


class Gathering:
    """Gathers the facts of turns in one home."""

    def __init__(self, home: Home, files: PolicyFiles) -> None:
        self._home = home
        self._files = files
        self.warnings: tuple[str, ...] = ()

    def facts(self, message: str, now: Instant) -> TurnFacts:
        """Gather what a decision about this message may look at; `warnings` tell what failed."""
        self.warnings = ()
        in_force = self._files.in_force()
        budgets = tuple(
            GivenBudget(each.name, Decimal(microusd_text(each.limit_microusd)))
            for each in in_force.ready.policy.budgets
        )
        given = GivenFacts(message, configured=self._configured(in_force), budgets=budgets)
        facts = self._exact(given, in_force.ready)
        settings = in_force.ready.scope(facts.workspace_path).pattern
        rows: tuple[PatternRow, ...] = ()
        if settings.mode != "off" and self._home.patterns.exists():
            rows = self._similar(facts, settings.k)
        return replace(facts, local_minutes=local_minutes(now), pattern_rows=rows)

    def given_facts(self, given: GivenFacts) -> TurnFacts:
        """Give the exact facts of what a caller wrote; neither clock nor records are looked at."""
        return self._exact(given, self._files.in_force().ready)

    def _exact(self, given: GivenFacts, ready: ReadyPolicy) -> TurnFacts:
        # A worker's task brief is no user's message: an @ in it is text (document 002 §6.9.1).
        mode: Mode = "off" if given.session.is_worker else "strict"
        override, message = split_override(given.message, ready.aliases, mode)
        facts = turn_facts(given, override, message)
        tokens, tokenizer = facts.estimated_input_tokens, "given"
        if ANY_MODEL not in tokens:
            # A model that nobody estimated for must not pass as needing no tokens at all.
            tokens, tokenizer = {**tokens, ANY_MODEL: count_tokens(message)}, TOKENIZER
        return replace(
            facts,
            estimated_input_tokens=tokens,
            tokenizer=tokenizer,
            price_table_id=self._files.prices.id,
        )

    def _similar(self, facts: TurnFacts, k: int) -> tuple[PatternRow, ...]:
        message = facts.message if isinstance(facts.message, str) else ""
        around = Surroundings(
            file_extensions=facts.file_extensions_in_context,
            has_images=facts.has_images,
            has_tool_calls_in_history=facts.has_tool_calls_in_history,
            estimated_input_tokens=facts.tokens_for(ANY_MODEL),
            workspace_path=facts.workspace_path,
        )
        with closing(PatternStore(self._home.patterns)) as store:
            found = store.found(fingerprint_of(message, around), hashed_vector(message), k)
        if found.reason:
            self.warnings = (f"{self._home.patterns}: {found.reason}",)
        return found.rows

    def _configured(self, in_force: InForce) -> tuple[str, ...]:
        """Name the models whose provider has what it needs: its secrets can be found."""
        providers = in_force.models.providers
        return tuple(
            name
            for name in in_force.ready.models
            if provider_of(name) == EMBEDDED_PROVIDER
            or is_resolved(providers.get(provider_of(name)), self._home.path)
        )


def local_minutes(instant: Instant) -> int:
    """Give the minutes since midnight of an instant, in the zone of this machine."""
    local = time.localtime(instant // SECOND)
    return local.tm_hour * 60 + local.tm_min
