"""A module as the system represents itself: its type, its trust, its policy.

No live metrics: a module changes only by events (see `folding`).
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import Final, Literal

from msgspec import Struct, field

from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.number import Billionths

ModuleType = Literal["agent", "tool", "service", "router", "adapter", "memory"]
Status = Literal["healthy", "degraded", "offline", "quarantined"]

GENERIC_AGENT: Final = "generic_agent"
"""The fallback where no module says that it is one."""


class Metrics(Struct, frozen=True, forbid_unknown_fields=True):
    """How often it was judged, and how often it failed in a row; counted from events."""

    consecutive_failures: int
    total_calls: int


class ModulePolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Its permitted actions. Empty `allowed_actions` restrict nothing; forbidden ones always."""

    allowed_actions: tuple[str, ...]
    forbidden_actions: tuple[str, ...]


class Registration(Struct, frozen=True, forbid_unknown_fields=True):
    """Who added it, and when."""

    registered_by: str
    registered_at: Instant


class Module(Struct, frozen=True, forbid_unknown_fields=True):
    """One module, exact: `capabilities` are the goal types and intents it serves."""

    node_id: str
    type: ModuleType
    display_name: str
    version: str
    status: Status
    status_reason: str
    apt: Billionths
    metrics: Metrics
    capabilities: tuple[str, ...]
    dependencies: tuple[str, ...]
    policy: ModulePolicy
    registration: Registration
    last_updated: Instant
    is_fallback: bool


class Edge(Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency of a module; a `required` one that is not healthy costs it availability."""

    edge_id: str
    from_: str = field(name="from")
    to: str = field(name="to")
    required: bool = field(name="required")


def make_edge(from_: str, to: str, *, required: bool) -> Edge:
    """Make an edge; its id is made of its ends."""
    return Edge(f"{from_}->{to}", from_, to, required)


def action_key(action: str) -> str:
    """Return an action's name as it is compared: a veto must not depend on case or separators."""
    return action.translate(_KEYS)


# DETERMINISM: ASCII alone; the other capital letters change with the Unicode version.
_KEYS: Final = str.maketrans(ascii_uppercase + "-. :/", ascii_lowercase + "_____")

UNJUDGED: Final = Metrics(0, 0)
UNRESTRICTED: Final = ModulePolicy((), ())
UNREGISTERED: Final = Registration("", EPOCH)
