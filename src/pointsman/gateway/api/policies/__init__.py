"""Policy files over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ACTING, ADMINS, ALL
from pointsman.gateway.serving.route import YAML, Route, declare

ROUTES: Final = (
    *declare(
        "policies",
        "files.PolicyFileApi",
        Route(
            "GET",
            "/api/policies/{name}",
            "admin",
            ADMINS,
            "give a policy file as it stands",
            handler="show_policy",
            answer="PolicyAnswer",
        ),
        Route(
            "PUT",
            "/api/policies/{name}",
            "admin",
            ADMINS,
            "replace a policy file, if what is sent is valid",
            handler="replace_policy",
            answer="PolicyWritten",
            body="str",
            body_media=YAML,
        ),
    ),
    *declare(
        "policies",
        "handlers.PolicyApi",
        Route(
            "GET",
            "/api/rules",
            "read",
            ALL,
            "list the rules in force, how often each chose, and what is wrong with it",
            handler="list_rules",
            answer="RulesAnswer",
        ),
        Route(
            "POST",
            "/api/policies/{name}/check",
            "act",
            ACTING,
            "check a policy file that is being written",
            handler="check_policy",
            answer="CheckAnswer",
            body="CheckBody",
        ),
        Route(
            "POST",
            "/api/policies/{name}/difference",
            "act",
            ACTING,
            "tell every kind of turns that a policy being written decides differently",
            handler="compare_policy",
            answer="DifferenceAnswer",
            body="DifferenceBody",
        ),
        Route(
            "POST",
            "/api/policies/{name}/try",
            "act",
            ACTING,
            "decide a turn under a policy that is being written; records nothing",
            handler="try_policy",
            answer="pointsman.audit.turn_shapes.RouteDecided",
            body="TryBody",
        ),
    ),
)
