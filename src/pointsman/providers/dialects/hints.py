"""Hints: wishes that only some dialects can say, carried by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Raw

from pointsman.providers.dialects.loss import Loss, Losses
from pointsman.providers.messages import Hint, ModelRequest

_SAYS_NOTHING = frozenset({b"null", b"false", b"{}", b"[]", b'""'})
_ZERO = frozenset({b"0", b"0.0"})


def read_hints(
    top: Mapping[str, Raw], names: Iterable[str], known: Collection[str], unsaid: list[str]
) -> tuple[Hint, ...]:
    """Collect the hints of a body; an unknown field is noted as unsaid."""
    wanted = tuple(names)
    unknown = (key for key in top if key not in known and key not in wanted)
    unsaid.extend(f"{Loss.UNKNOWN_FIELD}: {key[:64]}" for key in unknown)
    return tuple(Hint(name, top[name]) for name in wanted if says_something(name, top.get(name)))


def says_something(name: str, value: Raw | None) -> bool:
    """Say whether a hint asks for anything else than what happens without it."""
    if value is None:
        return False
    text = bytes(value)
    return text not in _SAYS_NOTHING and (name == "seed" or text not in _ZERO)


def write_hints(
    request: ModelRequest, names: Collection[str], body: dict[str, object], losses: Losses
) -> None:
    """Write the hints that a dialect has, and note the others as lost."""
    for hint in request.hints:
        if hint.name in names:
            body[hint.name] = hint.value
        else:
            losses.add_named(hint.name)
