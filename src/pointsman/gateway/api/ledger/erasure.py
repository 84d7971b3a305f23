"""Erasing text over HTTP: for the admin token and admins' keys only."""

from __future__ import annotations

from msgspec import Struct

from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.operations.erasure.erase import ErasureReport
from pointsman.operations.erasure.scope import ErasureScope, What


class EraseBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose text goes; with `dry_run`, tell what would go and change nothing."""

    what: What
    value: str
    dry_run: bool = False


class ErasureApi:
    """Serves erasures."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def erase(self, request: ApiRequest) -> ErasureReport:
        """Erase what a scope reaches; gone from every store when the answer comes."""
        given = request.body_as(EraseBody)
        scope, by = ErasureScope(given.what, given.value), request.caller.key_id or "admin"
        eraser = self._parts.pointsman.eraser
        if given.dry_run:
            plan = await in_thread(lambda: eraser.plan(scope))
            return ErasureReport(plan, is_done=False)
        return await in_thread(lambda: eraser.erase(scope, by))
