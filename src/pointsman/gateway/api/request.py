"""A request to the product's own API, its caller known: the path, query and body it carries."""

from __future__ import annotations

from typing import Final, TypeVar
from urllib.parse import parse_qs, unquote

from msgspec import Struct

from pointsman.access.keys import Principal
from pointsman.errors import InputError
from pointsman.gateway.serving.http import Asked
from pointsman.gateway.serving.route import Route
from pointsman.kernel.document import Document, DocumentLimits
from pointsman.kernel.instant import Instant, read_instant
from pointsman.kernel.json_text import read_json
from pointsman.kernel.schema import conform

T = TypeVar("T")

MOST_LISTED: Final = 1000
LISTED: Final = 50
MOST_PARTS: Final = 20


class ApiRequest(Struct, frozen=True):
    """One request; its caller is anonymous where the route admits callers itself."""

    route: Route
    asked: Asked
    caller: Principal

    def part(self, name: str) -> str:
        """Return the part of the path that a name in the route stands for."""
        pairs = zip(self.route.path.split("/"), self.asked.path.split("/"), strict=True)
        return next(unquote(part) for pattern, part in pairs if pattern == f"{{{name}}}")

    def document(self) -> Document:
        """Read the body as JSON, or raise saying where it is none."""
        return read_json(
            self.asked.body, "the body", DocumentLimits(bytes=max(len(self.asked.body), 1))
        )

    def body_as(self, kind: type[T]) -> T:
        """Read the body as a `kind`, or raise with all that is wrong with it."""
        return conform(self.document(), kind)

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return every value of a parameter of the query, in order."""
        try:
            found = parse_qs(
                self.asked.query, keep_blank_values=True, max_num_fields=MOST_PARTS, errors="strict"
            )
        except ValueError as error:
            raise InputError("the query cannot be read") from error
        return tuple(found.get(name, ()))

    def parameter(self, name: str) -> str | None:
        """Return a parameter of the query; none where it is absent."""
        values = self.parameters(name)
        if len(values) > 1:
            raise InputError(f"`{name}` stands twice in the query")
        return values[0] if values else None

    def instant(self, name: str, default: Instant) -> Instant:
        """Return an instant of the query."""
        value = self.parameter(name)
        return default if value is None else read_instant(value)

    def limit(self) -> int:
        """Return how many rows are asked for."""
        value = self.parameter("limit")
        if value is None:
            return LISTED
        is_number = value.isascii() and value.isdigit() and len(value) <= len(str(MOST_LISTED))
        if not is_number or not 1 <= int(value) <= MOST_LISTED:
            raise InputError(f"`limit` must be a number from 1 to {MOST_LISTED}")
        return int(value)
