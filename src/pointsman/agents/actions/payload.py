"""The payload of each type of action, as it is written, and its target."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final, cast

import msgspec
from msgspec import Meta, Raw, Struct

from pointsman.agents.file.config import GivenConfig
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
from pointsman.agents.modules.module import ModuleType, Status
from pointsman.errors import InputError
from pointsman.governance.action import ActionType
from pointsman.kernel.canonical import canonical_json, untag
from pointsman.kernel.document import Document, Json
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


Payload = (
    SemWrite
    | SemDelete
    | RegisterModule
    | SetModuleStatus
    | SetModulePolicy
    | SetModuleApt
    | SetRouterConfig
    | WorkflowBranch
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
