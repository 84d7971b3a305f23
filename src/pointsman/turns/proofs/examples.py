"""An example drawn from values that were found: a turn as a caller writes it, and its decision."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.kernel.number import SCALE, billionths_text, microusd_text
from pointsman.placement.rules.zones import BUILT_IN_ZONES
from pointsman.turns.chain.override import MARKS, split_override
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.facts import (
    ANY_MODEL,
    GivenBudget,
    GivenFacts,
    GivenRow,
    GivenSession,
    TurnFacts,
    turn_facts,
)
from pointsman.turns.proofs.chain_formula import Winner, World
from pointsman.turns.proofs.found_turn import FoundTurn, with_budget
from pointsman.turns.proofs.similar_turns import SimilarTurns, rows_for
from pointsman.turns.proofs.solver import Model
from pointsman.turns.proofs.turn_variables import TurnVariables
from pointsman.turns.rules.review import clock_text
from pointsman.turns.trace import TurnOutcome, TurnTrace


class Example(Struct, frozen=True):
    """One turn, and how it is decided; without a winner no model takes it."""

    facts: GivenFacts
    winner: Winner | None


NO_FACTS: Final = GivenFacts("")


def make_example(
    ready: CompiledTurnPolicy,
    turn: TurnVariables,
    similar: SimilarTurns,
    world: World,
    model: Model,
) -> Example | None:
    """Draw an example and decide it; None where no rows speak for what similar turns must say."""
    facts = example_facts((ready,), turn, similar, world, model)
    return None if facts is None else Example(facts, decide_example(ready, facts))


def example_facts(
    policies: tuple[CompiledTurnPolicy, ...],
    turn: TurnVariables,
    similar: SimilarTurns,
    world: World,
    model: Model,
) -> GivenFacts | None:
    """Return the facts of a turn that was found, as a caller writes them for all these policies."""
    found = with_budget(FoundTurn(turn, model).facts(), world.budget_left)
    scopes = [each.scope(found.workspace_path) for each in policies]
    rows = rows_for({each.pattern: similar.choice(model, each.pattern) for each in scopes})
    if rows is None:
        return None
    asked = UNSET if world.max_output_tokens is None else world.max_output_tokens
    return given_facts(
        replace(found, pattern_rows=rows, max_output_tokens=asked), FoundTurn(turn, model).alias()
    )


def decide_example(ready: CompiledTurnPolicy, given: GivenFacts) -> Winner | None:
    """Decide a turn as `rules test` does; None where no model takes it."""
    override, message = split_override(
        given.message, ready.aliases, "off" if given.session.is_worker else "strict"
    )
    return winner_of(*decide(ready, ready.complete(turn_facts(given, override, message))))


def winner_of(outcome: TurnOutcome, trace: TurnTrace) -> Winner | None:
    """Return the way a turn was decided; None where no model takes it."""
    if outcome.winner_index < 0:
        return None
    won = trace.chain[outcome.winner_index]
    return Winner(won.policy, won.rule_name or "", outcome.chosen_model)


def given_facts(facts: TurnFacts, alias: str | None) -> GivenFacts:
    """Write exact facts as a caller does."""
    named = facts.named_model
    return GivenFacts(
        message=_message_text(facts, alias),
        session=GivenSession(facts.sticky_model, facts.workspace_path, facts.is_worker),
        has_images=facts.has_images,
        estimated_input_tokens=facts.tokens_for(ANY_MODEL),
        has_tool_calls_in_history=facts.has_tool_calls_in_history,
        has_tool_definitions=facts.has_tool_definitions,
        has_system_prompt=facts.has_system_prompt,
        requires_structured_output=facts.requires_structured_output,
        skills_matching_message=facts.skills_matching_message,
        file_extensions_in_context=facts.file_extensions_in_context,
        local_time=clock_text(facts.local_minutes),
        cost_today_usd=Decimal(microusd_text(facts.cost_today_microusd)),
        privacy_level=facts.privacy_level,
        network_state=facts.network_state,
        availability=facts.availability,
        pattern_rows=tuple(
            GivenRow(
                row.fingerprint_id,
                row.model,
                Decimal(microusd_text(row.cost_microusd)),
                row.sample_size,
                Decimal(billionths_text(row.similarity)),
                None if row.success is None else Decimal(row.success) / SCALE,
            )
            for row in facts.pattern_rows
        ),
        delegate_tier=facts.delegate_tier,
        configured=facts.configured,
        allowed_models=facts.allowed_models,
        budgets=tuple(
            GivenBudget(each.name, Decimal(microusd_text(each.left_microusd)))
            for each in facts.budgets
        ),
        excluded_models=facts.excluded_models,
        caller=None if facts.caller is UNSET else facts.caller,
        split_units=None if facts.split_units is UNSET else facts.split_units,
        tool_names=None if facts.tool_names is UNSET else facts.tool_names,
        named_model=None if named is UNSET else named,
        max_output_tokens=None if facts.max_output_tokens is UNSET else facts.max_output_tokens,
        stays_within=tuple(each for each in facts.zones if each not in BUILT_IN_ZONES),
        labels=facts.labels,
    )


def _message_text(facts: TurnFacts, alias: str | None) -> str:
    """Write a message so that it is read as it is: behind its alias, or with its sign escaped."""
    message = facts.message if isinstance(facts.message, str) else ""
    if alias is not None:
        return f"@{alias} {message}"
    is_escaped = message.startswith(MARKS) and not facts.is_worker
    return f"\\{message}" if is_escaped else message
