"""Models as the vendors list them, and counts of tokens."""

from __future__ import annotations

from typing import Final

from pointsman.access.keys import Principal
from pointsman.errors import NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.services import GatewayServices
from pointsman.providers.dialects.look import look
from pointsman.signals.tokens import count_tokens
from pointsman.turns.registry.models import Model, provider_of


class ModelApi:
    """Serves the list of models."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def list_models(self, request: ApiRequest) -> object:
        """List the models a caller may name."""
        return {"object": "list", "data": self._model_values(request.caller)}

    async def show_model(self, request: ApiRequest) -> object:
        """Tell about one model."""
        name = request.part("id")
        found = [each for each in self._model_values(request.caller) if each["id"] == name]
        if not found:
            raise NotFound(f"the model `{name}` is not known here")
        return found[0]

    def _model_values(self, caller: Principal) -> list[dict[str, object]]:
        known = self._parts.pointsman.in_force().ready.models
        names = [
            name for name in known if caller.allowed_models is None or name in caller.allowed_models
        ]
        auto: dict[str, object] = {**_CARD, "id": "auto", "owned_by": "pointsman"}
        return [auto, *(_model_card(name, known[name]) for name in names)]

    async def count_tokens(self, request: ApiRequest) -> object:
        """Count the tokens of a request in Anthropic's shape; an estimate, as everywhere here."""
        seen = look("messages", request.asked.body, self._parts.memos)
        return {"input_tokens": seen.tokens(count_tokens)}


_CARD: Final = {"object": "model", "created": 0}


def _model_card(name: str, model: Model) -> dict[str, object]:
    limits = {
        "context_length": model.capabilities.max_context_tokens,
        "max_output_tokens": model.capabilities.max_output_tokens,
    }
    known = {key: value for key, value in limits.items() if value is not None}
    return {**_CARD, "id": name, "owned_by": provider_of(name), **known}
