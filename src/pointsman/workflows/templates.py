"""Values with expressions in them, filled in from a context: `{{ e }}` is replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pointsman.errors import InputError
from pointsman.expressions.builtins import text_of
from pointsman.expressions.evaluate import EvaluationScope, Unknown
from pointsman.expressions.expression import Expression, value
from pointsman.expressions.values import NotKnown, Value
from pointsman.storage.policies.action_written import is_template


def fill(given: object, context: Mapping[str, Value]) -> Value:
    """Return a value with its expressions replaced by their values."""
    if isinstance(given, str):
        return _answer(given, context) if is_template(given) else given
    if isinstance(given, list | tuple):
        return [fill(each, context) for each in given]
    if isinstance(given, dict):
        return {key: fill(each, context) for key, each in given.items()}
    return given  # type: ignore[return-value] # every other value of a document is a scalar


def fill_text(given: str, context: Mapping[str, Value]) -> str:
    """Return a text with its expression replaced, written as a text."""
    found = fill(given, context)
    try:
        return text_of(found)
    except NotKnown:
        raise InputError(f"`{given}` is no text, number or truth value") from None


def _answer(text: str, context: Mapping[str, Value]) -> Value:
    answer = _expression(text).answer(EvaluationScope(context))
    if isinstance(answer.value, Unknown):
        missing = ", ".join(f"`{each}`" for each in answer.missing)
        raise InputError(f"missing {missing}" if missing else answer.reason, where=text)
    return answer.value


@lru_cache(maxsize=512)
def _expression(text: str) -> Expression:
    return value(text)
