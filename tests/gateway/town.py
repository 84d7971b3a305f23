"""What the tests of the API share: an upstream with OpenAI's other endpoints, and an admin."""

from __future__ import annotations

from collections.abc import Sequence

from tests.gateway.house import ADMIN_TOKEN

from pointsman.testing.upstream_replies import (
    Received,
    SendBytes,
    Step,
    json_answer,
    says,
    stream_answer,
)

ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def anything(request: Received) -> Sequence[Step]:
    """Answer whatever is asked for."""
    if request.operation == "embeddings":
        return [SendBytes(json_answer(embedding(request)))]
    if request.operation == "completions":
        whole = completion(request)
        if request.is_stream:
            return [SendBytes(stream_answer([event(whole), b"data: [DONE]\n\n"]))]
        return [SendBytes(json_answer(whole))]
    return says("hello from the script")(request)


def embedding(request: Received) -> dict[str, object]:
    data = [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    return {"object": "list", "data": data, "model": request.json["model"], "usage": usage}


def completion(request: Received) -> dict[str, object]:
    choice = {"text": " there", "index": 0, "finish_reason": "stop", "logprobs": None}
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": request.json["model"],
        "choices": [choice],
        "usage": USAGE,
    }


def event(value: object) -> bytes:
    import json

    return b"data: " + json.dumps(value).encode() + b"\n\n"
