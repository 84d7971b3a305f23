"""A home with a local and a cloud model, and placements asked of it."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from pointsman import GivenFacts, Pointsman, Shown
from pointsman.kernel.json_text import read_json
from pointsman.placement.facts import PlacementFacts, read_facts
from pointsman.placement.policy import BUILT_IN
from pointsman.storage.stores.entries import LedgerReader

MODELS = (
    "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
    "models: {'acme:big': {location: cloud, aliases: [big]}}\n"
)
ROUTING = (
    "schema_version: 1\nglobal_default: embedded:smollm2-135m\n"
    "rules: [{name: all, when: {has_images: false}, use: 'acme:big'}]\n"
)
IBAN = "please pay to DE89 3704 0044 0532 0130 00 today"
LOCAL = "embedded:smollm2-135m"


def written(home: Path, **table: object) -> None:
    """Write a home whose turns go to the cloud unless something keeps them."""
    home.mkdir(exist_ok=True)
    (home / "models.yaml").write_text(MODELS)
    (home / "routing.yaml").write_text(ROUTING)
    value = json.loads(msgspec.json.encode(BUILT_IN)) | table
    (home / "placement.yaml").write_text(json.dumps(value))


def a_turn(pointsman: Pointsman, message: str = "hello", session: str = "s", **given: Any) -> Shown:
    is_preview = given.pop("is_preview", False)
    facts = pointsman.given_facts(GivenFacts(message, **given))
    return pointsman.route(facts, session_id=session, is_preview=is_preview)


def given_facts(content: str = "hello", **changes: Any) -> bytes:
    question = {
        "id": "q", "session_id": "s", "content": content, "privacy_level": "auto",
        "timestamp": "2026-11-15T14:05:00Z",
    }  # fmt: skip
    local = {"model_name": "o:l", "supported_intents": [], "available": True}
    value = {
        "question": question | changes.pop("question", {}),
        "state": {
            "local_model": local, "cloud_model": {"model_name": "c:m"}, "network_state": "online",
        } | changes.pop("state", {}),
        **changes,
    }  # fmt: skip
    return json.dumps(value).encode()


def placement_facts(pointsman: Pointsman, content: str = "hello", **changes: Any) -> PlacementFacts:
    document = read_json(given_facts(content, **changes), "facts")
    return pointsman.placement_facts(read_facts(document))


@contextmanager
def ledger(pointsman: Pointsman) -> Iterator[LedgerReader]:
    with closing(LedgerReader(pointsman.home.database)) as reader:
        yield reader


def kinds(pointsman: Pointsman, prefix: str = "") -> list[str]:
    with ledger(pointsman) as reader:
        return [each.entry.kind for each in reader.of_kind(prefix)]
