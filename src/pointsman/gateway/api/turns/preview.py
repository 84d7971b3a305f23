"""Decisions on facts that a caller wrote: the model of a turn, and whether a question may leave."""

from __future__ import annotations

from msgspec.structs import replace

from pointsman.errors import DocumentError
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import (
    JsonAnswer,
    error_value,
    in_thread,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import instant_text
from pointsman.placement.explain import to_json
from pointsman.placement.facts import read_facts as read_placement_facts
from pointsman.turns.explain import to_json as shown_value
from pointsman.turns.facts import read_facts


class PreviewApi:
    """Decides; no model is called."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def preview_route(self, request: ApiRequest) -> object:
        """Decide a turn on facts a caller wrote; recorded as a preview, no model is called."""
        pointsman = self._parts.pointsman
        document, in_force = request.document(), pointsman.in_force()
        facts = pointsman.given_facts(read_facts(document), in_force=in_force)
        if isinstance(document.value, dict) and "availability" not in document.value:
            facts = replace(facts, availability=self._parts.health.peek())
        shown = await in_thread(
            lambda: pointsman.route(
                facts, is_preview=True, in_force=in_force, tenant=request.caller.tenant
            )
        )
        return shown_value(shown)

    async def place_question(self, request: ApiRequest) -> object:
        """Decide whether a question may leave this machine."""
        pointsman = self._parts.pointsman
        try:
            given = read_placement_facts(request.document())
        except DocumentError as error:
            problems = [str(each) for each in error.problems]
            told = error_value(error, pointsman.ids.new_id(), instant_text(pointsman.clock.now()))
            value = {"error_code": "E-VALID-001", "rule_id": "", "reason": error.message}
            return JsonAnswer({**told, **value, "problems": problems}, 400)
        in_force = pointsman.in_force()
        facts = pointsman.placement_facts(given, in_force=in_force)
        tenant = request.caller.tenant
        shown = await in_thread(lambda: pointsman.place(facts, in_force=in_force, tenant=tenant))
        return to_json(shown)
