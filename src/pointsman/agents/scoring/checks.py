"""The checks before any scoring, in their order, and each module's first miss.

Document 000 "Security & policy checks", companion D-000-9.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pointsman.agents.codes import Excluded
from pointsman.agents.compiled import (
    EVERY_ACTION,
    CompiledAgentsPolicy,
    Miss,
    Misses,
    Roster,
    RosterRow,
)
from pointsman.agents.facts import JobFacts
from pointsman.agents.modules.module import action_key
from pointsman.agents.trace import CheckName


class JobChecks:
    """The checks of one job."""

    __slots__ = (
        "action", "denied", "excluded", "intent", "is_narrow", "permitted", "role", "role_modules",
    )  # fmt: skip

    def __init__(
        self, policy: CompiledAgentsPolicy, facts: JobFacts, intent: str, action: str
    ) -> None:
        self.intent = action_key(intent) if intent else ""
        self.action = action_key(action) if action else ""
        self.excluded = facts.excluded
        self.permitted = None if facts.permitted is None else frozenset(facts.permitted)
        self.role = facts.user_role
        self.role_modules: Collection[str] | None = None
        self.denied: Collection[str] = ()
        if policy.roles:
            # INVARIANT: where roles are declared, one that is not may use nothing.
            self.role_modules, self.denied = policy.roles.get(facts.user_role, ((), ()))
        self.is_narrow = bool(policy.roles or facts.excluded or facts.permitted is not None)

    def miss(self, row: RosterRow) -> tuple[CheckName, Miss] | None:
        """Return the first check that a module fails, the prefilter apart."""
        if self.is_narrow:
            name = row.node_id
            if name in self.excluded:
                return "reroute", (name, Excluded.FAILED_BEFORE, "")
            if not self._is_permitted(name):
                role = f"role {self.role}" if self.role else ""
                return "rbac", (name, Excluded.NOT_PERMITTED, role)
        if row.is_restricted:
            miss = self._policy_miss(row)
            if miss is not None:
                return "policy", miss
        return row.barred

    def _is_permitted(self, name: str) -> bool:
        if self.permitted is not None and name not in self.permitted:
            return False
        if self.role_modules is not None and name not in self.role_modules:
            return False
        return name not in self.denied

    def _policy_miss(self, row: RosterRow) -> Miss | None:
        action, intent, forbidden = self.action, self.intent, row.forbidden
        for each in (EVERY_ACTION, action, intent):
            if each and each in forbidden:
                return row.node_id, Excluded.FORBIDDEN_ACTION, each
        allowed = row.allowed
        if action and allowed and action not in allowed and EVERY_ACTION not in allowed:
            return row.node_id, Excluded.ACTION_NOT_ALLOWED, action
        return None

    def excludes_none_of(self, roster: Roster) -> bool:
        """Whether neither this job nor any policy excludes a module of the roster."""
        if self.is_narrow or self.intent in roster.forbidden:
            return False
        return not self.action or not (roster.has_allowed or self.action in roster.forbidden)

    def passing_rows(
        self, rows: Sequence[RosterRow], top_n: int, misses: Misses
    ) -> list[RosterRow]:
        """Return the first `top_n` of rows by trust that pass every check; note the others."""
        found: list[RosterRow] = []
        out, miss, is_narrow = misses.by_check, self.miss, self.is_narrow
        beyond = out["top_n"]
        for row in rows:
            failed = miss(row) if is_narrow or row.is_restricted else row.barred
            if failed is not None:
                out[failed[0]].append(failed[1])
            elif len(found) < top_n:
                found.append(row)
            else:
                beyond.append(row.beyond)
        return found
