"""The line of a turn that says who took it: model · slot or rule · cost · time."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.kernel.document import printable
from pointsman.sessions.message import RoutingRecord
from pointsman.sessions.update import RouteUpdate

_SLOTS: Final = {
    "per_message_override": "@ override",
    "manual_sticky": "sticky model",
    "rule": "rule",
    "pattern": "pattern",
    "delegate_request": "delegation",
    "workspace_default": "workspace default",
    "global_default": "global default",
    "override": "@ override",
    "manual": "sticky model",
    "delegate": "delegation",
    "default": "default",
}
_KINDS: Final = {"turn": "", "fallback": "took over", "override": "your choice"}


class RouteLine(Struct, frozen=True):
    """What the line says; parts that are not known yet are left out."""

    model: str = ""
    why: str = ""
    cost: str = ""
    took: str = ""
    state: str = ""

    def __str__(self) -> str:
        parts = (self.model, self.why, self.cost, self.took, self.state)
        return " · ".join(printable(part) for part in parts if part)


def why_text(routed: RouteUpdate) -> str:
    """Give why a model takes a turn, in a few words."""
    kind = _KINDS[routed.kind]
    slot = slot_text(routed.policy, routed.rule_name)
    return f"{slot}, {kind}" if kind else slot


def recorded_why(record: RoutingRecord) -> str:
    """Give the same of a turn that is over."""
    return slot_text(record.mode, record.rule_name)


def slot_text(slot: str, rule_name: str | None) -> str:
    """Name a slot, or its rule."""
    return f'rule "{rule_name}"' if rule_name else _SLOTS.get(slot, slot)
