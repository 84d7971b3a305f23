"""Decision tables of DMN 1.3 to 1.5: literal S-FEEL tests, every hit policy, as our decisions.

Not FEEL: a cell may compare with a date and with the name of input data; other names and
functions, and a decision that is no table, are not read. The tables that can be read are, and
the rest is listed with its reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn
from xml.parsers import expat

from msgspec import Struct

from pointsman.branches.dmn.table_import import (
    NO_MATCH,
    ImportedRule,
    Sheet,
    document_of,
    literal_value,
)
from pointsman.branches.policy import read_document
from pointsman.errors import DocumentError, Place, Problem
from pointsman.expressions.builtins import text_of
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.expressions.unary import literals_of, path_of
from pointsman.expressions.values import Value, same
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, DocumentLimits, Json, Position, escape, in_order

LIMITS = DocumentLimits(bytes=1024 * 1024, depth=32, nodes=20_000)
NAMESPACES = {
    "https://www.omg.org/spec/DMN/20191111/MODEL/": "1.3",
    "https://www.omg.org/spec/DMN/20211108/MODEL/": "1.4",
    "https://www.omg.org/spec/DMN/20230324/MODEL/": "1.5",
}


class Element:
    """One element of the DMN namespace, by its local name."""

    __slots__ = ("at", "attributes", "children", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str], at: Position) -> None:
        self.name = name
        self.attributes = attributes
        self.at = at
        self.text = ""
        self.children: list[Element] = []

    def all(self, name: str) -> list[Element]:
        """Return the children of a name."""
        return [each for each in self.children if each.name == name]

    def content(self, *names: str) -> str:
        """Return the text of the element that names lead to; empty where there is none."""
        found: list[Element] = [self]
        for name in names:
            found = [child for each in found for child in each.all(name)][:1]
        return found[0].text.strip() if found else ""

    def every(self, name: str) -> Iterator[Element]:
        """Return all elements of a name inside this one."""
        for each in self.children:
            if each.name == name:
                yield each
            yield from each.every(name)


def read_elements(text: bytes, source: str, limits: DocumentLimits = LIMITS) -> Element:
    """Read a DMN file of version 1.3 to 1.5, or raise with the place of the problem."""
    return _Reader(source, limits).read(text)


class _Reader:
    def __init__(self, source: str, limits: DocumentLimits) -> None:
        self._source = source
        self._limits = limits
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._top = Element("", {}, (1, 1))
        self._open: list[Element] = [self._top]
        self._count = 0

    def read(self, text: bytes) -> Element:
        """Read all of a text."""
        if len(text) > self._limits.bytes:
            self._refuse(f"the text is larger than {self._limits.bytes} bytes")
        parser = self._parser
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(text, True)  # noqa: FBT003 - as expat wants it
        except expat.ExpatError as error:
            self._refuse(f"not valid XML: {expat.errors.messages.get(error.code, 'unreadable')}")
        return self._top.children[0]

    def _doctype(self, *_given: object) -> NoReturn:
        self._refuse("a document type is not allowed", "remove the lines of `<!DOCTYPE …>`")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > self._limits.nodes or len(self._open) > self._limits.depth:
            self._refuse("the file has too many elements, or they are nested too deeply")
        namespace, _, local = name.rpartition(" ")
        if len(self._open) == 1 and (namespace not in NAMESPACES or local != "definitions"):
            shown = escape(namespace or local)
            self._refuse(f"`{shown}` is not DMN 1.3, 1.4 or 1.5")
        element = Element(local if namespace in NAMESPACES else "", attributes, self._position())
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, _name: str) -> None:
        self._open.pop()

    def _characters(self, text: str) -> None:
        self._open[-1].text += text

    def _position(self) -> Position:
        return self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1

    def _refuse(self, message: str, hint: str = "") -> NoReturn:
        place = Place(self._source, *self._position())
        raise DocumentError((Problem(place, Code.SYNTAX, message, hint),)) from None


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


class ReadTables(Struct, frozen=True):
    """The tables of a file that could be read, and the reasons why the others could not."""

    document: Document
    unread: tuple[Problem, ...]


def dmn_decisions(text: bytes, source: str, *, default: str = NO_MATCH) -> ReadTables:
    """Read the tables of a DMN file as a document of decisions, or raise where there is none.

    A rule's target is the text of its first output; its `output` is the value, or a mapping where
    there are several. `default` is the target where a table has no default output.
    """
    top = read_elements(text, source)
    decisions = list(top.every("decision"))
    names = frozenset(each.attributes.get("name", "") for each in top.every("inputData"))
    unread: list[Problem] = []
    made: list[Json] = []
    places: list[list[Position]] = []
    for element in decisions:
        problems: list[Problem] = []
        found = _decision(element, source, default, names, problems)
        rows = [rule.at for rule in element.every("rule")]
        problems = problems or _own_problems(source, found, rows)
        unread += problems
        if not problems:
            made.append(found)
            places.append(rows)
    if not decisions:
        unread.append(Problem(Place(source, 1, 1), Code.MISSING_KEY, "there is no decision"))
    if not made:
        raise DocumentError(in_order(unread))
    return ReadTables(document_of(source, made, places), tuple(in_order(unread)))


def _own_problems(source: str, decision: Json, rows: list[Position]) -> list[Problem]:
    """Return what our own reader finds wrong with one decision."""
    try:
        read_document(document_of(source, [decision], [rows]))
    except DocumentError as error:
        return list(error.problems)
    return []


def _decision(
    element: Element, source: str, default: str, names: frozenset[str], problems: list[Problem]
) -> Json:
    tables = element.all("decisionTable")
    name = element.attributes.get("id") or element.attributes.get("name", "")
    if len(tables) != 1:
        message = f"`{escape(name)}` is not a decision table"
        hint = "only decision tables are read"
        problems.append(Problem(Place(source, *element.at), Code.INVALID_VALUE, message, hint))
        return {}
    return _Table(tables[0], source, names, problems).decision(name, element, default)


class _Table:
    def __init__(
        self, table: Element, source: str, names: frozenset[str], problems: list[Problem]
    ) -> None:
        self._table = table
        self._names = names
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
            "rules": Sheet(self._source, paths, rows, is_bare=False, names=self._names).rules(
                self._problems
            ),
        }
        if "aggregation" in attributes:
            found["aggregate"] = attributes["aggregation"].lower()
        if policy in {"output_priority", "output_order"}:
            found["output_values"] = self._sort_outputs(rows)
        # A cell that compares with other input data reads more than the columns declare.
        cells = " ".join(cell for row in rows for cell in row.cells)
        reads_others = any(name and name in cells for name in self._names)
        variables = {} if reads_others else self._variables(paths)
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
