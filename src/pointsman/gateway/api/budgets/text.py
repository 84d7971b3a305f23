"""Changing the budgets in the text of `routing.yaml`, and no other line of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import yaml

from pointsman.turns.policy import GivenBudget

_KEY = "budgets"


def with_budgets(text: str, budgets: Sequence[GivenBudget]) -> str:
    """Return a valid `routing.yaml` with other budgets; comments among the old ones are lost."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return f"{_end_line(text)}schema_version: 1\n{_block(budgets)}"
    for key, value in root.value:
        if key.value == _KEY:
            return _replace(text, root, (key, value), budgets)
    if root.flow_style:
        at = root.start_mark.index + 1
        comma = ", " if root.value else ""
        return f'{text[:at]}"{_KEY}": {_list(budgets)}{comma}{text[at:]}'
    return f"{_end_line(text)}{_block(budgets)}"


def _replace(
    text: str,
    root: yaml.MappingNode,
    member: tuple[yaml.Node, yaml.Node],
    budgets: Sequence[GivenBudget],
) -> str:
    key, value = member
    if root.flow_style:
        return text[: value.start_mark.index] + _list(budgets) + text[value.end_mark.index :]
    start, end = key.start_mark.index, value.end_mark.index
    kept = _end_line(text[start:end]).splitlines(keepends=True)
    # A list ends where the next key begins: what stands between belongs to that key.
    last = max((at for at, line in enumerate(kept) if _says_something(line)), default=0)
    rest = text[end:] if text[start:end].endswith("\n") else text[end:].removeprefix("\n")
    return text[:start] + _block(budgets) + "".join(kept[last + 1 :]) + rest


def _says_something(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


def _block(budgets: Sequence[GivenBudget]) -> str:
    if not budgets:
        return f"{_KEY}: []\n"
    return "".join([f"{_KEY}:\n", *(f"  - {_to_json(each)}\n" for each in budgets)])


def _list(budgets: Sequence[GivenBudget]) -> str:
    return f"[{', '.join(map(_to_json, budgets))}]"


def _to_json(budget: GivenBudget) -> str:
    """Write a budget as JSON, which is YAML; the amount as a text keeps every digit."""
    value = {
        "name": budget.name,
        "limit_usd": f"{budget.limit_usd:f}",
        "per": budget.per,
        "each": budget.each,
    }
    return json.dumps(value, ensure_ascii=False)


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
