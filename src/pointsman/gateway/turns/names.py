"""Which model a caller means: `auto`, a known or bare name, or one that `accept:` maps."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from pointsman.errors import InputError, UnknownModel
from pointsman.storage.policies.policies import InForce
from pointsman.turns.registry.models import meant, model_id

AUTO: Final = "auto"


class Meant(Struct, frozen=True):
    """What a caller asked for; `model` is empty where routing decides."""

    requested: str
    model: str


def meant_by(requested: str, in_force: InForce) -> Meant:
    """Resolve the name of a request, or raise with the nearest names."""
    found = _known(requested, in_force)
    if found is None:
        found = in_force.models.accept.get(requested)
        found = _bare(requested, in_force) if found is None else _known(found, in_force)
    if found is None:
        found = _matched(requested, in_force)
    if found is None:
        known = [*dict.fromkeys([AUTO, *in_force.ready.models, *in_force.ready.aliases])]
        raise UnknownModel(
            f"the model `{requested}` is not known here",
            hint=meant(requested, known)
            or f"known: {', '.join(known[:8])}; `accept:` in models.yaml maps other names",
        )
    return Meant(requested, "" if found == AUTO else found)


def _known(requested: str, in_force: InForce) -> str | None:
    if requested in {AUTO, ""}:
        return AUTO
    name = model_id(requested)
    if name in in_force.ready.models:
        return name
    return in_force.ready.aliases.get(requested)


def _bare(requested: str, in_force: InForce) -> str | None:
    """Return the one model of this name, whatever its provider; raise where several have it."""
    found = [name for name in in_force.ready.models if name.partition(":")[2] == requested]
    if len(found) > 1:
        raise InputError(
            f"`{requested}` is the name of several models", hint=f"name one: {', '.join(found)}"
        )
    return found[0] if found else None


def _matched(requested: str, in_force: InForce) -> str | None:
    """Look a name up among the globs of `accept:`, in their order."""
    accept = in_force.models.accept.items()
    target = next((to for pattern, to in accept if fnmatchcase(requested, pattern)), None)
    return None if target is None else _known(target, in_force)
