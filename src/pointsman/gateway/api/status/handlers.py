"""Health, readiness, metrics, and the description of every route."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.shapes import LedgerState
from pointsman.gateway.api.status.gauges import gauge_lines
from pointsman.gateway.serving.http import JSON, NO_STORE, Answer, JsonAnswer
from pointsman.gateway.serving.services import GatewayServices, SharedReport
from pointsman.storage.policies.ledger_policies import LedgerPolicies
from pointsman.storage.policies.policies import InForce, PolicyFiles
from pointsman.version import VERSION


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


class StatusApi:
    """Serves what operators and their machines look at."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._description = b""

    async def report_health(self, _request: ApiRequest) -> object:
        """Say that the process is there."""
        return {"status": "ok", "version": VERSION}

    async def report_readiness(self, _request: ApiRequest) -> object:
        """Say whether turns can be served, and the problems of any part.

        Ready means: the ledger takes entries, and the gateway was not told to stop.
        """
        parts, pointsman = self._parts, self._parts.pointsman
        ledger = pointsman.desk.recorder().health
        in_force = pointsman.in_force()
        is_ready = ledger.is_writable and not parts.stopping
        value = ReadinessAnswer(
            "ok" if is_ready else "draining" if parts.stopping else "unavailable",
            LedgerState(ledger.is_writable, ledger.cause),
            tuple(str(each) for each in in_force.problems),
            _policy_state(pointsman.files, in_force),
            UNSET if parts.sharing is None else parts.sharing.report(),
        )
        return JsonAnswer(value, 200 if is_ready else 503)

    async def write_metrics(self, _request: ApiRequest) -> object:
        """Write the counts for Prometheus."""
        text = self._parts.metrics.text() + "\n".join([*gauge_lines(self._parts), ""])
        media = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
        return Answer(text.encode(), [media, NO_STORE])

    async def describe_routes(self, _request: ApiRequest) -> Answer:
        """Describe every route; the description is made when it is first asked for."""
        if not self._description:
            # Imported here: it knows every shape there is, and few ask for it.
            from pointsman.gateway.api.status.openapi import openapi  # noqa: PLC0415

            self._description = msgspec.json.encode(openapi(self._parts.routes.values()))
        return Answer(self._description, [JSON, (b"cache-control", b"no-cache")])


def _policy_state(files: PolicyFiles, in_force: InForce) -> PolicyState:
    """Tell which policy is in force, and where it comes from."""
    origin = in_force.origin
    trouble = files.trouble if isinstance(files, LedgerPolicies) else ""
    return PolicyState(
        origin.source,
        in_force.policy_id,
        in_force.placement_id,
        origin.number,
        origin.publication_id,
        trouble or origin.notice,
    )
