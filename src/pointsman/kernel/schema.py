"""Typed reading: from a document to a struct, with every mistake named at its place.

Schemas are generated from structs and can be published; the words of problems are elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import jsonschema_rs
import msgspec
from jsonschema_rs import ValidationError

from pointsman.errors import DocumentError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Json, Path, refuse
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema_numbers import DECIMAL_TEXT, KEYWORDS, checked
from pointsman.kernel.schema_problems import problems
from pointsman.kernel.schema_tree import Schema, rebuilt

__all__ = ["Check", "Schema", "conform", "json_schema", "json_schemas", "nearest"]

T = TypeVar("T")

Check: TypeAlias = Callable[[T, Document], Iterable[Problem]]
"""A rule that a schema cannot say; it makes its problems with `document.problem(path, …)`."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_CONVERSION = re.compile(r"(?P<message>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\[(?P<index>[0-9]+)\]|\.(?P<key>[^.\[]+)")


def conform(document: Document, kind: type[T], *checks: Check[T]) -> T:
    """Return the document as a `kind`, or raise `DocumentError` with all that is wrong with it.

    The checks also run, on the rest, where single members are wrong; all problems are raised
    together.
    A field of type `int` takes whole numbers only (`3`, not `3.0`). A field of type `Decimal`
    takes any number exactly as written, or the same number as a text; its bounds are given as
    `Meta(extra_json_schema={"minimum": 0})`.
    """
    form = _form(cast(Hashable, kind))
    errors = list(form.validator.iter_errors(document.value))
    found = [problem for error in errors for problem in problems(document, form.schema, error)]
    value = _without_unknown(document.value, errors, kind) if errors else _converted(document, kind)
    if value is not None:
        found += [problem for check in checks for problem in check(value, document)]
    refuse(found)
    # INVARIANT: without a problem there was no error, so the value is the whole document's.
    return cast(T, value)


def json_schema(kind: object) -> Schema:
    """Return the JSON Schema (2020-12) of a type; structs allow no keys but their own."""
    return {"$schema": _DIALECT, **rebuilt(msgspec.json.schema(kind), _published)}


def json_schemas(
    kinds: Iterable[object], ref_template: str
) -> tuple[dict[object, Schema], dict[str, Schema]]:
    """Return the schemas of several types, and those they share by name.

    Only what forbids other keys says so: these describe what is sent out, too.
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
    schema = rebuilt(json_schema(kind), checked)
    return _Form(schema, jsonschema_rs.Draft202012Validator(schema, keywords=KEYWORDS))


def _published(node: Schema) -> Schema:
    if "properties" in node:
        return node | {"additionalProperties": False}
    return _decimal(node)


def _decimal(node: Schema) -> Schema:
    if node.get("format") == "decimal":
        del node["format"]
        return node | {"type": ["number", "string"], "pattern": DECIMAL_TEXT}
    return node


def _without_unknown(value: Json, errors: list[ValidationError], kind: type[T]) -> T | None:
    """Give what the document says apart from what is wrong, so that the checks see the rest of it.

    None where the rest has no form: a list cannot lose a member without moving the others.
    """
    pruned = deepcopy(value)
    for error in errors:
        if not _is_pruned(pruned, error):
            return None
    try:
        return msgspec.convert(pruned, kind)
    except msgspec.ValidationError:
        return None


def _is_pruned(pruned: Json, error: ValidationError) -> bool:
    """Take out what an error is about, if it is a member of a mapping."""
    path: list[str | int] = list(error.instance_path)
    if error.kind.name == "additionalProperties":
        gone: list[str | int] = list(error.kind.as_dict()["unexpected"])
    else:
        gone = [path.pop()] if path and error.kind.name != "required" else []
    if not gone or not all(isinstance(key, str) for key in gone):
        return False
    members: Any = pruned
    for step in path:
        if isinstance(members, dict) and step not in members:
            # An earlier error took out what this one is inside of.
            return True
        members = members[step]
    for key in gone:
        # Two errors may be about one member.
        members.pop(key, None)
    return True


def _converted(document: Document, kind: type[T]) -> T:
    try:
        return msgspec.convert(document.value, kind)
    except msgspec.ValidationError as error:
        raise DocumentError((_conversion_problem(document, str(error)),)) from None


def _conversion_problem(document: Document, text: str) -> Problem:
    """Return what a struct's own check said, with the place it named."""
    parts = _CONVERSION.fullmatch(text)
    message, named = (parts["message"], parts["path"] or "") if parts else (text, "")
    # `[...]` stands for a key that is not named; what follows it cannot be found.
    steps = _STEP.finditer(named.partition("[...]")[0])
    path: Path = tuple(int(step["index"]) if step["index"] else step["key"] for step in steps)
    return document.problem(path, Code.INVALID_VALUE, message[:1].lower() + message[1:])
