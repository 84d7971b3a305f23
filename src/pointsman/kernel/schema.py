"""Typed reading: from a document to a struct, with every mistake named at its place.

Schemas are generated from structs and can be published; the words of problems are elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from pointsman.errors import DocumentError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Json, Path, refuse
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema_problems import (
    DECIMAL_TEXT,
    KEYWORDS,
    add_number_keywords,
    leaves,
    problems,
)
from pointsman.kernel.schema_tree import Schema, rebuilt, schema_at
from pointsman.kernel.tree import MOST_PROBLEMS

_TEXTS = (
    "stand-in", "STAND_IN", "0s", "00:00", "1.0.0", "stand:in", "https://stand-in", "refs/", ".in"
)  # fmt: skip
"""One of these fits every text that a configuration file asks for."""


def flaws(error: ValidationError) -> frozenset[Path]:
    """Return the path of the value that is wrong or missing."""
    path: Path = tuple(error.instance_path)
    match error.kind.name:
        case "required":
            return frozenset({(*path, error.kind.as_dict()["property"])})
        case "additionalProperties" | "propertyNames":
            return frozenset()
    return frozenset({path})


def strays(error: ValidationError) -> frozenset[Path]:
    """Return the paths of the members whose keys mean nothing, or cannot be keys."""
    path: Path = tuple(error.instance_path)
    match error.kind.name:
        case "additionalProperties":
            return frozenset((*path, key) for key in error.kind.as_dict()["unexpected"])
        case "propertyNames":
            return frozenset({(*path, str(error.kind.as_dict()["error"].instance))})
    return frozenset()


def variants(document: Document, schema: Schema) -> Iterator[Json]:
    """Return the document's value without strays, and with a stand-in for every flaw.

    Where one of several values is wanted, each of them stands in once.
    """
    choice, widest = 0, 1
    while choice < widest:
        mending = _Mending(schema, choice)
        yield mending.mend(document)
        choice, widest = choice + 1, mending.widest


class _Mending:
    """Puts stand-ins into a document; `choice` says which of several allowed values."""

    def __init__(self, schema: Schema, choice: int) -> None:
        self._schema = schema
        self._choice = choice
        self.widest = 1
        """How many values the widest choice has."""

    def mend(self, document: Document) -> Json:
        found = [deepcopy(document.value)]
        # A flaw may lie inside of another, or under a stray key, and goes with it.
        for path in sorted(document.flaws, key=len, reverse=True):
            node = next(self._nodes(self._schema, path), None)
            if node is not None:
                with suppress(LookupError, TypeError):
                    _at(found, (0, *path)[:-1])[(0, *path)[-1]] = self._stand_in(node)
        for path in document.strays:
            with suppress(LookupError, TypeError):
                del _at(found, (0, *path[:-1]))[path[-1]]
        return found[0]

    def _nodes(self, node: Schema, path: Path) -> Iterator[Schema]:
        """Return the schemas that the value at a path may have."""
        node = self._resolve(node)
        if not path:
            yield node
        for each in node.get("anyOf", ()) if path else ():
            yield from self._nodes(each, path)
        for each in _members(node, path[0]) if path else ():
            yield from self._nodes(each, path[1:])

    def _resolve(self, node: Schema) -> Schema:
        while "$ref" in node:
            node = schema_at(self._schema, node["$ref"].removeprefix("#/").split("/"))
        return node

    def _stand_in(self, node: Schema) -> Json:
        node = self._resolve(node)
        if "anyOf" in node:
            return self._stand_in(node["anyOf"][0])
        if "enum" in node:
            return self._chosen(node["enum"])
        kinds = node.get("type", "null")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if kind == "object":
            needed: list[str] = node.get("required", [])
            return {name: self._stand_in(node["properties"][name]) for name in needed}
        if kind == "array":
            # Not empty: that would be a mistake of its own in most lists.
            fixed = node.get("prefixItems") or [node.get("items", {})] * node.get("minItems", 1)
            return [self._stand_in(each) for each in fixed]
        return _scalar(node, kind)

    def _chosen(self, options: list[Json]) -> Json:
        self.widest = max(self.widest, len(options))
        return options[self._choice % len(options)]


def _at(found: Any, path: Path) -> Any:
    for step in path:
        found = found[step]
    return found


def _members(node: Schema, step: str | int) -> Iterator[Schema]:
    if isinstance(step, str):
        member = node.get("properties", {}).get(step, node.get("additionalProperties"))
    else:
        fixed = node.get("prefixItems", ())
        member = fixed[step] if step < len(fixed) else node.get("items")
    if isinstance(member, dict):
        yield member


def _scalar(node: Schema, kind: str) -> Json:
    if kind in ("integer", "number"):
        least, most = int(node.get("minimum", 1)), int(node.get("maximum", 1))
        return max(least, min(most, 1))
    if kind == "string":
        return next((each for each in _TEXTS if _fits(each, node)), None)
    return bool(node.get("const")) if kind == "boolean" else None


def _fits(text: str, node: Schema) -> bool:
    is_long_enough = len(text) >= node.get("minLength", 0)
    return is_long_enough and re.search(node.get("pattern", ""), text) is not None


if TYPE_CHECKING:
    import jsonschema_rs
    from jsonschema_rs import ValidationError

__all__ = ["Check", "Schema", "conform", "json_schema", "json_schemas", "nearest"]

T = TypeVar("T")

Check: TypeAlias = Callable[[T, Document], Iterable[Problem]]
"""A rule that a schema cannot say; it makes its problems with `document.problem(path, …)`."""

Checks: TypeAlias = tuple[Check[T], ...]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_CONVERSION = re.compile(r"(?P<message>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\[(?P<index>[0-9]+)\]|\.(?P<key>[^.\[]+)")


def conform(document: Document, kind: type[T], *checks: Check[T]) -> T:
    """Return the document as a `kind`, or raise `DocumentError` with all that is wrong with it.

    Where parts of it are wrong, the checks run on the others; all problems are raised together, but
    none that only follows from another.
    A field of type `int` takes whole numbers only (`3`, not `3.0`). A field of type `Decimal`
    takes any number exactly as written, or the same number as a text; its bounds are given as
    `Meta(extra_json_schema={"minimum": 0})`.
    """
    form = _form(cast("Hashable", kind))
    errors = [leaf for each in form.validator.iter_errors(document.value) for leaf in leaves(each)]
    if errors or document.problems:
        found = [problem for error in errors for problem in problems(document, form.schema, error)]
        rest = _checked_rest(document, kind, form, errors, checks)
        refuse((*document.problems, *found, *rest))
    value = _convert(document, kind)
    refuse(problem for check in checks for problem in check(value, document))
    return value


def json_schema(kind: object) -> Schema:
    """Return the JSON Schema (2020-12) of a type; structs allow no keys but their own."""
    return {"$schema": _DIALECT, **rebuilt(msgspec.json.schema(kind), _close_node)}


def json_schemas(
    kinds: Iterable[object], ref_template: str
) -> tuple[dict[object, Schema], dict[str, Schema]]:
    """Return the schemas of several types, and those they share by name.

    Only closed types forbid other keys: these schemas describe answers, too.
    """
    listed = [*kinds]
    found, shared = msgspec.json.schema_components(listed, ref_template=ref_template)
    named = {name: rebuilt(each, _decimal) for name, each in shared.items()}
    return {kind: rebuilt(each, _decimal) for kind, each in zip(listed, found, strict=True)}, named


class _Form(NamedTuple):
    schema: Schema
    validator: jsonschema_rs.Validator


@cache
def _form(kind: Hashable) -> _Form:
    # Imported here: reading a ledger needs no schema.
    from jsonschema_rs import Draft202012Validator  # noqa: PLC0415 - see above

    schema = rebuilt(json_schema(kind), add_number_keywords)
    return _Form(schema, Draft202012Validator(schema, keywords=KEYWORDS))


def _close_node(node: Schema) -> Schema:
    if "properties" in node:
        return node | {"additionalProperties": False}
    return _decimal(node)


def _decimal(node: Schema) -> Schema:
    if node.get("format") == "decimal":
        del node["format"]
        return node | {"type": ["number", "string"], "pattern": DECIMAL_TEXT}
    return node


def _checked_rest(
    document: Document, kind: type[T], form: _Form, errors: list[ValidationError], checks: Checks[T]
) -> list[Problem]:
    """Return what the checks find in the sound parts of a document.

    Where a value is none of those allowed, a problem counts only if it is there whichever of them
    was meant.
    """
    if len(errors) > MOST_PROBLEMS:
        # Anybody may post a document: the work must not grow with the square of its mistakes.
        return []
    wrong = document.flaws.union(*map(flaws, errors))
    rest = replace(document, flaws=wrong, strays=document.strays.union(*map(strays, errors)))
    found: list[list[Problem]] = []
    for variant in variants(rest, form.schema):
        with suppress(msgspec.ValidationError):
            value = msgspec.convert(variant, kind)
            found.append([problem for check in checks for problem in check(value, rest)])
    return [each for each in found[0] if all(each in others for others in found)] if found else []


def _convert(document: Document, kind: type[T]) -> T:
    try:
        return msgspec.convert(document.value, kind)
    except msgspec.ValidationError as error:
        raise DocumentError((_conversion_problem(document, str(error)),)) from None


def _conversion_problem(document: Document, text: str) -> Problem:
    """Return what a struct's own check said, with the place it named."""
    parts = _CONVERSION.fullmatch(text)
    message, named = (parts["message"], parts["path"] or "") if parts else (text, "")
    # `[...]` stands for a key that is not named; the path behind it cannot be resolved.
    steps = _STEP.finditer(named.partition("[...]")[0])
    path: Path = tuple(int(step["index"]) if step["index"] else step["key"] for step in steps)
    return document.problem(path, Code.INVALID_VALUE, message[:1].lower() + message[1:])
