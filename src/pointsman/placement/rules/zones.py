"""Zones: named places that models stand in, partly ordered by what lies within what.

`local` is this machine and lies within every zone; every zone lies within `cloud`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

from msgspec import Meta

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.nearest import nearest

LOCAL: Final = "local"
CLOUD: Final = "cloud"
BUILT_IN_ZONES: Final = (LOCAL, CLOUD)

ZoneName = Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]{0,62}$")]
GivenZones = dict[ZoneName, ZoneName | tuple[ZoneName, ...]]
"""For each zone the ones it lies within, as it is written; `cloud` where it names none else."""

Zones = Mapping[str, tuple[str, ...]]
"""For each zone all those it lies within, without itself and without `cloud`."""


def outer_zones(given: Mapping[str, str | tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return for each zone all the zones it lies within; `cloud`, which holds all, is left out."""
    return {zone: tuple(sorted(_outside(zone, given) - {zone})) for zone in sorted(given)}


def _outside(zone: str, given: Mapping[str, str | tuple[str, ...]]) -> frozenset[str]:
    found: set[str] = set()
    ahead = [zone]
    while ahead:
        for outer in _names(given.get(ahead.pop(), ())):
            if outer not in found and outer != CLOUD:
                found.add(outer)
                ahead.append(outer)
    return frozenset(found)


def zones_around(zone: str, zones: Zones) -> tuple[str, ...]:
    """Return a model's zone and all those it lies within; a zone that is not known lies alone."""
    return () if zone == CLOUD else (zone, *zones.get(zone, ()))


def innermost(names: Iterable[str], zones: Zones) -> tuple[str, ...]:
    """Return the zones that say all of these at once: one that holds another adds nothing."""
    given = frozenset(names) - {CLOUD}
    if LOCAL in given:
        return (LOCAL,)
    wider = frozenset(outer for name in given for outer in zones.get(name, ()))
    # DETERMINISM: sets have no order.
    return tuple(sorted(given - wider))


def zone_text(names: Iterable[str]) -> str:
    """Write zones that all hold at once."""
    return " and ".join(names)


def zone_problems(given: GivenZones, document: Document) -> Iterator[Problem]:
    """Find zones that are built in, unknown, or lie within themselves."""
    for zone, written in given.items():
        at: Path = ("zones", zone)
        if zone in BUILT_IN_ZONES:
            message = f"`{zone}` is built in: it cannot be placed anew"
            yield document.problem(at, Code.INVALID_VALUE, message, key=True)
            continue
        for index, outer in enumerate(_names(written)):
            place = at if isinstance(written, str) else (*at, index)
            if outer == LOCAL:
                message = "nothing lies within `local` but the models of this machine"
                yield document.problem(place, Code.INVALID_VALUE, message)
            else:
                yield from unknown_zone_problems(outer, given, document, place)
        if zone in _outside(zone, given):
            message = f"`{zone}` lies within itself: {' < '.join(_circle(zone, given))}"
            yield document.problem(at, Code.INVALID_VALUE, message)


def _circle(zone: str, given: GivenZones) -> list[str]:
    """Return the shortest way from a zone to itself, its own name at both ends."""
    ways, seen = [[zone]], {zone}
    for way in ways:
        for outer in _names(given.get(way[-1], ())):
            if outer == zone:
                return [*way, zone]
            if outer not in seen:
                seen.add(outer)
                ways.append([*way, outer])
    return [zone]


def unknown_zone_problems(
    zone: str, given: Mapping[str, object], document: Document, at: Path
) -> Iterator[Problem]:
    """Report a name that is no zone, with the nearest one that is."""
    known = (*BUILT_IN_ZONES, *given)
    if zone not in known:
        hint = nearest(zone, known)
        told = f"did you mean `{hint}`?" if hint else f"known: {', '.join(known)}"
        yield document.problem(at, Code.UNKNOWN_VALUE, f"`{zone}` is no zone", told)


def _names(written: str | tuple[str, ...]) -> tuple[str, ...]:
    return (written,) if isinstance(written, str) else written
