"""A document while it is being read: values, their positions, and the problems met so far.

Both text formats grow the same tree, so limits and duplicate keys are judged in one place.
"""

from __future__ import annotations

from typing import NoReturn

from pointsman.errors import DocumentError, Place, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import (
    Document,
    DocumentLimits,
    Json,
    Path,
    Position,
    escape,
    in_order,
    refuse,
)

MOST_PROBLEMS = 100
"""Reading stops here: a longer list of problems is no help."""

_VALUE_STANDS = frozenset({Code.ANCHOR, Code.DIRECTIVE, Code.DUPLICATE_KEY})
"""Problems after which the value that was read is still the one that was meant."""


class _Open:
    """A list or mapping whose end has not been read yet."""

    __slots__ = ("items", "key", "path")

    def __init__(self, items: list[Json] | dict[str, Json], path: Path) -> None:
        self.items = items
        self.path = path
        self.key: str | None = None

    def child(self) -> Path:
        """Return the path of the value that comes next."""
        step = len(self.items) if self.key is None else self.key
        return (*self.path, step)

    def add_value(self, value: Json) -> None:
        """Add a value. Where a key belongs, it stands for the key: a problem noted before."""
        if isinstance(self.items, list):
            self.items.append(value)
        elif self.key is None:
            self.key = ""
        else:
            self.items[self.key] = value
            self.key = None


class Tree:
    """Grows from calls in document order: `open`, `key`, `leaf`, `close`, then `document`."""

    def __init__(self, source: str, limits: DocumentLimits) -> None:
        self._source = source
        self._limits = limits
        self._root: list[Json] = []
        self._stack: list[_Open] = []
        self._values: dict[Path, Position] = {}
        self._keys: dict[Path, Position] = {}
        self._problems: list[Problem] = []
        self._flaws: set[Path] = set()
        self._strays: set[Path] = set()
        self._nodes = 0

    @property
    def depth(self) -> int:
        """How many lists and mappings are open."""
        return len(self._stack)

    @property
    def in_mapping(self) -> bool:
        """Whether the innermost open container is a mapping."""
        return bool(self._stack) and isinstance(self._stack[-1].items, dict)

    @property
    def wants_key(self) -> bool:
        """Whether the next thing must be a key."""
        return self.in_mapping and self._stack[-1].key is None

    @property
    def next_path(self) -> Path:
        """The path of the value that comes next."""
        if self.wants_key:
            # What stands where a key belongs is put under an empty one.
            return (*self._stack[-1].path, "")
        return self._stack[-1].child() if self._stack else ()

    def open(self, items: list[Json] | dict[str, Json], position: Position) -> None:
        """Begin a list or mapping."""
        if self.depth == self._limits.depth:
            message = f"more than {self._limits.depth} lists and mappings inside each other"
            self.fail(position, Code.TOO_DEEP, message, "flatten the document")
        path = self._add(position)
        self._stack.append(_Open(items, path))

    def close(self) -> None:
        """End the innermost list or mapping."""
        self._add_value(self._stack.pop().items)

    def key(self, name: str, position: Position) -> None:
        """Take the key of the mapping member that comes next."""
        mapping = self._stack[-1]
        path = (*mapping.path, name)
        # A key that could not be read left its value in the mapping, but no position of its own.
        if name in mapping.items and path in self._keys:
            line = self._keys[path][0]
            message = f"key `{escape(name)}` is already in this mapping, on line {line}"
            self.report(position, Code.DUPLICATE_KEY, message, "keep one of the two")
        else:
            self._keys[path] = position
        mapping.key = name

    def leaf(self, value: Json, position: Position) -> None:
        """Take a scalar."""
        self._add(position)
        self._add_value(value)

    def report(
        self, position: Position, code: Code, message: str, hint: str = "", *, is_key: bool = False
    ) -> None:
        """Note a problem with the value that comes next, or its key; reading can go on after it."""
        self._problems.append(Problem(Place(self._source, *position), code, message, hint))
        if code not in _VALUE_STANDS:
            (self._strays if is_key else self._flaws).add(self.next_path)
        if len(self._problems) == MOST_PROBLEMS:
            message = f"reading stopped after {MOST_PROBLEMS} problems"
            self.fail(position, Code.TOO_MANY_PROBLEMS, message, "mend these and read again")

    def fail(self, position: Position, code: Code, message: str, hint: str = "") -> NoReturn:
        """Raise this problem together with all noted before it."""
        last = Problem(Place(self._source, *position), code, message, hint)
        raise DocumentError(in_order([*self._problems, last])) from None

    def document(self) -> Document:
        """Return the whole document, or raise the problems noted."""
        refuse(self._problems)
        return self.flawed_document()

    def flawed_document(self) -> Document:
        """Return the whole document with the problems noted."""
        value = self._root[0] if self._root else None
        return Document(
            self._source,
            value,
            self._values,
            self._keys,
            tuple(self._problems),
            frozenset(self._flaws),
            frozenset(self._strays),
        )

    def _add(self, position: Position) -> Path:
        self._nodes += 1
        if self._nodes > self._limits.nodes:
            message = f"more than {self._limits.nodes} values in one document"
            self.fail(position, Code.TOO_MANY_VALUES, message, "split the file")
        path = self._stack[-1].child() if self._stack else ()
        self._values[path] = position
        return path

    def _add_value(self, value: Json) -> None:
        if self._stack:
            self._stack[-1].add_value(value)
        else:
            self._root.append(value)
