"""Health, readiness, metrics, and the description of every route."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pointsman.gateway.api.budgets.handlers import budget_rows
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.shapes import LedgerState
from pointsman.gateway.serving.addresses import hide_addresses
from pointsman.gateway.serving.http import JSON, NO_STORE, Answer, JsonAnswer
from pointsman.gateway.serving.services import GatewayServices, SharedReport, WorkerStatus
from pointsman.gateway.telemetry.metrics import Labels, label_text
from pointsman.kernel.instant import SECOND
from pointsman.storage.policies.ledger_policies import LedgerPolicies
from pointsman.storage.policies.policies import InForce, PolicyFiles
from pointsman.version import VERSION

HEALTHY, PARTLY_OUT, OUT = 0, 1, 2

Value = tuple[Labels, str]

GAUGES: Final = {
    "pointsman_requests_in_flight": "requests being served now",
    "pointsman_provider_state": "0 healthy, 1 some of its models are out, 2 out",
    "pointsman_provider_requests_left": "requests that a provider's rpm limit leaves now",
    "pointsman_provider_tokens_left": "tokens that a provider's tpm limit leaves now",
    "pointsman_budget_remaining_usd": "what a budget has left, in dollars",
    "pointsman_feed_readers": "clients that follow the live feed",
    "pointsman_ledger_writable": "whether entries are taken",
    "pointsman_witness_up": "whether a witness cosigned when it was asked last",
    "pointsman_witness_failing_seconds": "for how long a witness has not cosigned; 0 where it does",
    "pointsman_witnessed_entries": "entries of a chain that a quorum of witnesses cosigned",
}


def gauge_lines(
    parts: GatewayServices, reach: str | None, standing: WorkerStatus | None = None
) -> Iterator[str]:
    """Write every gauge in the format that Prometheus reads; `standing` is that of all workers."""
    found = _values(parts, reach, standing or parts.standing())
    for name, told in GAUGES.items():
        yield f"# HELP {name} {told}"
        yield f"# TYPE {name} gauge"
        for labels, value in found[name]:
            yield f"{name}{label_text(labels)} {value}"


def _values(
    parts: GatewayServices, reach: str | None, standing: WorkerStatus
) -> dict[str, list[Value]]:
    rates = parts.health.rates.rows()
    return {
        "pointsman_requests_in_flight": [((), str(standing.in_flight))],
        "pointsman_provider_state": [
            (_provider(name), str(state)) for name, state in provider_states(parts).items()
        ],
        "pointsman_provider_requests_left": [
            (_provider(each.provider), str(each.requests_left))
            for each in rates
            if each.requests_left is not None
        ],
        "pointsman_provider_tokens_left": [
            (_provider(each.provider), str(each.tokens_left))
            for each in rates
            if each.tokens_left is not None
        ],
        "pointsman_budget_remaining_usd": [
            ((("budget", each.name), ("key", each.key_id or "")), each.left_usd)
            for each in budget_rows(parts, reach)
            if each.left_usd is not None
        ],
        "pointsman_feed_readers": [((), str(standing.feed_readers))],
        "pointsman_ledger_writable": [((), str(int(standing.is_writable)))],
        **_witness_values(parts),
    }


def _witness_values(parts: GatewayServices) -> dict[str, list[Value]]:
    """Return the gauges of witnesses; empty where the home has none."""
    up: list[Value] = []
    failing: list[Value] = []
    entries: list[Value] = []
    now = parts.pointsman.clock.now()
    for thread in parts.witnessing:
        witnessing = thread.witnessing
        for state in [*witnessing.witnesses.values()]:
            label = (("witness", state.name),)
            since = state.failing_since
            up.append((label, str(int(not since and state.answered_at > 0))))
            failing.append((label, str((now - since) // SECOND if since else 0)))
        entries += [
            ((("chain", name),), str(witnessing.witnessed_size(name)))
            for name in [*witnessing.chains]
        ]
    return {
        "pointsman_witness_up": up,
        "pointsman_witness_failing_seconds": failing,
        "pointsman_witnessed_entries": entries,
    }


def _provider(name: str) -> Labels:
    return (("provider", name),)


def provider_states(parts: GatewayServices) -> dict[str, int]:
    """Return the state of each provider as LiteLLM counts it: 0, 1 or 2."""
    states: dict[str, int] = {}
    for report in parts.health.reports(parts.pointsman.in_force().ready.models):
        state = HEALTHY
        if report.clears_at is not None:
            state = OUT if report.model is None else PARTLY_OUT
        states[report.provider] = max(states.get(report.provider, HEALTHY), state)
    return states


class OpenApiAnswer(Struct, frozen=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


class HealthAnswer(Struct, frozen=True, omit_defaults=True):
    """The process is there; `worker` is its number where several serve."""

    status: Literal["ok"]
    version: str
    worker: int | UnsetType = UNSET


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
        seat = self._parts.seat
        return HealthAnswer("ok", VERSION, UNSET if seat is None else seat.number)

    async def report_readiness(self, _request: ApiRequest) -> object:
        """Say whether turns can be served, and the problems of any part.

        Ready means: the ledger takes entries, and the gateway was not told to stop.
        """
        parts, pointsman = self._parts, self._parts.pointsman
        ledger = pointsman.decision_recorder.recorder().health
        in_force = pointsman.in_force()
        is_ready = ledger.is_writable and not parts.stopping
        value = ReadinessAnswer(
            "ok" if is_ready else "draining" if parts.stopping else "unavailable",
            LedgerState(ledger.is_writable, hide_addresses(ledger.cause)),
            tuple(str(each) for each in in_force.problems),
            _policy_state(pointsman.files, in_force),
            UNSET if parts.sharing is None else parts.sharing.report(),
        )
        return JsonAnswer(value, 200 if is_ready else 503)

    async def write_metrics(self, request: ApiRequest) -> object:
        """Write the counts for Prometheus; of keys, those that the caller may see."""
        metrics, standing = self._parts.metrics, None
        if self._parts.counts is not None:
            metrics, standing = self._parts.counts.gather()
        gauges = gauge_lines(self._parts, request.caller.reach, standing)
        text = metrics.text() + "\n".join([*gauges, ""])
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
        hide_addresses(trouble) or origin.notice,
    )
