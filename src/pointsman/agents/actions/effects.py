"""The effects of governed actions: modules added, set by hand or restricted, constants replaced.

Pure. Requests and approvals are in `governance`; here an approved action is only applied.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from pointsman.agents.file.config import EPSILON, GivenConfig, changed_config
from pointsman.agents.modules.event import (
    ModuleAdded,
    ModuleAptSet,
    ModulePolicySet,
    ModuleStatusSet,
    RouterConfigSet,
    SelfRepEvent,
)
from pointsman.agents.modules.folding import degrade_if_unproven
from pointsman.agents.modules.module import (
    UNJUDGED,
    Metrics,
    Module,
    ModulePolicy,
    Registration,
    make_edge,
)
from pointsman.agents.modules.selfrep import SelfRep
from pointsman.agents.modules.trust import status_after
from pointsman.agents.policy import POLICY_FORM, AgentsPolicy
from pointsman.errors import InputError, NotFound
from pointsman.kernel.canonical import untag
from pointsman.kernel.document import Document
from pointsman.kernel.instant import Instant
from pointsman.kernel.schema import conform

GovernedAgents = tuple[AgentsPolicy, SelfRep]
"""The policy of agent routing, and the modules."""


def apply_event(house: GovernedAgents, event: SelfRepEvent, at: Instant) -> GovernedAgents:
    """Return policy and modules after one event, or raise where it cannot apply."""
    policy, selfrep = house
    match event:
        case RouterConfigSet(_, changes):
            return _configure(policy, selfrep, changes)
        case ModuleAdded():
            return policy, _register(selfrep, event, at)
    return policy, _replace_module(selfrep, _module_after(selfrep, event, at))


def _configure(policy: AgentsPolicy, selfrep: SelfRep, changes: Raw) -> GovernedAgents:
    given = _read_changes(changes)
    named = [name for name in GivenConfig.__struct_fields__ if getattr(given, name) is not UNSET]
    policy = replace(
        policy,
        router_config=changed_config(policy.router_config, given),
        warnings=tuple(
            each
            for each in policy.warnings
            if not any(each.startswith(f"router_config.{name}:") for name in named)
        ),
    )
    # The modules' snapshot says under which constants it was made.
    return policy, replace(selfrep, config_hash=POLICY_FORM.id(policy))


def _read_changes(changes: Raw) -> GivenConfig:
    value = untag(msgspec.json.decode(changes))
    given = conform(Document("changes", value, {}, {}), GivenConfig)
    if given.numeric_epsilon not in {UNSET, EPSILON}:
        raise InputError("scores have a resolution of 1e-9, and no other")
    return given


def _register(selfrep: SelfRep, event: ModuleAdded, at: Instant) -> SelfRep:
    """Add a module, or replace the one of its name: a new one has no record."""
    given = event.module
    known = {each.node_id for each in selfrep.modules}
    for each in given.dependencies:
        if each.to not in known:
            raise NotFound(f"there is no module `{each.to}`")
        if each.to == given.node_id:
            raise InputError(f"`{each.to}` cannot depend on itself")
    needs = {each.to: each.required for each in given.dependencies}
    module = Module(
        node_id=given.node_id,
        type=given.type,
        display_name=given.display_name or given.node_id,
        version=given.version,
        status=given.status,
        status_reason="",
        apt=given.apt,
        metrics=UNJUDGED,
        capabilities=tuple(sorted(set(given.capabilities))),
        dependencies=tuple(sorted(needs)),
        policy=_policy(given.allowed_actions, given.forbidden_actions),
        registration=Registration(event.registered_by, at),
        last_updated=at,
        is_fallback=given.is_fallback,
    )
    edges = [each for each in selfrep.edges if each.from_ != given.node_id]
    edges += [make_edge(given.node_id, to, required=required) for to, required in needs.items()]
    ordered = tuple(sorted(edges, key=lambda each: (each.from_, each.to)))
    return replace(
        _replace_module(selfrep, degrade_if_unproven(module, selfrep.trust)), edges=ordered
    )


def _module_after(
    selfrep: SelfRep, event: ModuleStatusSet | ModulePolicySet | ModuleAptSet, at: Instant
) -> Module:
    module = selfrep.module(event.node_id)
    if module is None:
        raise NotFound(f"there is no module `{event.node_id}`")
    match event:
        case ModuleStatusSet(_, _, status, reason):
            # Setting a module healthy also ends its run of failures.
            failures = 0 if status == "healthy" else module.metrics.consecutive_failures
            metrics = Metrics(failures, module.metrics.total_calls)
            changed = replace(module, status=status, status_reason=reason, metrics=metrics)
        case ModulePolicySet(_, _, allowed, forbidden):
            changed = replace(module, policy=_policy(allowed, forbidden))
        case ModuleAptSet(_, _, apt, _):
            status, why = status_after(module.status, apt, module.metrics, selfrep.trust)
            told = why or ("" if status == "healthy" else module.status_reason)
            changed = replace(module, apt=apt, status=status, status_reason=told)
    return replace(changed, last_updated=at)


def _policy(allowed: Iterable[str], forbidden: Iterable[str]) -> ModulePolicy:
    return ModulePolicy(tuple(sorted(set(allowed))), tuple(sorted(set(forbidden))))


def _replace_module(selfrep: SelfRep, module: Module) -> SelfRep:
    others = [each for each in selfrep.modules if each.node_id != module.node_id]
    ordered = sorted([*others, module], key=lambda each: each.node_id)
    return replace(selfrep, modules=tuple(ordered))
