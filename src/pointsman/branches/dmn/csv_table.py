"""A decision table from CSV: one row a rule, one column a value to test, and where to go.

The columns `target` (needed), `label`, `priority` and `output` say what a rule does; every other
column is the path of a value. A cell is a unary test; a plain word stands for itself.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from pointsman.branches.dmn.table_import import NO_MATCH, ImportedRule, Sheet, document_of
from pointsman.branches.file.decisions_file import HitPolicy
from pointsman.errors import DocumentError, Place, Problem
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.expressions.unary import path_of
from pointsman.kernel.codes import Code
from pointsman.kernel.document import (
    DEFAULT_LIMITS,
    Document,
    DocumentLimits,
    Json,
    Position,
    in_order,
)
from pointsman.kernel.source_text import decode

_SAYS = ("target", "label", "priority", "output")


def csv_decision(
    text: bytes,
    source: str,
    name: str,
    *,
    hit_policy: HitPolicy = "first",
    default: str = NO_MATCH,
    limits: DocumentLimits = DEFAULT_LIMITS,
) -> Document:
    """Read a table as a document with one decision, or raise with every problem at its line."""
    problems: list[Problem] = []
    rows = list(_rows(decode(text, source, limits), source))
    if not rows:
        raise DocumentError((_problem(source, (1, 1), "the table is empty"),))
    (_, head), *body = rows
    columns = [each.strip() for each in head]
    says = {each.lower(): at for at, each in enumerate(columns) if each.lower() in _SAYS}
    if "target" not in says:
        problems.append(_problem(source, (1, 1), "the column `target` is missing"))
    tested = [at for at in range(len(columns)) if at not in says.values()]
    paths = tuple(_path(columns[at], source, problems) for at in tested)
    found = []
    for line, cells in body:
        if len(cells) != len(columns):
            message = f"this row has {len(cells)} cells, the table {len(columns)} columns"
            problems.append(_problem(source, (line, 1), message))
            continue
        rest = {key: _cell_value(key, cells[at]) for key, at in says.items() if cells[at].strip()}
        found.append(ImportedRule(tuple(cells[at] for at in tested), rest, (line, 1)))
    rules = Sheet(source, paths, tuple(found), is_bare=True).rules(problems)
    if problems:
        raise DocumentError(in_order(problems))
    decision: Json = {
        "id": name,
        "type": "rule_table",
        "hit_policy": hit_policy,
        "default": {"target": default},
        "rules": rules,
    }
    return document_of(source, [decision], [[row.at for row in found]])


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        for cells in reader:
            if any(each.strip() for each in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise DocumentError((_problem(source, (reader.line_num, 1), str(error)),)) from None


def _path(name: str, source: str, problems: list[Problem]) -> str:
    try:
        return path_of(name)
    except ExpressionRefused as refusal:
        problems.append(_problem(source, (1, 1), refusal.message, refusal.hint))
        return "context"


def _cell_value(key: str, cell: str) -> Json:
    """Return a number where a number is meant, else the text."""
    text = cell.strip()
    if key in {"target", "label"}:
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    is_whole = number.is_finite() and number == number.to_integral_value()
    return int(number) if is_whole else number


def _problem(source: str, at: Position, message: str, hint: str = "") -> Problem:
    return Problem(Place(source, *at), Code.INVALID_VALUE, message, hint)
