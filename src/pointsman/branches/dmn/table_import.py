"""Decision tables from elsewhere, as the documents our own files are: nothing is skipped silently.

Both forms come down to columns, cells and outputs; `Sheet` turns those into a decision.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pointsman.errors import Place, Problem
from pointsman.expressions.evaluate import EvaluationScope, Unknown
from pointsman.expressions.expression import value
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.expressions.unary import condition_of
from pointsman.expressions.values import Value
from pointsman.kernel.codes import Code
from pointsman.kernel.document import START, Document, Json, Path, Position

NO_MATCH = "no-match"


class ImportedRule(Struct, frozen=True):
    """One rule: its cells, the fields it adds to the decision's row, and its place."""

    cells: tuple[str, ...]
    rest: dict[str, Json]
    at: Position


class Sheet(Struct, frozen=True):
    """One table: the paths its columns test, and its rules."""

    source: str
    paths: tuple[str, ...]
    rows: tuple[ImportedRule, ...]
    is_bare: bool
    names: frozenset[str] = frozenset()
    """The names of values that cells may compare with."""

    def rules(self, problems: list[Problem]) -> list[Json]:
        """Return the rules as they would be written; note a problem for each that cannot be."""
        return [self._rule(row, problems) for row in self.rows]

    def _rule(self, row: ImportedRule, problems: list[Problem]) -> Json:
        parts: list[str] = []
        for number, (path, cell) in enumerate(zip(self.paths, row.cells, strict=True)):
            try:
                parts.append(condition_of(path, cell, is_bare=self.is_bare, names=self.names))
            except ExpressionRefused as refusal:
                message = f"cell {number + 1}: column {refusal.column}: {refusal.message}"
                problems.append(self.problem(row.at, message, refusal.hint))
        return {"condition": " and ".join(each for each in parts if each) or "true", **row.rest}

    def problem(self, at: Position, message: str, hint: str = "") -> Problem:
        """Return a problem at a place of the source."""
        return Problem(Place(self.source, *at), Code.INVALID_VALUE, message, hint)


def literal_value(text: str) -> Value:
    """Return the value of a literal written in our language."""
    found = value(text).answer(EvaluationScope({})).value
    return None if isinstance(found, Unknown) else found


def document_of(
    source: str, decisions: Sequence[Json], places: Sequence[Sequence[Position]]
) -> Document:
    """Return decisions as a document whose rules still know where they stood."""
    values: dict[Path, Position] = {(): START, ("decisions",): START}
    for number, rows in enumerate(places):
        values["decisions", number] = rows[0] if rows else START
        for row, at in enumerate(rows):
            values["decisions", number, "rules", row] = at
    return Document(source, {"decisions": list(decisions)}, values, {("decisions",): START})
