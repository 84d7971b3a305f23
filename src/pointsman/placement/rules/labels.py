"""Labels: names put on single items of a conversation that must stay within a zone.

A label holds for as long as an item that has it is sent; without the item the turn is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.placement.rules.zones import GivenZones, ZoneName, unknown_zone_problems

LabelName = Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]{0,62}$")]
NamePattern = Annotated[str, Meta(min_length=1, max_length=400)]
"""A name; `*` stands for any characters."""


class GivenLabel(Struct, frozen=True, forbid_unknown_fields=True):
    """The items that have a label, and the zone they stay within, as it is written.

    Calls of `tools` and of the MCP `servers`, and those that name one of `paths`, have it with
    their results; and any text in which the detector `finds` such a kind.
    """

    within: ZoneName
    tools: tuple[NamePattern, ...] = ()
    servers: tuple[NamePattern, ...] = ()
    paths: tuple[NamePattern, ...] = ()
    finds: tuple[NamePattern, ...] = ()


class Label(Struct, frozen=True, forbid_unknown_fields=True):
    """One label, exact."""

    name: str
    within: str
    tools: tuple[str, ...]
    servers: tuple[str, ...]
    paths: tuple[str, ...]
    finds: tuple[str, ...]


def exact_labels(given: Mapping[str, GivenLabel]) -> tuple[Label, ...]:
    """Return the labels by name."""
    return tuple(
        Label(name, each.within, each.tools, each.servers, each.paths, each.finds)
        for name, each in sorted(given.items())
    )


def label_problems(
    given: Mapping[str, GivenLabel], zones: GivenZones, kinds: tuple[str, ...], document: Document
) -> Iterator[Problem]:
    """Find labels of unknown zones and kinds, and those that nothing has."""
    for name, label in given.items():
        at = ("labels", name)
        yield from unknown_zone_problems(label.within, zones, document, (*at, "within"))
        if not (label.tools or label.servers or label.paths or label.finds):
            message = "a label names `tools`, `servers`, `paths` or what the detector `finds`"
            yield document.problem(at, Code.MISSING_KEY, message)
        for index, kind in enumerate(label.finds):
            if kind not in kinds and not kind.startswith("own."):
                message = f"`{kind}` is nothing the detector knows"
                yield document.problem((*at, "finds", index), Code.UNKNOWN_VALUE, message)
