"""Modules as they are written and as they are frozen: defaults, order, names, constants."""

import json
from typing import Any

import pytest
from tests.models.agents_jobs import a_router, agents_text

from pointsman.agents.file.agents_file import NO_AGENTS, read_selfrep_document
from pointsman.agents.file.config import DEFAULT_CONFIG, GivenConfig, RouterConfig
from pointsman.agents.file.make_selfrep import make_selfrep
from pointsman.agents.modules.module import make_edge
from pointsman.agents.modules.selfrep import SELFREP_FORM, selfrep_id
from pointsman.agents.modules.trust import DEFAULT_TRUST
from pointsman.agents.policy import POLICY_FORM, agents_policy
from pointsman.errors import DocumentError, IntegrityFailure
from pointsman.kernel.instant import read_instant
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import billionths
from pointsman.kernel.signing import SigningKey
from pointsman.storage.policies.agents_file import read_agents

FULL: dict[str, Any] = {
    "modules": {
        "agent:b": {
            "type": "agent",
            "display_name": "Logic",
            "version": "2.1",
            "status": "degraded",
            "status_reason": "slow to answer",
            "apt": "0.75",
            "metrics": {"consecutive_failures": 1, "total_calls": 9},
            "capabilities": ["plan", "answer"],
            "dependencies": ["service:db"],
            "policy": {"allowed_actions": ["read"], "forbidden_actions": ["SEM_write"]},
            "registration": {"registered_by": "ops", "registered_at": "2026-01-02T03:04:05Z"},
            "last_updated": "2026-01-03T00:00:00Z",
            "is_fallback": True,
        },
        "service:db": {"type": "service", "status": "healthy", "apt": "1"},
    },
    "edges": [{"from": "agent:b", "to": "service:db", "required": False}],
}


def test_what_is_written_stands_in_the_snapshot() -> None:
    module = a_router(FULL).selfrep.modules[0]
    assert module.node_id == "agent:b"
    assert (module.display_name, module.version) == ("Logic", "2.1")
    assert (module.status, module.status_reason) == ("degraded", "slow to answer")
    assert module.apt == billionths("0.75")
    assert (module.metrics.consecutive_failures, module.metrics.total_calls) == (1, 9)
    assert module.capabilities == ("answer", "plan")
    assert module.dependencies == ("service:db",)
    assert module.policy.forbidden_actions == ("SEM_write",)
    assert module.registration.registered_at == read_instant("2026-01-02T03:04:05Z")
    assert module.last_updated == read_instant("2026-01-03T00:00:00Z")
    assert module.is_fallback


@pytest.mark.req(10, 68)
def test_a_given_status_stands_whatever_the_record_says() -> None:
    given = {"modules": {"a": {"apt": "0.1", "status": "healthy"}}}
    assert a_router(given).selfrep.modules[0].status == "healthy"


@pytest.mark.req(19)
def test_defaults_are_filled_in_and_told() -> None:
    selfrep = a_router({"modules": {"a": {}}}).selfrep
    module = selfrep.modules[0]
    assert (module.apt, module.status) == (billionths("0.5"), "degraded")
    assert module.display_name == "a"
    assert "modules.a.apt: default 0.5" in selfrep.warnings
    assert "modules.a.status: degraded by its record" in selfrep.warnings
    assert "trust.beta: default 0.1" in selfrep.warnings
    assert "trust.min_events_for_trust: default 2" in selfrep.warnings
    assert selfrep.trust == DEFAULT_TRUST


def test_what_is_given_is_not_told_as_a_default() -> None:
    given = {
        "modules": {"a": {"apt": "0.5", "status": "healthy"}},
        "router_config": {"MIN_SCORE": "0.2"},
        "trust": {"decay": "0.001"},
    }
    router = a_router(given)
    assert not any("modules" in each or "decay" in each for each in router.selfrep.warnings)
    assert not any("min_score" in each for each in router.policy.policy.warnings)


def test_the_order_in_which_modules_are_written_does_not_matter() -> None:
    turned = {
        "modules": dict(reversed(FULL["modules"].items())),
        "edges": [*reversed(FULL["edges"])],
    }
    assert selfrep_id(a_router(turned).selfrep) == selfrep_id(a_router(FULL).selfrep)


