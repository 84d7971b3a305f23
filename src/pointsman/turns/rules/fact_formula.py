"""Expressions over facts as conditions: what a review and a proof know of them.

Comparisons of facts with literals are said again in predicates, exactly; the rest is opaque: it
may hold or not, and nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final, Literal, TypeVar

import re2
from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.expressions.checking import Declared
from pointsman.expressions.syntax import (
    Compare,
    ListOf,
    Logic,
    Node,
    Not,
    Path,
    Test,
    every,
)
from pointsman.expressions.syntax import Literal as LiteralNode
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.columns import ascii_lower
from pointsman.kernel.number import MicroUsd
from pointsman.turns.rules.condition import Condition, TimeWindow
from pointsman.turns.rules.fact_expression import FACT_KINDS, fact_expression, fact_name

T = TypeVar("T")

_DAY: Final = 24 * 60
ALWAYS: Final = Condition()
NEVER: Final = Condition(not_=ALWAYS)
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}

FlagName = Literal[
    "has_images", "has_tool_calls_in_history", "has_tool_definitions", "has_system_prompt",
    "requires_structured_output", "is_worker",
]  # fmt: skip
_FLAGS: Final = frozenset(FlagName.__args__)  # type: ignore[attr-defined] # of a Literal
_PREDICATE_FLAGS: Final = frozenset({"has_images", "has_tool_calls_in_history"})
_LISTS: Final = {
    "skills_matching_message": "skills_matching_message_includes",
    "file_extensions_in_context": "file_extensions_in_context",
    "tool_names": "tool_names_include",
}
_CALLER: Final = {"tenant": "tenant_is", "agent": "agent_is"}
_KEYS: Final = frozenset({"key_id", "key_name"})
_FOLDED: Final = frozenset({"agent", "file_extensions_in_context"})
"""Facts that are in lower case always."""


class FlagAtom(Struct, frozen=True):
    """A fact that is true or false and that no predicate asks for."""

    name: FlagName
    wanted: bool


class KeyAtom(Struct, frozen=True):
    """Whether the id, or the name, of the caller's key is among some; `key_is` asks for either."""

    name: Literal["key_id", "key_name"]
    values: tuple[str, ...]
    wanted: bool


Atom = Condition | FlagAtom | KeyAtom


def split_formula(
    node: Node,
    wanted: bool,  # noqa: FBT001 - it is the truth value
    declared: Declared,
    join: Callable[[bool, Iterator[T]], T],
    leaf: Callable[[Node, bool, Atom | None], T],
) -> T:
    """Fold a tree into what holds where it is true for certain, or false for certain.

    `join` takes whether all must hold, and the parts; `leaf` an atom, None where it is opaque.
    """
    if isinstance(node, Not):
        return split_formula(node.of, not wanted, declared, join, leaf)
    if isinstance(node, Logic):
        parts = (split_formula(each, wanted, declared, join, leaf) for each in node.parts)
        return join((node.word == "and") is wanted, parts)
    return leaf(node, wanted, atom_of(node, declared, wanted=wanted))


def lower_expressions(asked: Condition) -> Condition:
    """Return a condition with each expression that predicates can say replaced by them."""
    return _lower(asked, denied=False)


def _lower(asked: Condition, *, denied: bool) -> Condition:
    members = tuple(_lower(each, denied=denied) for each in asked.all_of or ())
    if asked.expr is not UNSET:
        said = expression_condition(asked.expr, wanted=not denied)
        if said is not None:
            members = (*members, Condition(not_=said) if denied else said)
            asked = replace(asked, expr=UNSET)
    some = asked.any_of
    return replace(
        asked,
        any_of=some and tuple(_lower(each, denied=denied) for each in some),
        all_of=members or asked.all_of,
        not_=None if asked.not_ is None else _lower(asked.not_, denied=not denied),
    )


def expression_condition(text: str, *, wanted: bool) -> Condition | None:
    """Return where an expression is true, or false, for certain; None where that is not known."""
    return tree_condition(fact_expression(text).expression.tree, FACT_KINDS, wanted=wanted)


