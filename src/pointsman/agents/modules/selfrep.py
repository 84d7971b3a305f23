"""SelfRepresentation: all modules and their dependencies, frozen under a content id."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.agents.modules.module import Edge, Module
from pointsman.agents.modules.trust import TrustConstants
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.snapshot import SnapshotForm

SCHEMA_VERSION: Final = 1


class Tail(Struct, frozen=True, forbid_unknown_fields=True):
    """The last event folded in, and how many there were; an index of -1 is before the first."""

    events: int
    job_seed: str
    index: int


NO_EVENTS: Final = Tail(0, "", -1)


class SelfRep(Struct, frozen=True, forbid_unknown_fields=True):
    """The snapshot: modules by `node_id`, edges by their ends, in this order.

    `config_hash` is the id of the router's snapshot in force when it was made; `warnings` list
    the defaults that were filled in.
    """

    schema_version: int
    config_hash: str
    modules: tuple[Module, ...]
    edges: tuple[Edge, ...]
    trust: TrustConstants
    tail: Tail
    warnings: tuple[str, ...]

    def module(self, node_id: str) -> Module | None:
        """Return a module by its id."""
        return next((each for each in self.modules if each.node_id == node_id), None)


SELFREP_FORM: Final = SnapshotForm("agents.selfrep", SCHEMA_VERSION, SelfRep)


def selfrep_id(selfrep: SelfRep) -> ContentId:
    """Name a snapshot by its content."""
    return SELFREP_FORM.id(selfrep)
