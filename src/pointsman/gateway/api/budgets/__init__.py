"""Budgets and costs over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ADMINS, ALL
from pointsman.gateway.serving.route import Parameter, Route, declare, instant
from pointsman.kernel.schema_tree import Schema

_NAME: Final[Schema] = {"type": "string", "maxLength": 1000}

ROUTES: Final = declare(
    "budgets",
    "handlers.BudgetApi",
    Route(
        "GET",
        "/api/budgets",
        "read",
        ALL,
        "tell how the budgets stand",
        handler="list_budgets",
        answer="BudgetsAnswer",
    ),
    Route(
        "POST",
        "/api/budgets",
        "admin",
        ADMINS,
        "write a budget into routing.yaml",
        handler="write_budget",
        answer="BudgetsAnswer",
        body="BudgetBody",
    ),
    Route(
        "DELETE",
        "/api/budgets/{name}",
        "admin",
        ADMINS,
        "take a budget out of routing.yaml",
        handler="remove_budget",
        answer="BudgetsAnswer",
    ),
    Route(
        "GET",
        "/api/cost",
        "read",
        ALL,
        "tell what was spent, by model, key, session, workspace, day and tenant",
        handler="show_cost",
        answer="CostAnswer",
        parameters=(
            instant("since", "only from the day of this instant on (RFC 3339), in UTC"),
            instant("before", "only days that began before this instant, in UTC"),
            Parameter("key", "only what this key spent", _NAME),
            Parameter("session", "only what this session spent", _NAME),
            Parameter("tenant", "only what this tenant spent", _NAME),
        ),
    ),
    types="handlers",
)
