"""Receipts of real turns, and ways to change them."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pointsman.app import Pointsman
from pointsman.audit.receipts.shapes import Disclosure
from pointsman.kernel.json_text import read_json
from pointsman.offline_verifier import ENCODER
from pointsman.turns.facts import read_facts

MODELS = {
    "schema_version": 1,
    "providers": {"acme": {"kind": "openai"}, "house": {"kind": "ollama"}},
    "models": {
        "acme:big": {"location": "cloud", "tier": "deep", "price": {"input": 3, "output": 15}},
        "acme:small": {"location": "cloud", "tier": "fast", "price": {"input": 1, "output": 2}},
        "house:llama": {"location": "local", "tier": "balanced"},
    },
}
ROUTING = {
    "schema_version": 1,
    "global_default": ["acme:big", "house:llama"],
    "rules": [
        {"name": "images", "when": {"has_images": True}, "use": "acme:small"},
        {"name": "fixes", "when": {"message_matches": r"(?i)\bfix"}, "use": "acme:small"},
        {"name": "letters", "when": {"message_matches": r"\p{Greek}"}, "use": "acme:small"},
    ],
}
PLACEMENT_RULE = {
    "id": "names",
    "action": "force_local",
    "conditions": [{"field": "content", "operator": "contains", "value": "Smith"}],
}
ROW = {"model": "acme:small", "success": "0.9", "cost_usd": "0.001", "sample_size": 9}
OTHER = {"model": "acme:big", "success": "0.7", "cost_usd": "0.01", "sample_size": 8}
ABLE = {"configured": ["acme:big", "acme:small", "house:llama"]}
TURNS: dict[str, dict[str, Any]] = {
    "rule": {"message": "Fix it — naïve 😀", **ABLE},
    "default": {"message": "hello", "availability": {"acme": "unavailable"}, **ABLE},
    "override": {"message": "@acme:big say hello", **ABLE},
    "pattern": {
        "message": "hello there",
        "pattern_rows": [
            {"fingerprint_id": "f1", "similarity": "0.9", **ROW},
            {"fingerprint_id": "f2", "similarity": "0.8", **OTHER},
        ],
        **ABLE,
    },
    "greek": {"message": "αβγ", **ABLE},
    "nothing": {"message": "hello", "configured": []},
    "placed": {"message": "Mr Smith asks", "privacy_level": "local", **ABLE},
}


class Given(NamedTuple):
    """A receipt, and the message it was given for."""

    data: bytes
    message: bytes


def made_receipts(home: Path) -> dict[str, Given]:
    """Decide the turns, and make every kind of receipt of each."""
    home.mkdir(mode=0o700)
    for name, value in (("models", MODELS), ("routing", ROUTING)):
        (home / f"{name}.yaml").write_text(json.dumps(value))
    turns = {}
    with Pointsman(home) as pointsman:
        for name, facts in TURNS.items():
            read = read_facts(read_json(json.dumps(facts).encode(), "facts"))
            turns[name] = pointsman.route(pointsman.given_facts(read)).turn_id
    with Pointsman(home) as pointsman:
        return {
            f"{name} {disclosure}": Given(
                pointsman.receipt(turn, disclosure), TURNS[name]["message"].encode()
            )
            for name, turn in turns.items()
            for disclosure in get_args(Disclosure)
        }


def mutants(data: bytes, draw: random.Random) -> bytes:
    """Change one thing of a receipt: a byte, or a value that is written canonically again."""
    if draw.randrange(4) == 0:
        at = draw.randrange(len(data))
        byte = draw.choice([each for each in b'0a"{}[],: x' if each != data[at]])
        return data[:at] + bytes([byte]) + data[at + 1 :]
    value = json.loads(data)
    before = copy.deepcopy(value)
    while value == before:
        _change(value, draw)
    return ENCODER.encode(value).encode()


def _change(value: Any, draw: random.Random) -> None:
    """Change one value somewhere below."""
    keys = [*value] if isinstance(value, dict) else [*range(len(value))]
    if not keys:
        return
    key = draw.choice(keys)
    inner = value[key]
    if isinstance(inner, dict | list) and inner and draw.randrange(8):
        _change(inner, draw)
    elif draw.randrange(10) == 0:
        del value[key]
    else:
        value[key] = _other(inner, draw)


def _other(value: Any, draw: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return draw.choice([True, False, None, 0])
    if isinstance(value, int):
        return value + draw.choice([-1, 1, 2**20])
    if isinstance(value, str):
        at = draw.randrange(len(value) + 1)
        return draw.choice(
            [value[:at] + draw.choice("0a}") + value[at + 1 :], value[:at], value + "0", None]
        )
    return draw.choice([None, [], {}, [value]])
