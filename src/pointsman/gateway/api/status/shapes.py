"""What health, readiness and the description of routes answer."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from pointsman.gateway.api.shapes import LedgerState
from pointsman.gateway.serving.services import SharedReport


class OpenApiAnswer(Struct, frozen=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


class HealthAnswer(Struct, frozen=True):
    """The process is there."""

    status: Literal["ok"]
    version: str


class PolicyState(Struct, frozen=True, omit_defaults=True):
    """Which policy is in force, and where it comes from.

    A published one has its number and the id of its publication. `notice` says why the files are
    in force though the ledger is to be followed, or why the ledger cannot be read now.
    """

    source: Literal["files", "ledger"]
    policy_id: str
    placement_id: str
    number: int = 0
    publication_id: str = ""
    notice: str = ""


class ReadinessAnswer(Struct, frozen=True, omit_defaults=True):
    """Whether turns can be served, and the problems of any part; `shared` with replicas only."""

    status: Literal["ok", "unavailable", "draining"]
    ledger: LedgerState
    configuration: tuple[str, ...]
    policy: PolicyState
    shared: SharedReport | UnsetType = UNSET
