"""Workflow decisions and webhooks over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ACTING, ALL
from pointsman.gateway.serving.route import Parameter, Route, declare

_SIGNATURE: Final = Parameter(
    "x-hub-signature-256",
    "`sha256=` and the HMAC-SHA256 of the body under the sensor's secret",
    {"type": "string"},
    "header",
)

ROUTES: Final = (
    *declare(
        "workflows",
        "handlers.WorkflowApi",
        Route(
            "GET",
            "/api/workflow-decisions",
            "read",
            ALL,
            "list the workflow decisions in force",
            handler="list_decisions",
            answer="DefinitionsAnswer",
        ),
        Route(
            "GET",
            "/api/workflow-decisions/{id}",
            "read",
            ALL,
            "tell how a workflow decision is written and what it decided",
            handler="show_decision",
            answer="DefinitionAnswer",
        ),
        Route(
            "GET",
            "/api/workflow-decisions/{id}/lineage",
            "read",
            ALL,
            "tell what evaluations came from and led to",
            handler="show_lineage",
            answer="GraphAnswer",
        ),
        Route(
            "POST",
            "/api/workflow-decisions/{id}/dry-run",
            "act",
            ACTING,
            "evaluate a workflow decision and leave nothing behind",
            handler="dry_run",
            answer="EvaluatedDry",
            body="DryRunBody",
        ),
        Route(
            "DELETE",
            "/api/workflow-decisions/{id}/cache",
            "act",
            ACTING,
            "forget the answers that are kept of a workflow decision",
            handler="clear_cache",
            answer="Forgotten",
        ),
        types="handlers",
    ),
    *declare(
        "workflows",
        "evaluation.EvaluationApi",
        Route(
            "POST",
            "/api/decisions/{id}/evaluate",
            "act",
            ACTING,
            "evaluate a workflow decision; recorded",
            handler="evaluate",
            answer="EvaluateAnswer",
            body="EvaluateBody",
        ),
        types="evaluation",
    ),
    *declare(
        "workflows",
        "hooks.HookApi",
        Route(
            "POST",
            "/hooks/{name}",
            "none",
            ALL,
            "take a webhook for a sensor; its body is signed with the sensor's secret",
            handler="take_hook",
            answer="HookTaken",
            status=202,
            parameters=(_SIGNATURE,),
            errors=(404, 413),
        ),
        types="hooks",
    ),
)
