"""Governed actions on agents: the payload of each type as it is written, and its effects."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Final, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct
from msgspec.structs import replace

from pointsman.agents.file.config import EPSILON, GivenConfig, changed_config
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
from pointsman.agents.modules.folding import degrade_if_unproven
from pointsman.agents.modules.module import (
    UNJUDGED,
    Metrics,
    Module,
    ModulePolicy,
    ModuleType,
    Registration,
    Status,
    make_edge,
)
from pointsman.agents.modules.selfrep import SelfRep
from pointsman.agents.modules.trust import status_after
from pointsman.agents.policy import POLICY_FORM, AgentsPolicy
from pointsman.errors import InputError, NotFound
from pointsman.governance.action import ActionType
from pointsman.kernel.canonical import canonical_json, untag
from pointsman.kernel.document import Document, Json
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import billionths
from pointsman.kernel.schema import conform

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@/-]{0,199}$")]
Action = Annotated[str, Meta(min_length=1, max_length=100)]
Value = Annotated[object, Meta(extra_json_schema={"description": "any value"})]
Trust = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]


class SemWrite(Struct, frozen=True, forbid_unknown_fields=True):
    """A value for a key of a namespace."""

    namespace: Name
    key: Name
    value: Value


class SemDelete(Struct, frozen=True, forbid_unknown_fields=True):
    """A key to be removed; its earlier values stay in its history."""

    namespace: Name
    key: Name


class GivenDependency(Struct, frozen=True, forbid_unknown_fields=True):
    """A module that the new one depends on."""

    to: Name
    required: bool = True


class GivenPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """The actions a module may and may not do; an empty allowed list restricts nothing."""

    allowed_actions: tuple[Action, ...] = ()
    forbidden_actions: tuple[Action, ...] = ()


class RegisterModule(Struct, frozen=True, forbid_unknown_fields=True):
    """A module to add."""

    node_id: Name
    type: ModuleType = "agent"
    display_name: str = ""
    version: str = "1"
    status: Status = "healthy"
    apt: Trust = Decimal("0.5")
    capabilities: tuple[Action, ...] = ()
    policy: GivenPolicy = GivenPolicy()
    dependencies: tuple[GivenDependency, ...] = ()
    is_fallback: bool = False


class SetModuleStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """A module's new status, and why."""

    node_id: Name
    status: Status
    reason: str = ""


class SetModulePolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """A module's new policy, whole."""

    node_id: Name
    policy: GivenPolicy


class SetModuleApt(Struct, frozen=True, forbid_unknown_fields=True):
    """A module's trust, set by hand, and why."""

    node_id: Name
    apt: Trust
    reason: str = ""


class SetRouterConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Values of the router's configuration by name."""

    changes: Annotated[dict[str, Value], Meta(min_length=1)]


class WorkflowBranch(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision of a workflow, its target, and a digest of the inputs it read."""

    decision_id: str
    target: str
    inputs: str


class LiftStop(Struct, frozen=True, forbid_unknown_fields=True):
    """A stop to end, and why calls may be made again."""

    stop_id: Name
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]


Payload = (
    SemWrite
    | SemDelete
    | RegisterModule
    | SetModuleStatus
    | SetModulePolicy
    | SetModuleApt
    | SetRouterConfig
    | WorkflowBranch
    | LiftStop
)

PAYLOADS: Final[dict[ActionType, type[Payload]]] = {
    "sem_write": SemWrite,
    "sem_delete": SemDelete,
    "register_module": RegisterModule,
    "set_module_status": SetModuleStatus,
    "set_module_policy": SetModulePolicy,
    "set_module_apt": SetModuleApt,
    "set_router_config": SetRouterConfig,
    "workflow_branch": WorkflowBranch,
    "lift_stop": LiftStop,
}

ROUTER: Final = "router"


def read_payload(action_type: ActionType, payload: Json) -> Payload:
    """Read a payload, or raise with all its problems."""
    if not isinstance(payload, dict):
        raise InputError("a payload is a mapping of names to values")
    found = conform(Document("payload", payload, {}, {}), PAYLOADS[action_type])
    if isinstance(found, SetRouterConfig):
        conform(Document("payload.changes", payload["changes"], {}, {}), GivenConfig)
    return found


def read_recorded_payload(payload: bytes) -> Json:
    """Read a recorded payload with its decimals exact."""
    try:
        found: Json = untag(msgspec.json.decode(payload))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"the payload is no JSON: {error}") from error
    return found


def target_of(payload: Payload) -> str:
    """Return the name of an action's target."""
    match payload:
        case SemWrite() | SemDelete():
            return f"sem:{payload.namespace}/{payload.key}"
        case SetRouterConfig():
            return ROUTER
        case WorkflowBranch():
            return f"decision:{payload.decision_id}:{payload.target}"
        case LiftStop():
            return f"stop:{payload.stop_id}"
    return payload.node_id


def selfrep_event(
    request_id: str, payload: Payload, requested_by: str
) -> SelfRepEvent | None:  # fmt: skip
    """Return an action's event of the self-representation; None where it has none."""
    match payload:
        case RegisterModule():
            return ModuleAdded(request_id, _module(payload), requested_by)
        case SetModuleStatus(node_id, status, reason):
            return ModuleStatusSet(request_id, node_id, status, reason)
        case SetModulePolicy(node_id, policy):
            allowed, forbidden = policy.allowed_actions, policy.forbidden_actions
            return ModulePolicySet(request_id, node_id, allowed, forbidden)
        case SetModuleApt(node_id, apt, reason):
            return ModuleAptSet(request_id, node_id, billionths(f"{apt:f}"), reason)
        case SetRouterConfig(changes):
            return RouterConfigSet(request_id, Raw(canonical_json(cast("Json", changes))))
    return None


def _module(given: RegisterModule) -> NewModule:
    return NewModule(
        given.node_id,
        given.type,
        given.display_name,
        given.version,
        given.status,
        billionths(f"{given.apt:f}"),
        given.capabilities,
        given.policy.allowed_actions,
        given.policy.forbidden_actions,
        tuple(Dependency(each.to, each.required) for each in given.dependencies),
        given.is_fallback,
    )


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
