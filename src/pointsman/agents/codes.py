"""The codes of agent routing, each with the sentence the documentation shows."""

from __future__ import annotations

from typing import Final, Literal

from pointsman.kernel.codes import Meaning


class Excluded(Meaning):
    """Why a module was not scored; the first check it failed."""

    FAILED_BEFORE = "agents.failed_before", "it took this job in an earlier attempt and failed"
    UNKNOWN_NODE = "agents.unknown_node", "no module of the snapshot goes by this name"
    NOT_PERMITTED = "agents.not_permitted", "the user's role may not use it"
    FORBIDDEN_ACTION = "agents.forbidden_action", "its policy forbids what the job needs"
    ACTION_NOT_ALLOWED = "agents.action_not_allowed", "its policy allows other actions only"
    OFFLINE = "agents.offline", "it is offline"
    QUARANTINED = "agents.quarantined", "it is quarantined"
    LOW_AVAILABILITY = "agents.low_availability", "its availability is below `min_availability`"
    BEYOND_TOP_N = "agents.beyond_top_n", "`top_n` allowed modules have more trust"
    KEPT_AS_FALLBACK = "agents.kept_as_fallback", "a fallback is asked only when no one else will"


class ReasonTag(Meaning):
    """The basis of a candidate's score."""

    MATCH_GOAL = "match_goal", "it serves an active goal"
    AVAILABILITY = "availability", "its trust and status, without an active goal it serves"
    DEPENDENCY_UNHEALTHY = (
        "dependency_unhealthy",
        "its availability is cut: something it needs is not healthy",
    )
    BELOW_MIN_SCORE = "below_min_score", "it is allowed, but scores below `min_score`"
    FALLBACK_GENERIC = "fallback_generic", "nobody reached `min_score`; the fallback takes it"


class DepthReason(Meaning):
    """The reason for the depth of a job."""

    ATTENTION = "attention", "the whole part of attention times the deepest allowed"
    QUICK_MODE = "quick_mode", "attention is below `quick_attention`"
    LOW_TOKEN_BUDGET = "low_token_budget", "the token budget is below `min_token_threshold`"
    FALLBACK = "fallback_generic", "a fallback answers without going deep"
    NO_AGENT = "no_agent", "nobody takes the job"


class Cause(Meaning):
    """Why no agent takes a job."""

    NONE = "", "somebody takes it"
    PRIVACY = "agents.privacy", "the query holds what must not be routed"
    ATTEMPTS_EXHAUSTED = "agents.attempts_exhausted", "`max_attempts` agents have failed"
    NO_CANDIDATE = "agents.no_candidate", "no module was there to be asked"
    NONE_ALLOWED = "agents.none_allowed", "every module was excluded, and no fallback is allowed"
    NONE_SCORED = "agents.none_scored", "nobody reached `min_score`, and no fallback is allowed"


ErrorCode = Literal["", "ROUTER_NO_MATCH", "PRIVACY_BLOCKED"]

USER_MESSAGES: Final[dict[str, str]] = {
    "ROUTER_NO_MATCH": "No module is available for this kind of request.",
    "ROUTER_NO_SNAPSHOT": "The state this request refers to does not exist.",
    "PRIVACY_BLOCKED": "Sensitive personal data cannot be processed, stored or repeated.",
    "PERMISSION_DENIED": "You are not allowed to do this.",
}
"""One fixed sentence a code, for users (companion §4.5)."""
