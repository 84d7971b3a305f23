"""Recorded turns over HTTP."""

from __future__ import annotations

from typing import Final, get_args

from pointsman.access.roles import ACTING, ALL, AUDITING
from pointsman.audit.receipts.shapes import Disclosure
from pointsman.gateway.serving.route import BEFORE, LIMIT, SINCE, Parameter, Route, declare
from pointsman.kernel.schema_tree import Schema
from pointsman.turns.story.turn_story import TurnState

_TEXT: Final[Schema] = {"type": "string", "maxLength": 1000}

TURN_FILTERS: Final = (
    LIMIT,
    BEFORE,
    Parameter("cursor", "where the last page ended: its `next`", _TEXT),
    Parameter("model", "only turns this model was chosen for", _TEXT),
    Parameter("policy", "only turns that this slot chose", _TEXT),
    Parameter("rule", "only turns that this rule chose", _TEXT),
    Parameter("session", "only turns of this session", _TEXT),
    Parameter("workspace", "only turns of this workspace", _TEXT),
    Parameter("digest", "only turns whose message has this digest", _TEXT),
    Parameter("text", "only turns whose message is exactly this", {"type": "string"}),
    Parameter("min_cost_usd", "only turns that cost at least this", _TEXT),
    Parameter(
        "state", "only turns that came to this", {"type": "string", "enum": [*get_args(TurnState)]}
    ),
)

DISCLOSE: Final = Parameter(
    "disclose",
    "how much it tells: everything, what decided beside salted commitments, or the outcome alone",
    {"type": "string", "enum": [*get_args(Disclosure)], "default": "full"},
)

ROUTES: Final = (
    *declare(
        "turns",
        "handlers.TurnApi",
        Route(
            "GET",
            "/api/turns",
            "read",
            ALL,
            "list the latest turns",
            handler="list_turns",
            answer="TurnsAnswer",
            parameters=TURN_FILTERS,
        ),
        Route(
            "GET",
            "/api/turns/{id}",
            "read",
            ALL,
            "tell what happened in a turn, and why; by the id of the turn, of any decision or call "
            "of it, or `last`",
            handler="show_turn",
            answer="pointsman.audit.turn_shapes.TurnAnswer",
        ),
        Route(
            "GET",
            "/api/turns/{id}/record",
            "read",
            ALL,
            "tell all that is recorded about a turn: facts, policy, calls",
            handler="show_record",
            answer="RecordAnswer",
        ),
        Route(
            "GET",
            "/api/turns/{id}/receipt",
            "read",
            ALL,
            "send the signed receipt of a turn, from which its decision can be derived again",
            handler="show_receipt",
            answer="pointsman.audit.receipts.shapes.TurnReceipt",
            parameters=(DISCLOSE,),
        ),
        Route(
            "POST",
            "/api/turns/{id}/replay",
            "act",
            AUDITING,
            "re-run the decisions about a turn, and show where they differ",
            handler="replay_turn",
            answer="ReplayedAnswer",
        ),
        Route(
            "GET",
            "/api/filters",
            "read",
            ALL,
            "tell which values turns can be filtered by",
            handler="list_filters",
            answer="FiltersAnswer",
        ),
    ),
    *declare(
        "turns",
        "overview.OverviewApi",
        Route(
            "GET",
            "/api/overview",
            "read",
            ALL,
            "tell how the last day went: turns, costs, models",
            handler="show_overview",
            answer="OverviewAnswer",
        ),
        Route(
            "GET",
            "/api/learning",
            "read",
            ALL,
            "tell what learning chose in a span of time, and about how much it saved; without "
            "`since`, in the last 30 days",
            handler="show_learning",
            answer="LearningAnswer",
            parameters=(SINCE, BEFORE),
        ),
        Route(
            "GET",
            "/api/performance",
            "read",
            ALL,
            "tell how the turns of a span of time went, by model and provider: errors, percentiles "
            "of the time taken and of the first byte; without `since`, of the last day",
            handler="show_performance",
            answer="PerformanceAnswer",
            parameters=(SINCE, BEFORE),
        ),
    ),
    *declare(
        "turns",
        "feedback.FeedbackApi",
        Route(
            "POST",
            "/api/feedback",
            "act",
            ACTING,
            "say how good a turn was",
            handler="record_feedback",
            answer="FeedbackAnswer",
            body="FeedbackBody",
            errors=(404,),
        ),
    ),
    *declare(
        "turns",
        "preview.PreviewApi",
        Route(
            "POST",
            "/api/route/preview",
            "act",
            ACTING,
            "decide a turn on given facts, without `availability` under the health of now; "
            "recorded as a preview, calls nobody",
            handler="preview_route",
            answer="pointsman.audit.turn_shapes.RouteDecided",
            body="pointsman.turns.facts.GivenFacts",
        ),
        Route(
            "POST",
            "/api/place",
            "act",
            ACTING,
            "decide whether a question may leave this machine",
            handler="place_question",
            answer="PlacementAnswer",
            body="pointsman.placement.facts.GivenPlacement",
        ),
    ),
)
