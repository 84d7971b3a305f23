"""From a schema violation to what the user is told: place, code, one line, and a next step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path, escape, path_text
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema_tree import Schema, schema_at

if TYPE_CHECKING:
    from jsonschema_rs import KeywordValidator, ValidationError


WHOLE = "x-whole-number"
DECIMAL = "x-decimal-text"
BOUNDS = "x-decimal-bounds"

DECIMAL_TEXT = r"^-?[0-9]{1,64}(\.[0-9]{1,64})?([eE][-+]?[0-9]{1,2})?$"
"""How a number is written when it is given as a text."""

_DECIMAL_TEXT = re.compile(DECIMAL_TEXT.strip("^$"))
_BOUNDS = {
    "minimum": (Decimal.__ge__, "must be at least"),
    "maximum": (Decimal.__le__, "must be at most"),
    "exclusiveMinimum": (Decimal.__gt__, "must be more than"),
    "exclusiveMaximum": (Decimal.__lt__, "must be less than"),
}


def add_number_keywords(node: Schema) -> Schema:
    """Return a schema node with our keywords where numbers are wanted."""
    if node.get("type") == "integer":
        return node | {WHOLE: True}
    if node.get("pattern") == DECIMAL_TEXT:
        del node["pattern"]
        return node | {
            DECIMAL: True,
            BOUNDS: {name: node[name] for name in _BOUNDS if name in node},
        }
    return node


class _Keyword:
    def __init__(self, parent_schema: Schema, value: Any, schema_path: list[str | int]) -> None:
        del parent_schema, schema_path
        self._value = value


class WholeNumber(_Keyword):
    """Refuses `3.0` where `3` is meant: JSON Schema calls both integers."""

    def validate(self, instance: object) -> None:
        """Raise unless the number was written as a whole number, or is no number."""
        if isinstance(instance, Decimal) and instance == instance.to_integral_value():
            raise ValueError(f"write `{int(instance)}`")


class DecimalText(_Keyword):
    """Refuses a text that is not a number."""

    def validate(self, instance: object) -> None:
        """Raise when `instance` is a text, but not of a number."""
        if isinstance(instance, str) and not _DECIMAL_TEXT.fullmatch(instance):
            raise ValueError("not a number")


class DecimalBounds(_Keyword):
    """Holds a number given as a text to the bounds that JSON Schema checks only for numbers."""

    def validate(self, instance: object) -> None:
        """Raise when the text of a number is out of bounds."""
        if not isinstance(instance, str) or not _DECIMAL_TEXT.fullmatch(instance):
            return
        for name, limit in self._value.items():
            holds, words = _BOUNDS[name]
            if not holds(Decimal(instance), Decimal(str(limit))):
                raise ValueError(f"{words} {limit}")


KEYWORDS: dict[str, type[KeywordValidator]] = {
    WHOLE: WholeNumber,
    DECIMAL: DecimalText,
    BOUNDS: DecimalBounds,
}


_MOST_LISTED = 12
_SECRET_KEYS = frozenset({"api_key", "env", "headers", "query", "secret"})
"""Keys that take secrets, or references to them: what stands below is never quoted."""
_NUMERIC = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "`true` or `false`",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_LIMITS = {
    "minimum": (Code.OUT_OF_RANGE, "must be at least {}"),
    "maximum": (Code.OUT_OF_RANGE, "must be at most {}"),
    "exclusiveMinimum": (Code.OUT_OF_RANGE, "must be more than {}"),
    "exclusiveMaximum": (Code.OUT_OF_RANGE, "must be less than {}"),
    "multipleOf": (Code.OUT_OF_RANGE, "must be a multiple of {}"),
    "minLength": (Code.TOO_SHORT, "must have at least {} characters"),
    "maxLength": (Code.TOO_LONG, "must have at most {} characters"),
    "minItems": (Code.TOO_SHORT, "must have at least {} items"),
    "maxItems": (Code.TOO_LONG, "must have at most {} items"),
    "minProperties": (Code.TOO_SHORT, "must have at least {} keys"),
    "maxProperties": (Code.TOO_LONG, "must have at most {} keys"),
    "pattern": (Code.PATTERN, "must match `{}`"),
}


class _Seen:
    """One violation: the value and its place, with the document and schema it belongs to."""

    def __init__(self, document: Document, schema: Schema, error: ValidationError) -> None:
        self.document = document
        self.schema = schema
        self.error = error
        self.path: Path = tuple(error.instance_path)
        self.value: object = error.instance

    @property
    def is_secret(self) -> bool:
        """Tell whether a secret may stand here: the text of a problem is shown and recorded."""
        return any(part in _SECRET_KEYS for part in self.path)

    @property
    def value_text(self) -> str:
        """Return the value as a problem tells it."""
        if self.is_secret and not isinstance(self.value, list | dict | None):
            return "a value that is not shown here"
        return _value_text(self.value)

    def problem(self, code: Code, message: str, hint: str = "") -> Problem:
        """Return a problem with the value found."""
        where = f"`{path_text(self.path)}`: " if self.path else ""
        return self.document.problem(self.path, code, where + message, hint)


def problems(document: Document, schema: Schema, error: ValidationError) -> Iterator[Problem]:
    """Return the problems that one violation of `schema` stands for."""
    for leaf in leaves(error):
        tell = _TELLERS.get(leaf.kind.name, _other)
        yield from tell(_Seen(document, schema, leaf))


_Teller: TypeAlias = Callable[[_Seen], Iterator[Problem]]


def _unknown_keys(seen: _Seen) -> Iterator[Problem]:
    known = list(schema_at(seen.schema, seen.error.schema_path[:-1])["properties"])
    for key in seen.error.kind.as_dict()["unexpected"]:
        path = (*seen.path, key)
        shown = (*seen.path, "…") if seen.is_secret else path
        message = f"unknown key `{escape(path_text(shown), 120)}`"
        hint = _suggestion(key, known) or f"known here: {_name_list(known)}"
        yield seen.document.problem(path, Code.UNKNOWN_KEY, message, hint, key=True)


def _missing_key(seen: _Seen) -> Iterator[Problem]:
    key = seen.error.kind.as_dict()["property"]
    message = f"missing key `{path_text((*seen.path, key))}`"
    yield seen.document.problem(seen.path, Code.MISSING_KEY, message, f"add `{key}`")


def _wrong_type(seen: _Seen) -> Iterator[Problem]:
    yield _of_type(seen, seen.error.kind.as_dict()["types"])


def _of_type(seen: _Seen, types: Sequence[str]) -> Problem:
    # A decimal may also be given as the text of a number; that is no other type to the user.
    wanted = [each for each in types if not ("number" in types and each == "string")]
    expected = " or ".join(_TYPES[each] for each in wanted)
    message = f"expected {expected}, got {seen.value_text}"
    return seen.problem(Code.WRONG_TYPE, message, _type_hint(wanted, seen.value))


def _type_hint(wanted: Sequence[str], value: object) -> str:
    if "string" in wanted and isinstance(value, bool | int | Decimal):
        return "put it in quotes"
    if not isinstance(value, str):
        return ""
    if "boolean" in wanted and value.lower() in ("yes", "no", "on", "off"):
        return "write `true` or `false`"
    is_number = {"integer", "number"} & set(wanted) and _NUMERIC.fullmatch(value)
    return "write it without quotes" if is_number else ""


def _unknown_value(seen: _Seen) -> Iterator[Problem]:
    options = [_plain(each) for each in seen.error.kind.as_dict()["options"]]
    yield _not_among(seen, options)


def _not_among(seen: _Seen, options: Sequence[str]) -> Problem:
    wanted = f"one of {_name_list(options)}" if len(options) > 1 else _name_list(options)
    message = f"expected {wanted}, got {seen.value_text}"
    hint = _suggestion(seen.value, options) if isinstance(seen.value, str) else ""
    return seen.problem(Code.UNKNOWN_VALUE, message, hint)


def _limit(seen: _Seen) -> Iterator[Problem]:
    code, words = _LIMITS[seen.error.kind.name]
    (limit,) = seen.error.kind.as_dict().values()
    got = _length(seen.value) if code in (Code.TOO_SHORT, Code.TOO_LONG) else seen.value_text
    yield seen.problem(code, f"{words.format(limit)}, got {got}")


def _exact_number(seen: _Seen) -> Iterator[Problem]:
    keyword, reason = seen.error.kind.name, str(seen.error.kind.as_dict()["message"])
    got = seen.value_text
    if keyword == WHOLE:
        yield seen.problem(Code.WRONG_TYPE, f"expected a whole number, got {got}", reason)
    elif keyword == BOUNDS:
        yield seen.problem(Code.OUT_OF_RANGE, f"{reason}, got {got}")
    else:
        yield seen.problem(Code.WRONG_TYPE, f"expected a number, got {got}")


def _bad_key(seen: _Seen) -> Iterator[Problem]:
    inner: ValidationError = seen.error.kind.as_dict()["error"]
    # Of the key alone: whatever is wrong with its value is told beside it.
    key = _Seen(replace(seen.document, flaws=frozenset()), seen.schema, inner)
    key.path = (*seen.path, str(inner.instance))
    tell = _TELLERS.get(inner.kind.name, _other)
    for each in tell(key):
        message = f"key {each.message}"
        yield seen.document.problem(key.path, each.code, message, each.hint, key=True)


def _nothing(_seen: _Seen) -> Iterator[Problem]:
    """An item too many of a fixed list: its number of items is told already."""
    yield from ()


def _other(seen: _Seen) -> Iterator[Problem]:
    message = f"{seen.value_text} breaks the rule `{seen.error.kind.name}`"
    yield seen.problem(Code.INVALID_VALUE, message)


def leaves(error: ValidationError) -> Iterator[ValidationError]:
    """Return the violations that one comes down to: those of the alternative that was meant.

    That is told by type, then by tag, then by fewest faults.
    """
    inner = _meant(error) if error.kind.name == "anyOf" else []
    if not inner:
        yield error
    for each in inner:
        yield from leaves(each)


def _meant(error: ValidationError) -> list[ValidationError]:
    """Return the violations of the alternative that was meant; none where no type or tag fits."""
    meant = [each for each in _fitting(error) if _tag_refused(error, each) is None]
    return _common_absence(meant) or min(meant, key=len) if meant else []


def _fitting(error: ValidationError) -> list[list[ValidationError]]:
    branches: list[list[ValidationError]] = error.kind.as_dict()["context"]
    return [branch for branch in branches if not _types_refused(error, branch)]


def _any_of(seen: _Seen) -> Iterator[Problem]:
    """Tell of which type or tag a value must be that fits none of the alternatives."""
    fitting = _fitting(seen.error)
    if fitting:
        yield from _unknown_tag(seen, fitting)
    else:
        branches = seen.error.kind.as_dict()["context"]
        refused = [name for branch in branches for name in _types_refused(seen.error, branch)]
        yield _of_type(seen, list(dict.fromkeys(refused)))


def _types_refused(whole: ValidationError, branch: list[ValidationError]) -> list[str]:
    """Return the types that an alternative wanted instead of the type of the value itself."""
    here = [error for error in branch if len(error.instance_path) == len(whole.instance_path)]
    names: list[str] = []
    for error in here:
        if error.kind.name == "type":
            names += error.kind.as_dict()["types"]
        elif error.kind.name in (WHOLE, DECIMAL):
            names.append("integer" if error.kind.name == WHOLE else "number")
    return names


def _tag_refused(whole: ValidationError, branch: list[ValidationError]) -> ValidationError | None:
    """Return the violation that says: this is another alternative's tag."""
    for error in branch:
        is_member = len(error.instance_path) == len(whole.instance_path) + 1
        if is_member and len(error.kind.as_dict().get("options", ())) == 1:
            return error
    return None


