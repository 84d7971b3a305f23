"""The models of the document's examples, and a policy over them."""

from __future__ import annotations

from typing import Any

import msgspec

from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.policy import read_policy, turn_policy
from pointsman.turns.registry.models import read_models, registry

HAIKU = "anthropic:claude-haiku-4-5"
SONNET = "anthropic:claude-sonnet-4-6"
OPUS = "anthropic:claude-opus-4-7"
PRICE = {"input": "1", "output": "5"}


def a_model(
    tier: str, alias: str, *, sees: bool = True, delegates: bool = False, **more: Any
) -> Any:
    able = {"supports_images": sees, "supports_structured_output": True, **more}
    return {
        "location": "cloud",
        "tier": tier,
        "aliases": [alias],
        "can_delegate": delegates,
        "capabilities": able,
        "price": PRICE,
    }


MODELS: Any = {
    "schema_version": 1,
    "providers": {"anthropic": {"kind": "anthropic"}},
    "models": {
        HAIKU: a_model("fast", "haiku", sees=False),
        SONNET: a_model("balanced", "sonnet", delegates=True),
        OPUS: a_model("deep", "opus", delegates=True),
    },
}


def a_policy(routing: Any = None, models: Any = MODELS) -> CompiledTurnPolicy:
    known = registry(read_models(msgspec.json.encode(models), "models.yaml"), lambda _name: None)
    if routing is None:
        routing = {"schema_version": 1, "global_default": OPUS}
    read = read_policy(msgspec.json.encode(routing), "routing.yaml", known, "/")
    return compile_policy(turn_policy(read, known, "/"))