def tree_condition(tree: Node, declared: Declared, *, wanted: bool) -> Condition | None:
    """Return where a tree is true, or false, for certain; None where predicates cannot say it."""
    opaque: list[Node] = []

    def leaf(node: Node, _wanted: bool, atom: Atom | None) -> Condition:  # noqa: FBT001 - as above
        if isinstance(atom, Condition):
            return atom
        opaque.append(node)
        return ALWAYS

    def join(is_all: bool, parts: Iterator[Condition]) -> Condition:  # noqa: FBT001 - as above
        members = tuple(parts)
        return Condition(all_of=members) if is_all else Condition(any_of=members)

    found = split_formula(tree, wanted, declared, join, leaf)
    return None if opaque else found


def known_conditions(tree: Node, declared: Declared) -> Iterator[Condition]:
    """Yield each comparison inside of a tree that is a predicate, true or denied."""
    for node in every(tree):
        for wanted in (True, False):
            atom = atom_of(node, declared, wanted=wanted)
            if isinstance(atom, Condition):
                yield atom


def atom_of(node: Node, declared: Declared, *, wanted: bool) -> Atom | None:
    """Return a comparison as a predicate that says the same; None where there is none."""
    match node:
        case LiteralNode():
            return (ALWAYS if node.value is wanted else NEVER) if _is_truth(node.value) else None
        case Path():
            name = _plain_name(node, declared)
            return None if name is None else _flag(name, wanted=wanted)
        case Compare():
            return _comparison(node, declared, wanted=wanted)
        case Test():
            return _membership(node, declared, wanted=wanted)
    return None


def _predicate(name: str, value: object) -> Condition:
    fields: dict[str, Any] = {name: value}
    return Condition(**fields)


def _is_truth(value: Value) -> bool:
    return value is True or value is False


def _plain_name(node: Node, declared: Declared) -> str | None:
    """Return the fact that a node is, and nothing inside of it."""
    if not isinstance(node, Path):
        return None
    keys = declared.resolve(node.keys)
    return fact_name(node, declared) if keys is not None and len(keys) == 1 else None


def _flag(name: str, *, wanted: bool) -> Atom | None:
    if name in _PREDICATE_FLAGS:
        return _predicate(name, wanted)
    return FlagAtom(name, wanted) if name in _FLAGS else None  # type: ignore[arg-type] # one of them


def _comparison(node: Compare, declared: Declared, *, wanted: bool) -> Atom | None:
    sign: str = node.sign
    path, literal = node.left, node.right
    if isinstance(path, LiteralNode):
        path, literal, sign = literal, path, _FLIPPED[sign]
    name = _plain_name(path, declared)
    if name is None or not isinstance(literal, LiteralNode):
        return None
    value = literal.value
    if _is_truth(value) and sign in {"==", "!="} and name in _FLAGS:
        return _flag(name, wanted=((value is True) is (sign == "==")) is wanted)
    asked = sign if wanted else _OPPOSITE[sign]
    if isinstance(value, str) and name != "local_time":
        return _text_atom(name, (value,), wanted=asked == "==") if asked in {"==", "!="} else None
    return _limit(name, asked, value)


def _limit(name: str, sign: str, value: Value) -> Condition | None:
    """Return a comparison of a number, an amount or the time."""
    match name:
        case "estimated_input_tokens":
            return _token_condition(sign, value)
        case "cost_today_usd" if sign not in {"==", "!="}:
            return _cost_condition(sign, value)
        case "team_budget_left_usd" if sign == "<":
            # A budget that is not there is nothing, which is neither less nor more.
            limit = _microusd(value, ROUND_CEILING)
            return None if limit is None else Condition(team_budget_remaining_lt_microusd=limit)
        case "local_time" if isinstance(value, str):
            return _time_condition(sign, value)
    return None


