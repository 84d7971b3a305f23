"""Every route in words and types: the table that `/openapi.json` and the HTTP page are made from.

A test holds it against what is served.
"""

from __future__ import annotations

from typing import Final

from pointsman.audit.turn_shapes import RouteDecided, TurnAnswer
from pointsman.gateway.api import admin_shapes, shapes
from pointsman.gateway.api.agents_described import ACTIONS, AGENTS, JOBS
from pointsman.gateway.api.dashboard_described import DASHBOARD, TURN_FILTERS
from pointsman.gateway.api.description import (
    BEFORE,
    CALL_ERRORS,
    CALL_HEADERS,
    EVENTS,
    LIMIT,
    LINES,
    SINCE,
    TEXT,
    YAML,
    Description,
    Key,
    Parameter,
)
from pointsman.gateway.api.keys.handlers import GivenKey
from pointsman.gateway.api.ledger import shapes as audit_shapes
from pointsman.gateway.api.mcp.shapes import RpcAnswer, RpcBody
from pointsman.gateway.api.models import shapes as vendor_shapes
from pointsman.gateway.api.turns.shapes import TurnsAnswer
from pointsman.gateway.api.workflows.evaluation import EvaluateAnswer, EvaluateBody
from pointsman.gateway.api.workflows.hooks import HookTaken
from pointsman.placement.facts import GivenPlacement
from pointsman.turns.facts import GivenFacts

_ROOM: Final = Parameter(
    "kind",
    "only decisions of this room",
    {"type": "string", "enum": ["turn", "placement", "agent", "branch"]},
)

_SIGNATURE: Final = Parameter(
    "x-hub-signature-256",
    "`sha256=` and the HMAC-SHA256 of the body under the sensor's secret",
    {"type": "string"},
    "header",
)

CALLS: Final[dict[Key, Description]] = {
    ("POST", "/v1/chat/completions"): Description(
        "make a chat completion, as OpenAI does; `model: auto` routes",
        "models",
        vendor_shapes.ChatAnswer,
        vendor_shapes.ChatBody,
        also=EVENTS,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="openai",
    ),
    ("POST", "/v1/responses"): Description(
        "make a response, as OpenAI does",
        "models",
        vendor_shapes.ResponsesAnswer,
        vendor_shapes.ResponsesBody,
        also=EVENTS,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="openai",
    ),
    ("POST", "/v1/messages"): Description(
        "make a message, as Anthropic does",
        "models",
        vendor_shapes.MessagesAnswer,
        vendor_shapes.MessagesBody,
        also=EVENTS,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="anthropic",
    ),
    ("POST", "/v1/embeddings"): Description(
        "embed texts with a model that is named; passed through",
        "models",
        vendor_shapes.EmbeddingsAnswer,
        vendor_shapes.EmbeddingsBody,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="openai",
    ),
    ("POST", "/v1/completions"): Description(
        "go on with a text, by a model that is named; passed through",
        "models",
        vendor_shapes.CompletionsAnswer,
        vendor_shapes.CompletionsBody,
        also=EVENTS,
        parameters=CALL_HEADERS,
        errors=CALL_ERRORS,
        shape="openai",
    ),
}

