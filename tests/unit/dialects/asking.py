"""Requests read from a dialect's words, and written in them."""

import json

from tests.unit.dialects import sdk
from tests.unit.dialects.values import MODELS

from pointsman.providers.messages import ChatMessage, ModelRequest, Text
from pointsman.providers.registry.dialects import speaker

ASK = {"role": "user", "content": "q"}


def read(dialect, **fields):
    key = "input" if dialect == "responses" else "messages"
    return speaker(dialect).read_request(json.dumps({"model": "m", key: [ASK], **fields}).encode())


def written(dialect, request, model=None):
    found = speaker(dialect).write_request(request, model or MODELS[dialect])
    sdk.check_request(dialect, found.body)
    return json.loads(found.body), {each.what for each in found.lost}


def user(*blocks):
    return ChatMessage("user", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def ask(*messages, **fields):
    return ModelRequest(messages=messages or (user("q"),), **fields)
