"""Typed reading: from a document to a struct, with every mistake named at its place.

Schemas are generated from structs and can be published; the words of problems are elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from functools import cache
from typing import NamedTuple, TypeAlias, TypeVar, cast

import jsonschema_rs
import msgspec
from jsonschema_rs import ValidationError
from msgspec.structs import replace

from pointsman.errors import DocumentError, Problem
from pointsman.kernel import stand_ins
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path, refuse
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema_numbers import DECIMAL_TEXT, KEYWORDS, add_number_keywords
from pointsman.kernel.schema_problems import leaves, problems
from pointsman.kernel.schema_tree import Schema, rebuilt
from pointsman.kernel.tree import MOST_PROBLEMS

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
    schema = rebuilt(json_schema(kind), add_number_keywords)
    return _Form(schema, jsonschema_rs.Draft202012Validator(schema, keywords=KEYWORDS))


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
    flaws = document.flaws.union(*map(stand_ins.flaws, errors))
    strays = document.strays.union(*map(stand_ins.strays, errors))
    rest = replace(document, flaws=flaws, strays=strays)
    found: list[list[Problem]] = []
    for variant in stand_ins.variants(rest, form.schema):
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
