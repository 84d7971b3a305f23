"""What a turn's decision may look at, frozen: nothing else about the world can matter to it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform

Availability = Literal["healthy", "degraded", "unavailable"]


class TurnFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of one turn.

    `configured` and `allowed_models` are None where nothing narrows the registry. A model or
    provider without an `availability` entry is healthy. The message is a seal once recorded.
    """

    message: str | Sealed
    configured: tuple[str, ...] | None = None
    allowed_models: tuple[str, ...] | None = None
    availability: dict[str, Availability] = {}


FACTS_FORM = Form(TurnFacts)


class GivenFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of a turn as a caller writes them."""

    message: str
    configured: tuple[str, ...] | None = None
    allowed_models: tuple[str, ...] | None = None
    availability: dict[str, Availability] = {}


def read_facts(document: Document) -> TurnFacts:
    """Read facts a caller wrote, or raise with every problem at its place."""
    given = conform(document, GivenFacts)
    return TurnFacts(given.message, given.configured, given.allowed_models, given.availability)


def with_seal(facts: TurnFacts, seal: Sealed) -> TurnFacts:
    """Give the facts as they are recorded: the text replaced by its seal."""
    return replace(facts, message=seal)
