"""Budgets and costs over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ADMINS, ALL
from pointsman.gateway.serving.route import Route, declare

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
        "tell what was spent",
        handler="show_cost",
        answer="CostAnswer",
    ),
    types="handlers",
)
