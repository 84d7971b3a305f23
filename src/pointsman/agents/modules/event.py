"""The events of governed actions on the self-representation, which its fold reads after the file.

The live self-representation is `agents.yaml` and these events, in the order of the ledger. An event
whose `request_id` was folded before is the same event, recorded twice by a retry: it counts once.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from pointsman.agents.modules.module import ModuleType, Status
from pointsman.kernel.canonical import Form
from pointsman.kernel.number import Billionths

SELFREP: Final = "event.selfrep."

MODULE_REGISTERED: Final = SELFREP + "module_registered"
MODULE_STATUS_SET: Final = SELFREP + "module_status_set"
MODULE_POLICY_SET: Final = SELFREP + "module_policy_set"
MODULE_APT_SET: Final = SELFREP + "module_apt_set"
ROUTER_CONFIG_SET: Final = SELFREP + "router_config_set"


class Dependency(Struct, frozen=True, forbid_unknown_fields=True):
    """A module that another depends on."""

    to: str
    required: bool


class NewModule(Struct, frozen=True, forbid_unknown_fields=True):
    """A module as it is registered (companion §4.1)."""

    node_id: str
    type: ModuleType
    display_name: str
    version: str
    status: Status
    apt: Billionths
    capabilities: tuple[str, ...]
    allowed_actions: tuple[str, ...]
    forbidden_actions: tuple[str, ...]
    dependencies: tuple[Dependency, ...]
    is_fallback: bool


class ModuleAdded(Struct, frozen=True, forbid_unknown_fields=True):
    """A module was added, or one of its name replaced; `registered_by` asked for it."""

    request_id: str
    module: NewModule
    registered_by: str


class ModuleStatusSet(Struct, frozen=True, forbid_unknown_fields=True):
    """A module was quarantined, let back in, or set by hand."""

    request_id: str
    node_id: str
    status: Status
    reason: str


class ModulePolicySet(Struct, frozen=True, forbid_unknown_fields=True):
    """A module's policy was replaced as a whole."""

    request_id: str
    node_id: str
    allowed_actions: tuple[str, ...]
    forbidden_actions: tuple[str, ...]


class ModuleAptSet(Struct, frozen=True, forbid_unknown_fields=True):
    """A module's trust was set by hand: MANUAL_OVERRIDE of companion §4.2."""

    request_id: str
    node_id: str
    apt: Billionths
    reason: str


class RouterConfigSet(Struct, frozen=True, forbid_unknown_fields=True):
    """Values of the router's configuration were replaced; decimals are tagged texts."""

    request_id: str
    changes: Raw


SelfRepEvent = ModuleAdded | ModuleStatusSet | ModulePolicySet | ModuleAptSet | RouterConfigSet

REGISTERED_FORM = Form(ModuleAdded)
STATUS_FORM = Form(ModuleStatusSet)
POLICY_FORM = Form(ModulePolicySet)
APT_FORM = Form(ModuleAptSet)
CONFIG_FORM = Form(RouterConfigSet)


def selfrep_payload(event: SelfRepEvent) -> tuple[str, bytes]:
    """Return the kind and the payload of an event's ledger entry."""
    match event:
        case ModuleAdded():
            return MODULE_REGISTERED, REGISTERED_FORM.encode(event)
        case ModuleStatusSet():
            return MODULE_STATUS_SET, STATUS_FORM.encode(event)
        case ModulePolicySet():
            return MODULE_POLICY_SET, POLICY_FORM.encode(event)
        case ModuleAptSet():
            return MODULE_APT_SET, APT_FORM.encode(event)
        case RouterConfigSet():
            return ROUTER_CONFIG_SET, CONFIG_FORM.encode(event)


def read_selfrep(kind: str, payload: bytes) -> SelfRepEvent | None:
    """Read an event of the self-representation; None where the kind is another."""
    match kind:
        case _ if kind == MODULE_REGISTERED:
            return REGISTERED_FORM.decode(payload)
        case _ if kind == MODULE_STATUS_SET:
            return STATUS_FORM.decode(payload)
        case _ if kind == MODULE_POLICY_SET:
            return POLICY_FORM.decode(payload)
        case _ if kind == MODULE_APT_SET:
            return APT_FORM.decode(payload)
        case _ if kind == ROUTER_CONFIG_SET:
            return CONFIG_FORM.decode(payload)
    return None
