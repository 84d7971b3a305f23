"""Policy rules: what a home says about placement beside the table. Companion §1.1.

All enabled rules are asked, sorted by priority and id; the strongest action counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.errors import Problem
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.codes import Code
from pointsman.kernel.columns import ascii_lower
from pointsman.kernel.document import Document
from pointsman.placement.rules.zones import ZoneName

Field = Literal["content", "token_count", "intent", "privacy_level"]
Operator = Literal["contains", "not_contains", "exceeds", "less_than", "equals", "not_equals"]
Action = Literal["block", "force_local", "force_cloud", "require_confirmation", "warn"]
RuleAction = Action | Literal["stay_within"]
"""An action of a rule; all that say `stay_within` hold, whichever of the others is strongest."""

WrittenOperator = Literal[
    "contains", "notContains", "exceeds", "lessThan", "equals", "notEquals",
    "not_contains", "less_than", "not_equals",
]  # fmt: skip
WrittenAction = Literal[
    "block", "forceLocal", "forceCloud", "requireConfirmation", "warn",
    "force_local", "force_cloud", "require_confirmation", "stayWithin", "stay_within",
]  # fmt: skip

_SPELLINGS: Final = {
    "notContains": "not_contains",
    "lessThan": "less_than",
    "notEquals": "not_equals",
    "forceLocal": "force_local",
    "forceCloud": "force_cloud",
    "requireConfirmation": "require_confirmation",
    "stayWithin": "stay_within",
}
_FITTING: Final[dict[Field, tuple[Operator, ...]]] = {
    "content": ("contains", "not_contains", "equals", "not_equals"),
    "token_count": ("exceeds", "less_than", "equals", "not_equals"),
    "intent": ("contains", "not_contains", "equals", "not_equals"),
    "privacy_level": ("contains", "not_contains", "equals", "not_equals"),
}
_TEXTS: Final[tuple[Field, ...]] = ("content", "intent", "privacy_level")
STRONGEST_FIRST: Final[tuple[Action, ...]] = (
    "block",
    "force_local",
    "force_cloud",
    "require_confirmation",
    "warn",
)


class GivenPolicyCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """One comparison, as it is written."""

    field: Field
    operator: WrittenOperator
    value: Annotated[str, Meta(max_length=4096)] | Annotated[int, Meta(ge=0, le=MAX_INT)]


class GivenPolicyRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One policy rule, as it is written."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    action: WrittenAction
    conditions: tuple[GivenPolicyCondition, ...] = ()
    name: str = ""
    type: Literal["privacy", "cost", "performance", "intent"] = "privacy"
    enabled: bool = True
    priority: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    message: Annotated[str, Meta(max_length=400)] = ""
    zone: ZoneName | UnsetType = UNSET


class PolicyCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """One comparison, exact: a number for token counts, lowered alternatives for the rest."""

    field: Field
    operator: Operator
    number: int
    words: tuple[str, ...]


class PolicyRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One enabled policy rule, exact."""

    id: str
    action: RuleAction
    conditions: tuple[PolicyCondition, ...]
    priority: int
    message: str
    zone: str | UnsetType = UNSET


Texts = tuple[str, ...]
Test = Callable[[Texts, int], bool]
"""Tells whether a rule holds, of the lowered texts of a question and its token count."""


def texts_of(content: str, intent: str, privacy_level: str) -> Texts:
    """Return the texts that policy rules may look at, lowered once for all rules."""
    return ascii_lower(content), intent, privacy_level


def exact_rules(given: Iterable[GivenPolicyRule]) -> tuple[PolicyRule, ...]:
    """Return the enabled rules in the order in which they are asked."""
    rules = [
        PolicyRule(
            rule.id,
            _action(rule.action),
            tuple(map(_condition, rule.conditions)),
            rule.priority,
            rule.message or rule.name or rule.id,
            rule.zone,
        )
        for rule in given
        if rule.enabled
    ]
    return tuple(sorted(rules, key=lambda rule: (rule.priority, rule.id)))


def test_of(rule: PolicyRule) -> Test:
    """Make the test of a rule, once for all questions: all its conditions hold."""
    tests = tuple(map(_test, rule.conditions))
    if len(tests) == 1:
        return tests[0]
    return lambda texts, count: all(test(texts, count) for test in tests)


def reads_content(rules: Iterable[PolicyRule]) -> bool:
    """Tell whether any rule looks at the text itself."""
    return any(each.field == "content" for rule in rules for each in rule.conditions)


def problems(rules: tuple[GivenPolicyRule, ...], document: Document) -> Iterable[Problem]:
    """Find rules that share an id, and comparisons that could never hold."""
    seen: set[str] = set()
    for index, rule in enumerate(rules):
        at = ("policy_rules", index)
        if rule.id in seen:
            message = f"the id `{rule.id}` is taken by an earlier rule"
            yield document.problem((*at, "id"), Code.DUPLICATE_KEY, message)
        seen.add(rule.id)
        if (_action(rule.action) == "stay_within") != (rule.zone is not UNSET):
            message = "`zone` and the action `stay_within` come together"
            yield document.problem(at, Code.INVALID_VALUE, message)
        for number, condition in enumerate(rule.conditions):
            path = (*at, "conditions", number)
            fitting = _FITTING[condition.field]
            if _operator(condition.operator) not in fitting:
                message = f"`{condition.operator}` cannot compare `{condition.field}`"
                hint = f"it takes {', '.join(fitting)}"
                yield document.problem((*path, "operator"), Code.INVALID_VALUE, message, hint)
            elif condition.field == "token_count" and _number(condition.value) is None:
                message = f"`{condition.value}` is not a number of tokens"
                yield document.problem((*path, "value"), Code.INVALID_VALUE, message)


def _test(condition: PolicyCondition) -> Test:
    if condition.field == "token_count":
        return _number_test(condition.operator, condition.number)
    at, words = _TEXTS.index(condition.field), condition.words
    if condition.operator == "equals":
        return lambda texts, _count: texts[at] in words
    if condition.operator == "not_equals":
        return lambda texts, _count: texts[at] not in words
    if condition.operator == "not_contains":
        return lambda texts, _count: not _holds_any(texts[at], words)
    if len(words) == 1:
        word = words[0]
        return lambda texts, _count: word in texts[at]
    return lambda texts, _count: _holds_any(texts[at], words)


def _holds_any(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - a generator costs more than the search
        if word in text:
            return True
    return False


def _number_test(operator: Operator, number: int) -> Test:
    if operator == "exceeds":
        return lambda _texts, count: count > number
    if operator == "less_than":
        return lambda _texts, count: count < number
    if operator == "equals":
        return lambda _texts, count: count == number
    return lambda _texts, count: count != number


def _condition(given: GivenPolicyCondition) -> PolicyCondition:
    operator = _operator(given.operator)
    if given.field == "token_count":
        return PolicyCondition(given.field, operator, _number(given.value) or 0, ())
    text = ascii_lower(str(given.value))
    words = text.split("|") if operator in {"contains", "not_contains"} else [text]
    return PolicyCondition(given.field, operator, 0, tuple(word for word in words if word))


def _number(value: str | int) -> int | None:
    if isinstance(value, int):
        return value
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None


def _operator(written: str) -> Operator:
    return _SPELLINGS.get(written, written)  # type: ignore[return-value] # the literal's own words


def _action(written: str) -> RuleAction:
    return _SPELLINGS.get(written, written)  # type: ignore[return-value] # the literal's own words
