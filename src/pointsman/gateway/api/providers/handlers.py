"""Providers over HTTP: which are out, what their limits leave, ending an outage."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import (
    in_thread,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.operations.providers import ProviderRow, provider_rows, recoveries
from pointsman.turns.registry.provider_state import ProviderRecovered


class RateRow(Struct, frozen=True):
    """What a provider's limits leave right now; none where there is no such limit."""

    provider: str
    rpm: int | None
    tpm: int | None
    requests_left: int | None
    tokens_left: int | None
    free_in_s: float


class ProvidersAnswer(Struct, frozen=True):
    """Every provider and model as it stands."""

    rows: tuple[ProviderRow, ...]
    limits: tuple[RateRow, ...]


class ClearProviderBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose outage is to end: a provider with all its models, or one model."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]


class ClearProviderAnswer(Struct, frozen=True):
    """The scopes that may be called again; none where none was out."""

    name: str
    cleared: tuple[ProviderRecovered, ...]


class ProviderApi:
    """Serves the health of providers."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def list_providers(self, _request: ApiRequest) -> object:
        """Tell which providers and models are out, since when, and until when."""
        parts = self._parts
        reports = parts.health.reports(parts.pointsman.in_force().ready.models)
        rows = provider_rows(reports, parts.pointsman.clock.now())
        return {"rows": rows, "limits": parts.health.rates.rows()}

    async def clear_outage(self, request: ApiRequest) -> object:
        """End the outage of a provider or a model, for all processes of the home."""
        name, pointsman = request.body_as(ClearProviderBody).name, self._parts.pointsman
        changes = await in_thread(lambda: pointsman.clear_outage(name))
        return {"name": name, "cleared": recoveries(changes)}
