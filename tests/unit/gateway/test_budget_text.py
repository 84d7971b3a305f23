"""Budgets are changed in the text of the policy, and every other line stays as it is."""

from decimal import Decimal

import pytest

from pointsman.gateway.api.budgets.handlers import with_budgets
from pointsman.turns.policy import GivenBudget, RoutingFile, read_policy
from pointsman.turns.registry.models import NO_MODELS, registry

DAY = GivenBudget("day", Decimal("1.50"))
MONTH = GivenBudget("a 'month' \"é\"", Decimal(20), "month", "key")
MODELS = registry(NO_MODELS, lambda _name: None)

TEXTS = [
    "",
    "# only a comment\n",
    "schema_version: 1\n",
    "schema_version: 1",
    "schema_version: 1  # why\n\n# the default\nglobal_default: embedded:smollm2-135m\n",
    "schema_version: 1\nbudgets: []\n# kept\nglobal_default: embedded:smollm2-135m\n",
    "schema_version: 1\nbudgets:\n- name: old\n  limit_usd: 3\n\n# kept\nrules: []\n",
    "budgets:\n  # lost\n  - {name: old, limit_usd: 3}\nschema_version: 1\n",
    "schema_version: 1\nrules: []\nbudgets:\n  - {name: old, limit_usd: 3}",
    '{"schema_version": 1}',
    '{"schema_version": 1, "budgets": [{"name": "old", "limit_usd": 1}], "rules": []}',
]


def read(text: str) -> RoutingFile:
    return read_policy(text.encode(), "routing.yaml", MODELS, "/")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("budgets", [(), (DAY,), (DAY, MONTH)])
def test_a_text_keeps_all_but_its_budgets(text: str, budgets: tuple[GivenBudget, ...]) -> None:
    changed = with_budgets(text, budgets)
    found = read(changed)
    assert found.budgets == budgets
    assert ("# kept" in changed) == ("# kept" in text)
    assert with_budgets(changed, budgets) == changed
    if "schema_version" in text:
        before = read(text)
        assert (found.rules, found.global_default) == (before.rules, before.global_default)
