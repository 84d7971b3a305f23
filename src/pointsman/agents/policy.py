"""The policy of agent routing: constants, intents and roles, exact; its id is `router_snapshot_id`.

Modules are state, not policy: their snapshot is made in `modules`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.agents.file.agents_file import AgentsFile, file_problems, lower_keys, sorted_names
from pointsman.agents.file.config import RouterConfig, router_config
from pointsman.kernel.document import Document
from pointsman.kernel.schema import Check, conform
from pointsman.kernel.snapshot import SnapshotForm


class Intent(Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of query: its patterns, its action, and its candidates.

    Without `candidates`, they are the agents that name the intent among their capabilities.
    """

    intent: str
    patterns: tuple[str, ...]
    required_action: str
    candidates: tuple[str, ...]


class RoleModules(Struct, frozen=True, forbid_unknown_fields=True):
    """Which modules a role may use: all but the denied ones where `modules` is None."""

    role: str
    modules: tuple[str, ...] | None
    denied: tuple[str, ...]


class AgentsPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides about agents, besides the facts and the snapshot of the modules.

    With any `roles`, a role that is not among them may use nothing. The first intent that matches
    counts. `warnings` list the defaults that were filled in.
    """

    router_config: RouterConfig
    intents: tuple[Intent, ...]
    roles: tuple[RoleModules, ...]
    warnings: tuple[str, ...]


POLICY_FORM: Final = SnapshotForm("agents.policy", 1, AgentsPolicy)


def read_policy(document: Document, *checks: Check[AgentsFile]) -> AgentsFile:
    """Read `agents.yaml`, or raise with every problem at its place, those of `checks` included."""
    lowered, problems = lower_keys(document, ("router_config", "trust"))
    return conform(lowered, AgentsFile, lambda *_: problems, file_problems, *checks)


def agents_policy(file: AgentsFile) -> AgentsPolicy:
    """Return the exact policy of a checked file."""
    config, warnings = router_config(file.router_config)
    return AgentsPolicy(
        router_config=config,
        intents=tuple(
            Intent(each.intent, each.patterns, each.required_action, sorted_names(each.candidates))
            for each in file.intents
        ),
        roles=tuple(
            RoleModules(
                role,
                None if each.modules is None else sorted_names(each.modules),
                sorted_names(each.denied),
            )
            for role, each in sorted(file.roles.items())
        ),
        warnings=warnings,
    )