def _unknown_tag(seen: _Seen, branches: list[list[ValidationError]]) -> Iterator[Problem]:
    tags = [tag for branch in branches if (tag := _tag_refused(seen.error, branch))]
    options = [_plain(tag.kind.as_dict()["options"][0]) for tag in tags]
    yield _not_among(_Seen(seen.document, seen.schema, tags[0]), options)


def _common_absence(branches: list[list[ValidationError]]) -> list[ValidationError]:
    """Return the one violation all alternatives share: the key that tells them apart is missing."""
    for error in branches[0]:
        if len(branches) > 1 and all(
            any(_is_same(error, one) for one in each) for each in branches
        ):
            return [error]
    return []


def _is_same(left: ValidationError, right: ValidationError) -> bool:
    both = (left, right)
    keys = [each.kind.as_dict().get("property") for each in both]
    return keys[0] is not None and keys[0] == keys[1] and left.instance_path == right.instance_path


def _suggestion(name: str, known: Iterable[str]) -> str:
    meant = nearest(name, known)
    return f"did you mean `{meant}`?" if meant else ""


def _name_list(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{escape(each)}`" for each in names[:_MOST_LISTED])
    return f"{shown} and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else shown


def _value_text(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if value is None:
        return "nothing"
    return f"text `{escape(value)}`" if isinstance(value, str) else f"`{_plain(value)}`"


def _length(value: object) -> str:
    return str(len(value)) if isinstance(value, str | list | dict) else ""


def _plain(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


_TELLERS: dict[str, _Teller] = {
    "additionalProperties": _unknown_keys,
    "anyOf": _any_of,
    "enum": _unknown_value,
    "falseSchema": _nothing,
    "propertyNames": _bad_key,
    "required": _missing_key,
    "type": _wrong_type,
    **dict.fromkeys(_LIMITS, _limit),
    **dict.fromkeys((WHOLE, DECIMAL, BOUNDS), _exact_number),
}
