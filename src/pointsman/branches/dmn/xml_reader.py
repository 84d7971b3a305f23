"""DMN files as trees of plain elements: no document types, no entities, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn
from xml.parsers import expat

from pointsman.errors import DocumentError, Place, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import DocumentLimits, Position, escape

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
