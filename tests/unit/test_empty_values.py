"""A key with nothing behind it is refused in every file, wherever it stands, and refused once."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from pointsman.branches.policy import read_policy as read_decisions
from pointsman.errors import DocumentError, Problem
from pointsman.kernel.document import path_text
from pointsman.kernel.yaml_text import read_yaml
from pointsman.operations.rules.cases import read_table
from pointsman.operations.starter import starter_text
from pointsman.placement.policy import read_policy
from pointsman.storage.policies.agents_file import read_agents
from pointsman.storage.policies.sensor_file import read_sensors
from pointsman.storage.policies.settings import read_settings
from pointsman.storage.policies.workflow_file import read_workflow
from pointsman.turns.policy import read_policy as read_routing
from pointsman.turns.registry.models import NO_MODELS, read_models, registry
from pointsman.turns.rules.condition import When

EXAMPLES = Path(__file__).parents[2] / "examples"
KNOWN = registry(NO_MODELS, lambda _name: None)
LOCAL = "embedded:smollm2-135m"

PREDICATES: dict[str, Any] = {
    "message_matches": "x",
    "message_contains_any": ["x"],
    "estimated_input_tokens_gt": 1,
    "estimated_input_tokens_lt": 9,
    "has_images": True,
    "has_tool_calls_in_history": True,
    "skills_matching_message_includes": "x",
    "file_extensions_in_context": [".sql"],
    "workspace_path_matches": "/w",
    "time_of_day_between": ["22:00", "06:00"],
    "cost_today_exceeds_usd": 5,
    "team_budget_remaining_lt": 5,
    "key_is": "ci",
    "tenant_is": "acme",
    "agent_is": "aider",
    "tool_names_include": "shell",
    "expr": "has_images",
    "zone_is": "cloud",
    "label_includes": "draft",
    "any_of": [{"has_images": True}],
    "all_of": [{"has_images": True}],
    "not": {"has_images": True},
}
SETTINGS = """
retain: full
inline_override: known
server: {host: 127.0.0.1, port: 8484, hosts: [a.example], origins: ["https://a.example"]}
fallback: {mode: "on", max_price_ratio: 3}
limits: {connect_s: 3}
workflow: {commands: [git]}
judge: {model: a, share: 0.5}
tools: {allow: [read], deny: [run_shell]}
mcp_servers:
  near: {command: server, args: [-v], env: {KEY: {env: NAME}}, allow_tools: [one]}
  far: {url: "https://a.example", side_effects: read}
"""
MODELS = """
schema_version: 1
providers:
  acme:
    kind: openai
    base_url: https://acme.example/v1
    api_key: [{env: ONE}, {file: two}]
    headers: {x-a: b}
    query: {v: "1"}
    rpm: 5
models:
  acme:big:
    location: cloud
    tier: deep
    aliases: [big, huge]
    capabilities: {max_context_tokens: 5000, supports_images: true}
    price: {input: 3, output: 15, cached_input: 1}
accept: {gpt-*: big, x: auto}
"""
ROUTING = {
    "schema_version": 1,
    "global_default": LOCAL,
    "tiers": {"fast": LOCAL},
    "pattern": {"method": "evidence", "k": 5, "target": {"strong_share": "0.5"}},
    "pattern_disagreement": {"surface": True},
    "rules": [{"name": "all", "when": PREDICATES, "use": LOCAL}],
    "workspaces": {
        "/w": {
            "default": LOCAL,
            "tiers": {"fast": LOCAL, "balanced": LOCAL, "deep": LOCAL},
            "pattern": {"cost_weight": "0.5"},
            "rules": [{"when": {"not": {"has_images": True}}, "use": LOCAL}],
        }
    },
    "budgets": [{"name": "day", "limit_usd": 5, "per": "day", "each": "key"}],
}
GUARDED = """
decision:
  id: guarded
  type: weighted
  input: "{{ a.id }}"
  salt: s
  cases:
    - {target: one, weight: 60, label: x}
    - {target: two, weight: 40}
  default: {target: one}
  cache: {enabled: true, ttl: 1h}
  logging: {log_decision: true}
  variables: {a.id: text}
  guardrails:
    - {type: weight_bounds, min_weight: 0.1, action_on_fail: escalate, escalation_target: two}
    - {type: weight_bounds, max_weight: 90}
    - {type: requires_approval, targets: [two]}
"""
SENSORS = """
sensors:
  - id: hourly
    type: schedule
    trigger: {every: 1h, filter: "event.type == 'schedule'"}
    target: {run: {shell: [date], timeout: 5s}}
    error_handling: {on_failure: alert, backoff: 2s}
  - id: hook
    type: webhook
    trigger: {secret: {env: NAME}}
    target: {workflow: content.yaml, inputs: {a: 1}}
