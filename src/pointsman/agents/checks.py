"""Who may be asked at all: the checks before any scoring, in their order, each module's first miss.

Document 000 "Security & policy checks", companion D-000-9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from pointsman.agents.codes import Excluded
from pointsman.agents.facts import JobFacts
from pointsman.agents.module import action_key
from pointsman.agents.ready import EVERY_ACTION, Miss, ReadyPolicy, Roster, Row
from pointsman.agents.trace import Check, CheckName

_ORDER: Final[tuple[CheckName, ...]] = (
    "known", "reroute", "rbac", "policy", "status", "min_availability", "top_n",
)  # fmt: skip


class Misses:
    """Who is out, check by check, and in each by trust."""

    __slots__ = ("by_check", "kept")

    def __init__(self) -> None:
        self.by_check: dict[CheckName, list[Miss]] = {name: [] for name in _ORDER}
        self.kept: list[Miss] = []
        """Fallbacks that were named among the candidates: not out, but not asked yet."""

    def __len__(self) -> int:
        return len(self.kept) + sum(map(len, self.by_check.values()))

    def __iter__(self) -> Iterator[Miss]:
        yield from self.kept
        for each in self.by_check.values():
            yield from each

    def checks(self, considered: int) -> list[Check]:
        """Tell how many passed each check, in the order of the checks."""
        left, found = considered - len(self.kept), []
        for name, out in self.by_check.items():
            left -= len(out)
            found.append(Check(name, left, len(out)))
        return found


class Gate:
    """The checks of one job."""

    __slots__ = (
        "action", "denied", "excluded", "intent", "is_narrow", "permitted", "role", "role_modules",
    )  # fmt: skip

    def __init__(self, policy: ReadyPolicy, facts: JobFacts, intent: str, action: str) -> None:
        self.intent = action_key(intent)
        self.action = action_key(action)
        self.excluded = facts.excluded
        self.permitted = None if facts.permitted is None else frozenset(facts.permitted)
        self.role = facts.user_role
        self.role_modules: Collection[str] | None = None
        self.denied: Collection[str] = ()
        if policy.roles:
            # INVARIANT: where roles are declared, one that is not may use nothing.
            self.role_modules, self.denied = policy.roles.get(facts.user_role, ((), ()))
        self.is_narrow = bool(policy.roles or facts.excluded or facts.permitted is not None)

    def miss(self, row: Row) -> tuple[CheckName, Miss] | None:
        """Give the first check that a module fails, the prefilter apart."""
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

    def _policy_miss(self, row: Row) -> Miss | None:
        action, intent, forbidden = self.action, self.intent, row.forbidden
        for each in (EVERY_ACTION, action, intent):
            if each and each in forbidden:
                return row.node_id, Excluded.FORBIDDEN_ACTION, each
        allowed = row.allowed
        if action and allowed and action not in allowed and EVERY_ACTION not in allowed:
            return row.node_id, Excluded.ACTION_NOT_ALLOWED, action
        return None

    def passed(self, roster: Roster, top_n: int, misses: Misses) -> list[Row]:
        """Give the first `top_n` of a roster that pass every check; note the others."""
        if self.is_narrow or self._may_veto(roster):
            return self.passed_one_by_one(roster.rows, top_n, misses)
        for check, barred in roster.barred.items():
            misses.by_check[check] += barred
        misses.by_check["top_n"] += roster.beyond[top_n:]
        return roster.free[:top_n]

    def _may_veto(self, roster: Roster) -> bool:
        """Whether any policy of the roster speaks about this job."""
        if self.action and (roster.has_allowed or self.action in roster.forbidden):
            return True
        return self.intent in roster.forbidden

    def passed_one_by_one(self, rows: Sequence[Row], top_n: int, misses: Misses) -> list[Row]:
        """Give the first `top_n` of rows by trust that pass every check; note the others."""
        found: list[Row] = []
        out, miss = misses.by_check, self.miss
        beyond = out["top_n"]
        for row in rows:
            failed = miss(row)
            if failed is not None:
                out[failed[0]].append(failed[1])
            elif len(found) < top_n:
                found.append(row)
            else:
                beyond.append(row.beyond)
        return found
