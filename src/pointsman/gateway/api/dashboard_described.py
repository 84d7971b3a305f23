"""The dashboard's routes in words and types."""

from __future__ import annotations

from typing import Final, get_args

from pointsman.audit.turn_shapes import RouteDecided
from pointsman.bulk import view as bulk_view
from pointsman.gateway.api.agents import history as agent_history
from pointsman.gateway.api.dashboard import shapes as dashboard_shapes
from pointsman.gateway.api.dashboard.login import LoginBody
from pointsman.gateway.api.description import BEFORE, LIMIT, Description, Key, Parameter
from pointsman.gateway.api.ledger import chains as ledger_api
from pointsman.gateway.api.policies import shapes as policy_shapes
from pointsman.gateway.api.turns import shapes as turn_shapes
from pointsman.gateway.api.workflows import handlers as workflow_api
from pointsman.kernel.schema import Schema
from pointsman.turns.story.turn_story import TurnState

HTML: Final = "text/html"
ANY: Final = "application/octet-stream"
PNG: Final = "image/png"

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

DASHBOARD: Final[dict[Key, Description]] = {
    ("GET", "/"): Description("give the dashboard", "none", media=HTML),
    ("GET", "/assets/{name}"): Description("give a file of the dashboard", "none", media=ANY),
    ("GET", "/api/me"): Description(
        "tell who asks, and what they may do", "none", dashboard_shapes.Me
    ),
    ("POST", "/api/login"): Description(
        "log in at the dashboard with a key or the admin token",
        "none",
        dashboard_shapes.LoggedIn,
        LoginBody,
    ),
    ("POST", "/api/logout"): Description(
        "end a login at the dashboard", "none", dashboard_shapes.LoggedOut
    ),
    ("GET", "/api/help"): Description(
        "list the pages of the documentation", "none", dashboard_shapes.HelpPages
    ),
    ("GET", "/api/help/pages/{name}"): Description(
        "give a page of the documentation", "none", dashboard_shapes.HelpPage
    ),
    ("GET", "/api/help/pictures/{name}"): Description(
        "give a picture of the documentation", "none", media=PNG
    ),
    ("GET", "/api/filters"): Description(
        "tell which values turns can be filtered by", "read", turn_shapes.FiltersAnswer
    ),
    ("GET", "/api/turns/{id}/record"): Description(
        "tell all that is recorded about a turn: facts, policy, calls",
        "read",
        turn_shapes.RecordAnswer,
    ),
    ("POST", "/api/turns/{id}/replay"): Description(
        "re-run the decisions about a turn, and show where they differ",
        "act",
        turn_shapes.ReplayedAnswer,
    ),
    ("GET", "/api/overview"): Description(
        "tell how the last day went: turns, costs, models", "read", turn_shapes.OverviewAnswer
    ),
    ("GET", "/api/sessions/{id}"): Description(
        "tell what a session and its workers did and cost", "read", turn_shapes.SessionAnswer
    ),
    ("GET", "/api/rules"): Description(
        "list the rules in force, how often each chose, and what is wrong with it",
        "read",
        policy_shapes.RulesAnswer,
    ),
    ("POST", "/api/policies/{name}/check"): Description(
        "check a policy file that is being written",
        "act",
        policy_shapes.CheckAnswer,
        policy_shapes.CheckBody,
    ),
    ("POST", "/api/policies/{name}/try"): Description(
        "decide a turn under a policy that is being written; records nothing",
        "act",
        RouteDecided,
        policy_shapes.TryBody,
    ),
    ("GET", "/api/workflow-decisions"): Description(
        "list the workflow decisions in force", "read", workflow_api.DefinitionsAnswer
    ),
    ("GET", "/api/workflow-decisions/{id}"): Description(
        "tell how a workflow decision is written and what it decided",
        "read",
        workflow_api.DefinitionAnswer,
    ),
    ("GET", "/api/workflow-decisions/{id}/lineage"): Description(
        "tell what evaluations came from and led to", "read", workflow_api.GraphAnswer
    ),
    ("POST", "/api/workflow-decisions/{id}/dry-run"): Description(
        "evaluate a workflow decision and leave nothing behind",
        "act",
        workflow_api.EvaluatedDry,
        workflow_api.DryRunBody,
    ),
    ("DELETE", "/api/workflow-decisions/{id}/cache"): Description(
        "forget the answers that are kept of a workflow decision", "act", workflow_api.Forgotten
    ),
    ("GET", "/api/ledger"): Description(
        "tell which chains the ledger has, and how far they are signed",
        "read",
        ledger_api.LedgerAnswer,
    ),
    ("GET", "/api/bulk"): Description(
        "list the jobs of bulk work, and how far each is", "read", bulk_view.BulkAnswer
    ),
    ("GET", "/api/bulk/{id}"): Description(
        "tell how far a job of bulk work is, and what came of it", "read", bulk_view.BulkJobAnswer
    ),
    ("GET", "/api/agents/history"): Description(
        "tell how the trust in agents went, and which jobs ran", "read", agent_history.AgentHistory
    ),
}
"""Every route that the dashboard brought along."""
