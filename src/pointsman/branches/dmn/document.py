"""Decision tables of DMN 1.3 to 1.5: literal S-FEEL tests, every hit policy, as our decisions.

Not FEEL: a cell with a name or a function, or a decision that is no table, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pointsman.branches.dmn.table_import import (
    NO_MATCH,
    ImportedRule,
    Sheet,
    document_of,
    literal_value,
)
from pointsman.branches.dmn.xml_reader import Element, read_elements
from pointsman.errors import DocumentError, Place, Problem
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.expressions.texts import text_of
from pointsman.expressions.unary import literals_of, path_of
from pointsman.expressions.values import Value, same
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Json, escape, in_order

_POLICIES: Mapping[str, str] = {
    "UNIQUE": "unique",
    "FIRST": "first",
    "PRIORITY": "output_priority",
    "ANY": "any",
    "COLLECT": "collect",
    "RULE ORDER": "rule_order",
    "OUTPUT ORDER": "output_order",
}
_KINDS = {
    "string": "text", "boolean": "boolean", "number": "number", "integer": "number",
    "long": "number", "double": "number",
}  # fmt: skip


def dmn_decisions(text: bytes, source: str, *, default: str = NO_MATCH) -> Document:
    """Read the tables of a DMN file as a document of decisions.

    A rule's target is the text of its first output; its `output` is the value, or a mapping where
    there are several. `default` is the target where a table has no default output.
    """
    problems: list[Problem] = []
    decisions = list(read_elements(text, source).every("decision"))
    made = [_decision(each, source, default, problems) for each in decisions]
    if not decisions:
        problems.append(Problem(Place(source, 1, 1), Code.MISSING_KEY, "there is no decision"))
    if problems:
        raise DocumentError(in_order(problems))
    places = [[rule.at for rule in each.every("rule")] for each in decisions]
    return document_of(source, made, places)


def _decision(element: Element, source: str, default: str, problems: list[Problem]) -> Json:
    tables = element.all("decisionTable")
    name = element.attributes.get("id") or element.attributes.get("name", "")
    if len(tables) != 1:
        message = f"`{escape(name)}` is not a decision table"
        hint = "only decision tables are read"
        problems.append(Problem(Place(source, *element.at), Code.INVALID_VALUE, message, hint))
        return {}
    return _Table(tables[0], source, problems).decision(name, element, default)


class _Table:
    def __init__(self, table: Element, source: str, problems: list[Problem]) -> None:
        self._table = table
        self._source = source
        self._problems = problems
        self._inputs = table.all("input")
        self._outputs = table.all("output")

    def decision(self, name: str, element: Element, default: str) -> Json:
        """Return the table as a decision, as it would be written."""
        paths = tuple(map(self._path, self._inputs))
        rows = tuple(map(self._row, self._table.all("rule")))
        attributes = self._table.attributes
        policy = _POLICIES.get(attributes.get("hitPolicy", "UNIQUE"), "unique")
        found: dict[str, Json] = {
            "id": name,
            "name": element.attributes.get("name", name),
            "type": "rule_table",
            "hit_policy": policy,
            "default": {"target": self._default() or default},
            "rules": Sheet(self._source, paths, rows, is_bare=False).rules(self._problems),
        }
        if "aggregation" in attributes:
            found["aggregate"] = attributes["aggregation"].lower()
        if policy in {"output_priority", "output_order"}:
            found["output_values"] = self._sort_outputs(rows)
        variables = self._variables(paths)
        return found | ({"variables": variables} if variables else {})

    def _path(self, column: Element) -> str:
        try:
            return path_of(column.content("inputExpression", "text"))
        except ExpressionRefused as refusal:
            self._problem(column, refusal.message, refusal.hint)
            return "context"

    def _row(self, rule: Element) -> ImportedRule:
        cells = [each.content("text") for each in rule.all("inputEntry")]
        entries = [each.content("text") for each in rule.all("outputEntry")]
        if len(cells) != len(self._inputs) or len(entries) != len(self._outputs):
            self._problem(rule, "a rule must have one entry for every input and output")
            return ImportedRule(
                ("-",) * len(self._inputs), {"target": NO_MATCH, "output": None}, rule.at
            )
        values = [self._literal(each, rule) for each in entries]
        target = _text(values[0]) if values else NO_MATCH
        rest: dict[str, Json] = {"target": target or NO_MATCH, "output": self._output(values)}
        label = rule.content("description") or rule.content("annotationEntry", "text")
        return ImportedRule(tuple(cells), rest | ({"label": label} if label else {}), rule.at)

    def _output(self, values: Sequence[Value]) -> Value:
        if len(values) == 1:
            return values[0]
        names = [
            each.attributes.get("name") or f"output_{number + 1}"
            for number, each in enumerate(self._outputs)
        ]
        return dict(zip(names, values, strict=True))

    def _literal(self, text: str, at: Element) -> Value:
        try:
            found = literals_of(text) if text != "-" else []
        except ExpressionRefused as refusal:
            self._problem(at, f"output `{escape(text)}`: {refusal.message}", refusal.hint)
            return None
        if len(found) > 1:
            self._problem(at, f"output `{escape(text)}`: more than one value")
        return literal_value(found[0]) if found else None

    def _default(self) -> str:
        texts = [each.content("defaultOutputEntry", "text") for each in self._outputs]
        value = self._literal(texts[0], self._outputs[0]) if texts and texts[0] else None
        return _text(value)

    def _sort_outputs(self, rows: Sequence[ImportedRule]) -> list[Json]:
        """Return the outputs of the rules from the most important down, column by column.

        A column without a list of its values does not count; of equals the first written leads.
        """
        columns = [self._values(column) for column in self._outputs]
        outputs = [row.rest["output"] for row in rows]
        distinct = [
            each for at, each in enumerate(outputs) if not any(same(each, o) for o in outputs[:at])
        ]
        return sorted(distinct, key=lambda output: self._rank(output, columns))

    def _values(self, column: Element) -> list[Value]:
        try:
            texts = literals_of(column.content("outputValues", "text"))
        except ExpressionRefused as refusal:
            self._problem(column, f"output values: {refusal.message}", refusal.hint)
            return []
        return [literal_value(each) for each in texts]

    def _rank(self, output: Json, columns: Sequence[Sequence[Value]]) -> list[int]:
        parts = list(output.values()) if isinstance(output, dict) else [output]
        return [
            next((at for at, each in enumerate(known) if same(each, part)), len(known))
            for part, known in zip(parts, columns, strict=True)
        ]

    def _variables(self, paths: Sequence[str]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for path, column in zip(paths, self._inputs, strict=True):
            listed = column.content("inputValues", "text")
            expression = column.all("inputExpression")
            kind = _KINDS.get(expression[0].attributes.get("typeRef", "")) if expression else None
            try:
                values = [literal_value(each) for each in literals_of(listed)]
            except ExpressionRefused:
                # Allowed values may be intervals, which say nothing that a kind does not.
                values = []
            if values or kind:
                found[path] = values or kind
        return found if len(found) == len(set(paths)) else {}

    def _problem(self, at: Element, message: str, hint: str = "") -> None:
        place = Place(self._source, *at.at)
        self._problems.append(Problem(place, Code.INVALID_VALUE, message, hint))


def _text(value: Value) -> str:
    return "" if value is None or isinstance(value, list | dict) else text_of(value)