def test_a_dependency_is_a_required_edge_unless_an_edge_says_otherwise() -> None:
    modules = {"a": {"dependencies": ["b", "c"]}, "b": {}, "c": {}}
    edges = [{"from": "a", "to": "c", "required": False}, {"from": "b", "to": "c"}]
    selfrep = a_router({"modules": modules, "edges": edges}).selfrep
    assert selfrep.edges == (
        make_edge("a", "b", required=True),
        make_edge("a", "c", required=False),
        make_edge("b", "c", required=True),
    )
    assert [each.edge_id for each in selfrep.edges] == ["a->b", "a->c", "b->c"]
    assert [each.dependencies for each in selfrep.modules] == [("b", "c"), ("c",), ()]


@pytest.mark.req(17)
def test_the_constants_have_the_documents_defaults() -> None:
    text = {
        "min_availability": "0.15",
        "min_score": "0.2",
        "weight_avail": "0.7",
        "weight_goal": "0.2",
        "weight_bias": "0.1",
        "dep_unhealthy_penalty": "0.5",
    }
    for name, value in text.items():
        assert getattr(DEFAULT_CONFIG, name) == billionths(value)
    counts = (DEFAULT_CONFIG.max_attempts, DEFAULT_CONFIG.top_n, DEFAULT_CONFIG.min_token_floor)
    assert counts == (3, 10, 128)
    assert DEFAULT_CONFIG.tie_order == ("final_score", "apt", "node_id")
    assert DEFAULT_CONFIG.numeric_epsilon == 1


@pytest.mark.req(10, 19)
def test_every_constant_but_the_order_of_ties_can_be_set_and_is_told_where_it_is_not() -> None:
    assert {*GivenConfig.__struct_fields__, "tie_order"} == set(RouterConfig.__struct_fields__)
    warnings = agents_policy(NO_AGENTS).warnings
    assert len(warnings) == len(GivenConfig.__struct_fields__)
    assert "router_config.min_score: default 0.2" in warnings
    assert "router_config.top_n: default 10" in warnings


@pytest.mark.req(66)
def test_the_documents_upper_case_names_are_taken() -> None:
    given = {"router_config": {"WEIGHT_GOAL": "0.3", "NUMERIC_EPSILON": "1e-9", "top_n": 4}}
    config = agents_policy(read_agents(agents_text(given), "f")).router_config
    assert (config.weight_goal, config.top_n) == (billionths("0.3"), 4)


@pytest.mark.req(68)
def test_other_weights_have_another_id() -> None:
    ids = {
        POLICY_FORM.id(agents_policy(read_agents(agents_text({"router_config": each}), "f")))
        for each in ({}, {"weight_goal": "0.3"}, {"weight_goal": "0.31"}, {"max_attempts": 4})
    }
    assert len(ids) == 4


def test_the_snapshot_holds_the_routers_id_and_the_schemas_version() -> None:
    router = a_router(FULL)
    assert router.selfrep.config_hash == POLICY_FORM.id(router.policy.policy)
    assert router.selfrep.schema_version == 1
    assert router.selfrep_id.startswith("sha256:")


def test_a_snapshot_is_signed_and_read_back_whole() -> None:
    selfrep = a_router(FULL).selfrep
    key = SigningKey(b"s" * 32)
    snapshot = SELFREP_FORM.make(selfrep, "ledger-1", key)
    assert SELFREP_FORM.load(snapshot, "ledger-1", [key]) == selfrep
    with pytest.raises(IntegrityFailure):
        SELFREP_FORM.load(snapshot, "ledger-2", [key])


def test_a_posted_snapshot_is_read_as_the_file_is() -> None:
    given = read_selfrep_document(read_json(json.dumps(FULL).encode(), "body"))
    assert make_selfrep(given, "x") == make_selfrep(read_agents(agents_text(FULL), "f"), "x")


@pytest.mark.req(5)
@pytest.mark.parametrize("name", ["cpu", "latency_ms", "load", "queue_depth"])
def test_live_metrics_are_refused(name: str) -> None:
    body = {"modules": {"a": {"apt": "0.5", name: 1}}}
    with pytest.raises(DocumentError, match="unknown_key"):
        read_selfrep_document(read_json(json.dumps(body).encode(), "body"))


def test_a_file_without_content_has_no_agents() -> None:
    assert read_agents(b"", "agents.yaml") == NO_AGENTS
    assert read_agents(b"# nothing yet\n", "agents.yaml") == NO_AGENTS
