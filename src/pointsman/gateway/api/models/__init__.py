"""Model endpoints, in the vendors' formats."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ALL
from pointsman.gateway.serving.route import BYTES, EVENTS, FORM, JSON, Parameter, Route, declare

_PRINTABLE: Final = {"type": "string", "maxLength": 255, "pattern": "^[ -~]*$"}

CALL_HEADERS: Final = (
    Parameter("x-session-id", "names the conversation within the key", _PRINTABLE, "header"),
    Parameter(
        "x-pointsman-privacy",
        "may only tighten what the key says",
        {"type": "string", "enum": ["local", "cloud", "auto"]},
        "header",
    ),
    Parameter("x-pointsman-workspace", "the folder that rules look at", _PRINTABLE, "header"),
    Parameter("x-pointsman-labels", "labels that items of the request have", _PRINTABLE, "header"),
    Parameter("x-pointsman-agent", "the client that calls", _PRINTABLE, "header"),
    Parameter("traceparent", "a W3C trace that this call belongs to", _PRINTABLE, "header"),
)

CALL_ERRORS: Final = (402, 404, 429, 502, 503, 504)
"""What a model call can end with beside what every route can."""

ANSWER_HEADERS: Final = {
    "x-pointsman-turn": "the turn",
    "x-pointsman-decision": "the decision in force",
    "x-pointsman-requested-model": "the model as the caller named it, percent-encoded",
    "x-pointsman-model": "our id of the model that served",
    "x-pointsman-policy": "the slot that chose it, or `turn_lock`",
    "x-pointsman-rule": "the rule that chose it, percent-encoded; only where one did",
    "x-pointsman-receipt": "where its receipt is; only under `receipts: {in_answers: true}`",
    "x-pointsman-notice": "`turns.choice_rejected` where a model chosen by hand was passed over",
    "x-pointsman-fallback-from": "the models that failed, or were chosen by hand and passed over",
}

_SHAPES: Final = "pointsman.gateway.api.models.shapes"

CALLS: Final = (
    Route(
        "POST",
        "/v1/chat/completions",
        "models",
        ALL,
        "make a chat completion, as OpenAI does; `model: auto` routes",
        answer="pointsman.gateway.api.models.shapes.ChatAnswer",
        body="pointsman.gateway.api.models.shapes.ChatBody",
        also=EVENTS,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="openai",
    ),
    Route(
        "POST",
        "/v1/responses",
        "models",
        ALL,
        "make a response, as OpenAI does",
        answer="pointsman.gateway.api.models.shapes.ResponsesAnswer",
        body="pointsman.gateway.api.models.shapes.ResponsesBody",
        also=EVENTS,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="openai",
    ),
    Route(
        "POST",
        "/v1/messages",
        "models",
        ALL,
        "make a message, as Anthropic does",
        answer="pointsman.gateway.api.models.shapes.MessagesAnswer",
        body="pointsman.gateway.api.models.shapes.MessagesBody",
        also=EVENTS,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="anthropic",
    ),
    *(
        Route(
            "POST",
            f"/v1/{path}",
            "models",
            ALL,
            f"{told} a model that is named; passed through",
            answer=f"{_SHAPES}.{answer}" if answer else "",
            body=f"{_SHAPES}.{body}",
            media=JSON if answer else BYTES,
            body_media=media,
            also=also,
            parameters=CALL_HEADERS,
            errors=CALL_ERRORS,
            shape="openai",
        )
        for path, told, body, answer, media, also in (
            ("embeddings", "embed texts with", "EmbeddingsBody", "EmbeddingsAnswer", JSON, ""),
            (
                "completions",
                "go on with a text, by",
                "CompletionsBody",
                "CompletionsAnswer",
                JSON,
                EVENTS,
            ),
            (
                "images/generations",
                "make pictures with",
                "ImagesBody",
                "ImagesAnswer",
                JSON,
                EVENTS,
            ),
            ("images/edits", "change pictures with", "EditBody", "ImagesAnswer", FORM, EVENTS),
            ("audio/speech", "speak a text with", "SpeechBody", "", JSON, EVENTS),
            (
                "audio/transcriptions",
                "write down what is said with",
                "TranscriptBody",
                "TranscriptAnswer",
                FORM,
                EVENTS,
            ),
            ("moderations", "rate texts by", "ModerationsBody", "ModerationsAnswer", JSON, ""),
            (
                "rerank",
                "order documents by a question with",
                "RerankBody",
                "RerankAnswer",
                JSON,
                "",
            ),
        )
    ),
)
"""Calls of models; `gateway/routes.py` makes their handlers, which are on the hot path."""

ROUTES: Final = (
    *CALLS,
    *declare(
        "models",
        "handlers.ModelApi",
        Route(
            "GET",
            "/v1/models",
            "models",
            ALL,
            "list the models that may be named",
            handler="list_models",
            answer="ModelsAnswer",
            shape="openai",
        ),
        Route(
            "GET",
            "/v1/models/{id}",
            "models",
            ALL,
            "tell about one model",
            handler="show_model",
            answer="ModelCard",
            shape="openai",
        ),
        Route(
            "POST",
            "/v1/messages/count_tokens",
            "models",
            ALL,
            "estimate the tokens of a message",
            handler="count_tokens",
            answer="CountAnswer",
            body="CountBody",
            shape="anthropic",
        ),
    ),
)