"""
TABLE = """
- note: a
  facts: {message: x, session: {workspace_path: /w}, configured: [a:b]}
  want: {chosen_model: a:b, banners: []}
- {note: b, facts: {message: "@x"}, want_error: names no model}
"""


def _example(name: str) -> str:
    return (EXAMPLES / name).read_text()


FILES: dict[str, tuple[Callable[[bytes, str], object], str]] = {
    "pointsman.yaml": (read_settings, SETTINGS),
    "models.yaml": (read_models, MODELS),
    "routing.yaml": (
        lambda text, name: read_routing(text, name, KNOWN, "/home/me"),
        yaml.safe_dump(ROUTING),
    ),
    "placement.yaml": (
        lambda text, name: read_policy(text, name, ("email",)),
        starter_text("placement.yaml").decode().partition("\nsensitive:")[0]
        + "\nsensitive: {stays_local: [email], taint: off}\n"
        "policy_rules: [{id: large, action: force_local, name: n,"
        " conditions: [{field: token_count, operator: exceeds, value: 5}]}]\n",
    ),
    "agents.yaml": (read_agents, _example("agent-fleet/home/agents.yaml")),
    "decisions/content.yaml": (
        read_decisions,
        _example("content-pipeline/home/decisions/content.yaml"),
    ),
    "decisions/guarded.yaml": (read_decisions, GUARDED),
    "workflows/content.yaml": (
        read_workflow,
        _example("content-pipeline/home/workflows/content.yaml"),
    ),
    "sensors/drafts.yaml": (read_sensors, _example("content-pipeline/home/sensors/drafts.yaml")),
    "sensors/others.yaml": (read_sensors, SENSORS),
    "a table of rules test": (read_table, TABLE),
}


def _problems(name: str, text: str) -> tuple[Problem, ...]:
    try:
        FILES[name][0](text.encode(), "f")
    except DocumentError as error:
        return error.problems
    return ()


def _paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    members: Any = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, each in members:
        yield (*path, step)
        yield from _paths(each, (*path, step))


def _emptied(value: Any, path: tuple[str | int, ...]) -> str:
    """Write a document with nothing where the value at a path stood."""
    copy = deepcopy(value)
    inner = copy
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = "EMPTIED"
    return yaml.safe_dump(copy, sort_keys=False).replace("EMPTIED", "")


def _plain(value: Any) -> Any:
    """Give a value in types that PyYAML writes."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("name", FILES)
def test_every_value_of_every_file_is_needed_where_its_key_stands(name: str) -> None:
    text = FILES[name][1]
    assert _problems(name, text) == ()
    value = _plain(read_yaml(text.encode(), "f").value)
    for path in _paths(value):
        told = [str(each) for each in _problems(name, _emptied(value, path))]
        assert len(told) == 1, (path, told)
        assert f": config.empty_value: `{path_text(path)}` has no value" in told[0], path


def _asking(when: str) -> list[str]:
    text = f"schema_version: 1\nrules: [{{when: {when}, use: {LOCAL}}}]\n"
    return [str(each) for each in _problems("routing.yaml", text)]


def test_the_predicates_tried_here_are_all_there_are() -> None:
    assert sorted(PREDICATES) == sorted(When.__struct_encode_fields__)


@pytest.mark.req(205)
@pytest.mark.parametrize("name", PREDICATES)
def test_a_predicate_without_a_value_is_refused_and_does_not_match_every_turn(name: str) -> None:
    hint = "has no value (write one, or leave the key out)"
    assert _asking(f"{{{name}: }}") == [
        f"f:2:17: config.empty_value: `rules[0].when.{name}` {hint}"
    ]
    for outer, path in (("any_of", "any_of[0]"), ("all_of", "all_of[0]")):
        (told,) = _asking(f"{{{outer}: [{{{name}: }}]}}")
        assert f"config.empty_value: `rules[0].when.{path}.{name}` {hint}" in told
    (told,) = _asking(f"{{not: {{{name}: }}}}")
    assert f"config.empty_value: `rules[0].when.not.{name}` {hint}" in told


@pytest.mark.parametrize("nothing", ["null", "~"])
@pytest.mark.parametrize("name", PREDICATES)
def test_a_predicate_takes_no_null_either(name: str, nothing: str) -> None:
    (told,) = _asking(f"{{{name}: {nothing}}}")
    assert f"config.wrong_type: `rules[0].when.{name}`: expected " in told
    assert told.endswith("got nothing")


def test_null_stands_for_what_may_be_left_out() -> None:
    text = "schema_version: 1\nproviders: {a: {kind: openai, api_key: null, rpm: ~}}\n"
    text += "models: {a:b: {location: cloud, tier: null, price: ~}}\n"
    assert _problems("models.yaml", text) == ()
    assert _problems("a table of rules test", TABLE.replace("[a:b]", "null")) == ()