def _text_atom(name: str, values: tuple[str, ...], *, wanted: bool) -> Atom | None:
    """Return where a fact that is a text is one of some, or none of them."""
    if name in _KEYS:
        return KeyAtom(name, values, wanted)  # type: ignore[arg-type] # one of them
    found: Condition | None = None
    if name in _CALLER:
        own = tuple(each for each in values if name not in _FOLDED or each == ascii_lower(each))
        found = _predicate(_CALLER[name], own) if own else NEVER
    elif name == "workspace_path":
        patterns = "|".join(str(re2.escape(each)) for each in values)
        found = Condition(workspace_path_matches=rf"\A(?:{patterns})\z")
    if found is None:
        return None
    return found if wanted else Condition(not_=found)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _token_condition(sign: str, value: Value) -> Condition | None:
    """Return a limit of tokens; a count is whole and never below nothing."""
    if not _is_number(value):
        return None
    number = Decimal(str(value))
    floor = int(number.to_integral_value(ROUND_FLOOR))
    ceiling = int(number.to_integral_value(ROUND_CEILING))
    match sign:
        case ">":
            return _above(floor)
        case ">=":
            return _above(ceiling - 1)
        case "<":
            return _below(ceiling)
        case "<=":
            return _below(floor + 1)
    is_one = NEVER if floor != ceiling else Condition(all_of=(_above(floor - 1), _below(floor + 1)))
    return is_one if sign == "==" else Condition(not_=is_one)


def _above(limit: int) -> Condition:
    if limit < 0:
        return ALWAYS
    return Condition(estimated_input_tokens_gt=limit) if limit < MAX_INT else NEVER


def _below(limit: int) -> Condition:
    if limit <= 0:
        return NEVER
    return Condition(estimated_input_tokens_lt=limit) if limit <= MAX_INT else ALWAYS


def _cost_condition(sign: str, value: Value) -> Condition | None:
    is_strict = sign in {">", "<="}
    limit = _microusd(value, ROUND_FLOOR if is_strict else ROUND_CEILING)
    if limit is None or (not is_strict and limit == 0):
        return None
    # Money is whole: at least so much is more than one less.
    above = limit if is_strict else MicroUsd(limit - 1)
    dearer = Condition(cost_today_exceeds_microusd=above)
    return dearer if sign in {">", ">="} else Condition(not_=dearer)


def _microusd(value: Value, rounding: str) -> MicroUsd | None:
    if not _is_number(value):
        return None
    scaled = (Decimal(str(value)) * 1_000_000).to_integral_value(rounding)
    return MicroUsd(int(scaled)) if 0 <= scaled <= MAX_INT else None


def _time_condition(sign: str, value: str) -> Condition | None:
    """Return the minutes of the day whose clock text compares so; None where they are two spans."""
    clocks = [f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(_DAY)]
    first = sum(each < value for each in clocks)
    after = sum(each <= value for each in clocks)
    match sign:
        case "<":
            return _window(0, first)
        case "<=":
            return _window(0, after)
        case ">":
            return _window(after, _DAY)
        case ">=":
            return _window(first, _DAY)
    is_one = _window(first, after)
    return is_one if sign == "==" else Condition(not_=is_one)


def _window(start: int, end: int) -> Condition:
    """Return the minutes from a start to an end; a window that would be empty is never."""
    if start >= end:
        return NEVER
    if end - start == _DAY:
        return ALWAYS
    return Condition(time_of_day_between=TimeWindow(start, end % _DAY))


def _membership(node: Test, declared: Declared, *, wanted: bool) -> Atom | None:
    is_in = wanted is (node.word != "not in")
    if node.word == "contains" and isinstance(node.right, LiteralNode):
        return _list_predicate(_plain_name(node.left, declared), node.right.value, wanted=is_in)
    if node.word not in {"in", "not in"}:
        return None
    if isinstance(node.left, LiteralNode):
        return _list_predicate(_plain_name(node.right, declared), node.left.value, wanted=is_in)
    name = _plain_name(node.left, declared)
    if name is None or not isinstance(node.right, ListOf):
        return None
    members = [each.value for each in node.right.items if isinstance(each, LiteralNode)]
    texts = tuple(each for each in members if isinstance(each, str))
    if not texts or len(texts) < len(node.right.items):
        return None
    return _text_atom(name, texts, wanted=is_in)


def _list_predicate(name: str | None, member: Value, *, wanted: bool) -> Condition | None:
    if name not in _LISTS or not isinstance(member, str) or not member:
        return None
    found = _predicate(_LISTS[name], (member,))
    if name in _FOLDED and member != ascii_lower(member):
        found = NEVER
    return found if wanted else Condition(not_=found)
