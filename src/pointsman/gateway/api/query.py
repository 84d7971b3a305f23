"""Reading what a request's query says."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from pointsman.errors import InputError
from pointsman.gateway.http import Asked
from pointsman.kernel.instant import Instant, read_instant

MOST_LISTED: Final = 1000
LISTED: Final = 50
MOST_PARTS: Final = 20


def parameter(asked: Asked, name: str) -> str | None:
    """Give a part of the query by its name; none where it is absent."""
    try:
        found = parse_qs(
            asked.query, keep_blank_values=True, max_num_fields=MOST_PARTS, errors="strict"
        )
    except ValueError as error:
        raise InputError("the query cannot be read") from error
    values = found.get(name, [])
    if len(values) > 1:
        raise InputError(f"`{name}` stands twice in the query")
    return values[0] if values else None


def instant(asked: Asked, name: str, default: Instant) -> Instant:
    """Give an instant of the query."""
    value = parameter(asked, name)
    return default if value is None else read_instant(value)


def limit(asked: Asked) -> int:
    """Give how many rows are asked for."""
    given = parameter(asked, "limit")
    if given is None:
        return LISTED
    is_number = given.isascii() and given.isdigit() and len(given) <= len(str(MOST_LISTED))
    if not is_number or not 1 <= int(given) <= MOST_LISTED:
        raise InputError(f"`limit` must be a number from 1 to {MOST_LISTED}")
    return int(given)