DESCRIBED: Final[dict[Key, Description]] = {
    **CALLS,
    ("POST", "/v1/messages/count_tokens"): Description(
        "estimate the tokens of a message",
        "models",
        vendor_shapes.CountAnswer,
        vendor_shapes.CountBody,
        shape="anthropic",
    ),
    ("GET", "/v1/models"): Description(
        "list the models that may be named",
        "models",
        vendor_shapes.ModelsAnswer,
        shape="openai",
    ),
    ("GET", "/v1/models/{id}"): Description(
        "tell about one model", "models", vendor_shapes.ModelCard, shape="openai"
    ),
    ("GET", "/health"): Description("say that the process is there", "none", shapes.HealthAnswer),
    ("GET", "/health/readiness"): Description(
        "say whether turns can be served", "none", shapes.ReadinessAnswer, errors=(503,)
    ),
    ("GET", "/metrics"): Description("give the counts for Prometheus", "read", media=TEXT),
    ("GET", "/openapi.json"): Description("describe every route", "none", shapes.OpenApiAnswer),
    ("GET", "/api/turns"): Description(
        "list the latest turns", "read", TurnsAnswer, parameters=TURN_FILTERS
    ),
    ("GET", "/api/turns/{id}"): Description(
        "tell what happened in a turn, and why; by the id of the turn, of any decision or call of "
        "it, or `last`",
        "read",
        TurnAnswer,
    ),
    ("GET", "/api/decisions"): Description(
        "list the latest decisions of any kind",
        "read",
        shapes.DecisionsAnswer,
        parameters=(_ROOM, LIMIT, SINCE, BEFORE),
    ),
    ("POST", "/api/decisions/{id}/evaluate"): Description(
        "evaluate a workflow decision; recorded", "act", EvaluateAnswer, EvaluateBody
    ),
    ("POST", "/mcp"): Description(
        "speak MCP: tools, resources and prompts for agents",
        "any",
        RpcAnswer,
        RpcBody,
        also=EVENTS,
        bare=202,
        errors=(404, 406, 501),
        shape="rpc",
    ),
    ("POST", "/hooks/{name}"): Description(
        "take a webhook for a sensor; its body is signed with the sensor's secret",
        "none",
        HookTaken,
        status=202,
        parameters=(_SIGNATURE,),
        errors=(404, 413),
    ),
    ("GET", "/api/sessions"): Description(
        "list the latest sessions", "read", shapes.SessionsAnswer, parameters=(LIMIT,)
    ),
    ("POST", "/api/sessions/{id}/pin"): Description(
        "bind a session to a model until it is unpinned", "act", shapes.PinAnswer, shapes.PinBody
    ),
    ("DELETE", "/api/sessions/{id}/pin"): Description(
        "let a session go from its model", "act", shapes.PinAnswer
    ),
    ("POST", "/api/sessions/{id}/clear-taint"): Description(
        "let a session leave this machine again; recorded with the reason",
        "act",
        shapes.ClearTaintAnswer,
        shapes.ClearTaintBody,
    ),
    ("GET", "/api/providers"): Description(
        "tell which providers and models are out, and what their limits leave",
        "read",
        shapes.ProvidersAnswer,
    ),
    ("POST", "/api/providers/clear"): Description(
        "end the outage of a provider or a model, for all processes of the home; recorded",
        "act",
        shapes.ClearProviderAnswer,
        shapes.ClearProviderBody,
        errors=(404,),
    ),
    ("GET", "/api/cost"): Description("tell what was spent", "read", shapes.CostAnswer),
    ("GET", "/api/events"): Description(
        "follow what is recorded, live; never any text of a message", "read", media=EVENTS
    ),
    ("GET", "/api/audit/egress"): Description(
        "tell what left this machine, under which rule",
        "read",
        audit_shapes.EgressAnswer,
        parameters=(SINCE,),
    ),
    ("POST", "/api/feedback"): Description(
        "say how good a turn was", "act", shapes.FeedbackAnswer, shapes.FeedbackBody, errors=(404,)
    ),
    ("POST", "/api/route/preview"): Description(
        "decide a turn on given facts, without `availability` under the health of now; recorded as "
        "a preview, calls nobody",
        "act",
        RouteDecided,
        GivenFacts,
    ),
    ("POST", "/api/place"): Description(
        "decide whether a question may leave this machine",
        "act",
        shapes.PlacementAnswer,
        GivenPlacement,
    ),
    ("POST", "/api/replay"): Description(
        "re-run recorded decisions and compare their bytes",
        "act",
        audit_shapes.ReplayAnswer,
        parameters=(SINCE,),
    ),
    ("POST", "/api/backtest"): Description(
        "decide recorded turns again under another policy; records nothing",
        "act",
        audit_shapes.BacktestAnswer,
        audit_shapes.BacktestBody,
        also=EVENTS,
    ),
    ("POST", "/api/verify"): Description(
        "check the whole ledger", "act", audit_shapes.VerifyAnswer
    ),
    ("POST", "/api/export"): Description(
        "download the ledger as a signed bundle for another machine", "admin", media=LINES
    ),
    ("GET", "/api/policies/{name}"): Description(
        "give a policy file as it stands", "admin", admin_shapes.PolicyAnswer
    ),
    ("PUT", "/api/policies/{name}"): Description(
        "replace a policy file, if what is sent is valid",
        "admin",
        admin_shapes.PolicyWritten,
        str,
        body_media=YAML,
    ),
    ("GET", "/api/keys"): Description("list the keys", "admin", admin_shapes.KeysAnswer),
    ("POST", "/api/keys"): Description(
        "make a key; its secret is in this answer only",
        "admin",
        admin_shapes.KeyMade,
        GivenKey,
        status=201,
    ),
    ("DELETE", "/api/keys/{id}"): Description("end a key", "admin", admin_shapes.KeyRow),
    ("GET", "/api/budgets"): Description(
        "tell how the budgets stand", "read", admin_shapes.BudgetsAnswer
    ),
    ("POST", "/api/budgets"): Description(
        "write a budget into routing.yaml",
        "admin",
        admin_shapes.BudgetsAnswer,
        admin_shapes.BudgetBody,
    ),
    ("DELETE", "/api/budgets/{name}"): Description(
        "take a budget out of routing.yaml", "admin", admin_shapes.BudgetsAnswer
    ),
    **DASHBOARD,
    **AGENTS,
    **ACTIONS,
    **JOBS,
}
