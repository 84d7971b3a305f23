"""The policy of agent routing: constants, intents and roles, exact; its id is `router_snapshot_id`.

`agents.yaml` is read in `written`; modules are state, not policy, and stand in `selfrep`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.agents.file.config import RouterConfig
from pointsman.kernel.snapshot import SnapshotForm


class Intent(Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of query: which texts are of it, what it needs, and who may be asked.

    Without `candidates`, the agents that name the intent among their capabilities are.
    """

    intent: str
    patterns: tuple[str, ...]
    required_action: str
    candidates: tuple[str, ...]


class RoleAccess(Struct, frozen=True, forbid_unknown_fields=True):
    """Which modules a role may use: all but the denied ones where `modules` is None."""

    role: str
    modules: tuple[str, ...] | None
    denied: tuple[str, ...]


class AgentsPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides about agents, besides the facts and the snapshot of the modules.

    With any `roles`, a role that is not among them may use nothing. The first intent that fits
    counts. `warnings` tell which defaults were filled in.
    """

    router_config: RouterConfig
    intents: tuple[Intent, ...]
    roles: tuple[RoleAccess, ...]
    warnings: tuple[str, ...]


POLICY_FORM: Final = SnapshotForm("agents.policy", 1, AgentsPolicy)
