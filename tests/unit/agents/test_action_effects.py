"""What governed actions change about the modules and the constants."""

from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.models.agents_jobs import a_job, a_router

from pointsman.agents.compiled import CompiledAgents, compile_policy
from pointsman.agents.decide import decide
from pointsman.agents.modules.event import (
    Dependency,
    ModuleAdded,
    ModuleAptSet,
    ModulePolicySet,
    ModuleStatusSet,
    NewModule,
    RouterConfigSet,
    SelfRepEvent,
)
from pointsman.agents.modules.module import Metrics, ModulePolicy, make_edge
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.rules.actions import GovernedAgents, apply_event
from pointsman.errors import InputError, NotFound
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import billionths

ROUTER = a_router(
    {
        "modules": {
            "agent:a": {"apt": "0.9", "status": "healthy", "metrics": {"total_calls": 4}},
            "agent:o": {
                "apt": "0.9",
                "status": "offline",
                "metrics": {"consecutive_failures": 3, "total_calls": 9},
            },
            "service:db": {"type": "service", "apt": "0.5", "status": "healthy"},
        }
    }
)
HOUSE: GovernedAgents = (ROUTER.policy.policy, ROUTER.selfrep)
AT = Instant(77)


def a_module(name: str = "agent:n", **given: Any) -> NewModule:
    values: dict[str, Any] = {
        "type": "agent",
        "display_name": "",
        "version": "1",
        "status": "healthy",
        "apt": billionths("0.95"),
        "capabilities": ("plan", "answer"),
        "allowed_actions": (),
        "forbidden_actions": ("SEM_write",),
        "dependencies": (Dependency("service:db", required=True),),
        "is_fallback": False,
    }
    return NewModule(name, **values | given)


def after(event: SelfRepEvent) -> GovernedAgents:
    return apply_event(HOUSE, event, AT)


def test_a_registered_module_is_in_the_next_snapshot_and_can_be_chosen() -> None:
    policy, selfrep = after(ModuleAdded("r1", a_module(), "key-7"))
    module = selfrep.module("agent:n")
    assert module is not None
    assert [each.node_id for each in selfrep.modules] == sorted(
        ("agent:a", "agent:n", "agent:o", "service:db")
    )
    assert module.registration.registered_by == "key-7"
    assert (module.registration.registered_at, module.last_updated) == (AT, AT)
    assert (module.capabilities, module.dependencies) == (("answer", "plan"), ("service:db",))
    assert selfrep.edges == (make_edge("agent:n", "service:db", required=True),)
    assert (module.status, module.status_reason) == ("degraded", "judged 0 of 2 times")
    others = tuple(each for each in selfrep.modules if each.node_id != "agent:a")
    for modules, chosen in ((selfrep.modules, "agent:a"), (others, "agent:n")):
        router = CompiledAgents(compile_policy(policy), replace(selfrep, modules=modules))
        assert decide(router, a_job(router))[0].selected_agent == chosen


def test_a_module_registered_anew_has_no_record_and_other_needs() -> None:
    first = after(ModuleAdded("r1", a_module("agent:a"), "k"))
    _, selfrep = apply_event(
        first, ModuleAdded("r2", a_module("agent:a", dependencies=()), "k"), AT
    )
    module = selfrep.module("agent:a")
    assert module is not None
    assert (module.metrics, selfrep.edges) == (Metrics(0, 0), ())


@pytest.mark.parametrize(("to", "error"), [("ghost", NotFound), ("agent:a", InputError)])
def test_a_module_that_needs_nobody_known_or_itself_is_refused(to: str, error: Any) -> None:
    module = a_module("agent:a", dependencies=(Dependency(to, required=True),))
    with pytest.raises(error):
        after(ModuleAdded("r1", module, "k"))


def test_a_status_is_set_and_being_set_free_ends_the_failures() -> None:
    _, selfrep = after(ModuleStatusSet("r1", "agent:o", "quarantined", "leaked a key"))
    module = selfrep.module("agent:o")
    assert module is not None
    assert (module.status, module.status_reason) == ("quarantined", "leaked a key")
    assert module.metrics == Metrics(3, 9)
    _, selfrep = after(ModuleStatusSet("r2", "agent:o", "healthy", "mended"))
    freed = selfrep.module("agent:o")
    assert freed is not None
    assert (freed.status, freed.metrics) == ("healthy", Metrics(0, 9))


def test_what_a_module_may_do_is_replaced_as_a_whole() -> None:
    _, selfrep = after(ModulePolicySet("r1", "agent:a", ("search", "read"), ("SEM_write",)))
    module = selfrep.module("agent:a")
    assert module is not None
    assert module.policy == ModulePolicy(("read", "search"), ("SEM_write",))


def test_trust_that_is_set_moves_the_status_as_trust_that_is_earned_does() -> None:
    _, selfrep = after(ModuleAptSet("r1", "agent:a", billionths("0.3"), "seen to lie"))
    module = selfrep.module("agent:a")
    assert module is not None
    assert (module.apt, module.status) == (billionths("0.3"), "degraded")
    _, selfrep = after(ModuleAptSet("r1", "agent:o", billionths("1"), "fine"))
    still = selfrep.module("agent:o")
    assert still is not None
    assert still.status == "offline"


@pytest.mark.req(68)
def test_other_constants_make_another_router_snapshot_that_the_modules_name() -> None:
    policy, selfrep = after(RouterConfigSet("r1", Raw(b'{"min_score":"d:0.35","top_n":4}')))
    config = policy.router_config
    assert (config.min_score, config.top_n) == (billionths("0.35"), 4)
    assert config.weight_avail == HOUSE[0].router_config.weight_avail
    assert POLICY_FORM.id(policy) != POLICY_FORM.id(HOUSE[0])
    assert selfrep.config_hash == POLICY_FORM.id(policy)
    assert not any("min_score" in each or "top_n" in each for each in policy.warnings)
    assert len(policy.warnings) == len(HOUSE[0].warnings) - 2


@pytest.mark.parametrize(
    "changes",
    [b'{"min_scor":1}', b'{"top_n":0}', b'{"numeric_epsilon":"d:0.1"}', b'{"min_score":"d:1.1"}'],
)
def test_constants_that_cannot_be_are_refused(changes: bytes) -> None:
    with pytest.raises(InputError):
        after(RouterConfigSet("r1", Raw(changes)))


def test_nothing_happens_to_a_module_that_is_not_there() -> None:
    for event in (
        ModuleStatusSet("r1", "ghost", "healthy", ""),
        ModulePolicySet("r1", "ghost", (), ()),
        ModuleAptSet("r1", "ghost", billionths("1"), ""),
    ):
        with pytest.raises(NotFound, match="ghost"):
            after(event)
