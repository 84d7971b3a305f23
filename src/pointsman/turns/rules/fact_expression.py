"""Expressions over the facts of a turn: the language of branches where a predicate stands.

The names that an expression may read are a closed set. An expression holds, fails or has no
answer, as where it divides by zero; it never raises. Its steps are limited as those of branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct

from pointsman.expressions.checking import Declared
from pointsman.expressions.evaluate import INPUT, UNKNOWN, EvaluationResult, EvaluationScope
from pointsman.expressions.expression import Expression
from pointsman.expressions.expression import condition as read_condition
from pointsman.expressions.functions import BOOLEAN, LIST, NUMBER, TEXT, Kinds
from pointsman.expressions.syntax import ExpressionRefused, Node, Path, paths
from pointsman.expressions.values import EXACT, MISSING, Missing, Value
from pointsman.kernel.number import MicroUsd
from pointsman.turns.rules.text_patterns import seen_text

if TYPE_CHECKING:
    from pointsman.turns.rules.condition import FactsView

_OPEN_TEXT: Final[Kinds] = ("null", "text")
_OPEN_NUMBER: Final[Kinds] = ("null", "number")


class FactName(Struct, frozen=True):
    """A name that expressions may read: the kinds of its value, and how a turn gives it.

    It is read for a model: the estimate of tokens is that of the rule's own.
    """

    kinds: Kinds
    read: Callable[[FactsView, str], Value]


def _of_facts(name: str) -> Callable[[FactsView, str], Value]:
    def read(look: FactsView, _model: str) -> Value:
        found = getattr(look.facts, name)
        if found is UNSET:
            return None
        return list(found) if isinstance(found, tuple) else found

    return read


def _of_caller(name: str) -> Callable[[FactsView, str], Value]:
    return lambda look, _model: getattr(look.caller, name)


def _message(look: FactsView, _model: str) -> Value:
    return seen_text(look.message)


def _tokens(look: FactsView, model: str) -> Value:
    return look.facts.tokens_for(model)


def _tools(look: FactsView, _model: str) -> Value:
    return list(look.tool_names)


def _cost(look: FactsView, _model: str) -> Value:
    return _usd(look.facts.cost_today_microusd)


def _path(look: FactsView, _model: str) -> Value:
    path = look.facts.workspace_path
    return None if path is None else seen_text(path)


def _clock(look: FactsView, _model: str) -> Value:
    minutes = look.facts.local_minutes
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _usd(amount: MicroUsd) -> int | Decimal:
    found = EXACT.divide(Decimal(amount), Decimal(1_000_000))
    return int(found) if found == found.to_integral_value() else found


def _team_left(look: FactsView, _model: str) -> Value:
    left = look.team_left
    return None if left is None else _usd(left)


FACT_NAMES: Final[Mapping[str, FactName]] = {
    "message": FactName(TEXT, _message),
    "estimated_input_tokens": FactName(NUMBER, _tokens),
    "max_output_tokens": FactName(_OPEN_NUMBER, _of_facts("max_output_tokens")),
    "has_images": FactName(BOOLEAN, _of_facts("has_images")),
    "has_tool_calls_in_history": FactName(BOOLEAN, _of_facts("has_tool_calls_in_history")),
    "has_tool_definitions": FactName(BOOLEAN, _of_facts("has_tool_definitions")),
    "has_system_prompt": FactName(BOOLEAN, _of_facts("has_system_prompt")),
    "requires_structured_output": FactName(BOOLEAN, _of_facts("requires_structured_output")),
    "skills_matching_message": FactName(LIST, _of_facts("skills_matching_message")),
    "file_extensions_in_context": FactName(LIST, _of_facts("file_extensions_in_context")),
    "tool_names": FactName(LIST, _tools),
    "workspace_path": FactName(_OPEN_TEXT, _path),
    "local_time": FactName(TEXT, _clock),
    "cost_today_usd": FactName(NUMBER, _cost),
    "team_budget_left_usd": FactName(_OPEN_NUMBER, _team_left),
    "key_id": FactName(TEXT, _of_caller("key_id")),
    "key_name": FactName(TEXT, _of_caller("key_name")),
    "tenant": FactName(TEXT, _of_caller("tenant")),
    "agent": FactName(TEXT, _of_caller("agent")),
    "is_worker": FactName(BOOLEAN, _of_facts("is_worker")),
    "delegate_tier": FactName(_OPEN_TEXT, _of_facts("delegate_tier")),
}
"""The facts by the names that expressions and decision tables read. The set is public."""

CALLER_NAMES: Final = frozenset({"key_id", "key_name", "tenant", "agent"})
FACT_KINDS: Final = Declared({(name,): each.kinds for name, each in FACT_NAMES.items()})


class FactExpression:
    """An expression over the facts of a turn, compiled; `names` are the facts that it reads."""

    def __init__(self, expression: Expression, declared: Declared = FACT_KINDS) -> None:
        self.expression = expression
        self.declared = declared
        self.names = names_read(expression, declared)

    def answer(
        self, look: FactsView, model: str, given: Value | Missing = MISSING
    ) -> EvaluationResult:
        """Return true or false, or why there is neither. Never raises on complete facts."""
        facts = fact_values(self.names, look, model)
        answer = self.expression.answer(EvaluationScope(facts, given))
        if answer.is_known and not isinstance(answer.value, bool):
            return EvaluationResult(UNKNOWN, (), "it is neither true nor false")
        return answer


def fact_values(names: Iterable[str], look: FactsView, model: str) -> dict[str, Value]:
    """Return the facts of some names, as they are for a model."""
    return {name: FACT_NAMES[name].read(look, model) for name in names}


@lru_cache(maxsize=4096)
def fact_expression(text: str) -> FactExpression:
    """Read a condition over facts, or raise `ExpressionRefused` with its place."""
    return FactExpression(read_condition(text, FACT_KINDS).compile())


def names_read(expression: Expression, declared: Declared = FACT_KINDS) -> tuple[str, ...]:
    """Return the facts that an expression reads, or refuse one that reads none by its name."""
    found: dict[str, None] = {}
    for path in expression.reads:
        name = fact_name(path, declared)
        if name is not None:
            found[name] = None
        elif path.root != INPUT or declared.input_keys is not None:
            message = f"`{path.text}` stands for all facts: name the one that is meant"
            raise ExpressionRefused(message, text=expression.text, at=path.at)
    return tuple(found)


def names_of_tree(node: Node, declared: Declared) -> tuple[str, ...]:
    """Return the facts that a checked tree reads."""
    names = (fact_name(path, declared) for path in paths(node))
    return tuple(dict.fromkeys(name for name in names if name is not None))


def fact_name(path: Path, declared: Declared) -> str | None:
    """Return the fact that a path reads; None where it begins with a computed input."""
    keys = declared.resolve(path.keys)
    return str(keys[0]) if keys else None


def reason_text(answer: EvaluationResult) -> str:
    """Say why an expression has no answer."""
    missing = ", ".join(f"`{each}`" for each in answer.missing)
    parts = (f"missing {missing}" if missing else "", answer.reason)
    return "; ".join(each for each in parts if each) or "it has no value"
