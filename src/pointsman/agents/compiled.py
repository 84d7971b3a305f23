"""A policy and its modules, compiled: patterns, availabilities, order. Pure.

Availability depends on both snapshots alone, so it is computed once for all jobs under them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import re2

from pointsman.agents.codes import Excluded
from pointsman.agents.file.config import RouterConfig
from pointsman.agents.modules.module import GENERIC_AGENT, Module, Status, action_key
from pointsman.agents.modules.selfrep import SelfRep, selfrep_id
from pointsman.agents.policy import AgentsPolicy, Intent
from pointsman.agents.trace import Artifact, Check, CheckName, Exclusion
from pointsman.kernel.canonical import ContentId, content_id
from pointsman.kernel.number import SCALE, ZERO, Billionths, billionths_text, times
from pointsman.kernel.regex import options

MAX_TEXT: Final = 32_768
"""Characters of a query that patterns read; the rest is ignored."""


class IntentMatcher:
    """The patterns of all intents as one matcher. Letters match in either case."""

    def __init__(self, intents: Sequence[Intent]) -> None:
        self._intents = intents
        self._owners: list[int] = []
        self._filter: re2.Filter | None = None
        found = [
            (number, pattern)
            for number, intent in enumerate(intents)
            for pattern in intent.patterns
        ]
        if found:
            matcher = re2.Filter()
            for number, pattern in found:
                matcher.Add(pattern, options(is_case_sensitive=False))
                self._owners.append(number)
            matcher.Compile()
            self._filter = matcher

    @property
    def reads_text(self) -> bool:
        """Whether any pattern reads the query."""
        return self._filter is not None

    def first_intent(self, query: str) -> Intent | None:
        """Return the first intent whose pattern is found in a query."""
        if self._filter is None:
            return None
        seen = query[:MAX_TEXT].encode("utf-8", "replace").decode()
        hits = self._filter.Match(seen)
        return self._intents[min(self._owners[hit] for hit in hits)] if hits else None


class CompiledAgentsPolicy:
    """A policy with its patterns compiled; `CompiledAgents` adds the modules it decides about."""

    __slots__ = ("config", "high_risk", "intents", "matcher", "policy", "roles")

    def __init__(self, policy: AgentsPolicy) -> None:
        self.policy = policy
        self.config = policy.router_config
        self.matcher = IntentMatcher(policy.intents)
        self.intents: dict[str, Intent] = {}
        for each in policy.intents:
            self.intents.setdefault(each.intent, each)
        self.roles = {
            each.role: (
                None if each.modules is None else frozenset(each.modules),
                frozenset(each.denied),
            )
            for each in policy.roles
        }
        self.high_risk = frozenset(map(action_key, self.config.high_risk_actions))


def compile_policy(policy: AgentsPolicy) -> CompiledAgentsPolicy:
    """Compile a policy once, for every snapshot of modules under it."""
    return CompiledAgentsPolicy(policy)


EVERY_ACTION: Final = "*"

Miss = tuple[str, Excluded, str]
"""An excluded module: its name, the reason, and the detail."""


class RosterRow:
    """A module with its values under both snapshots. `barred` is why it can never be scored."""

    __slots__ = (
        "allowed", "apt", "availability", "availability_term", "barred", "beyond", "forbidden",
        "is_restricted", "lack", "module", "node_id", "rank", "served", "serves", "status",
        "unhealthy", "weight",
    )  # fmt: skip

    def __init__(self, module: Module, config: RouterConfig, unhealthy: tuple[str, ...]) -> None:
        self.module = module
        self.node_id = module.node_id
        self.status: Status = module.status
        self.apt = module.apt
        self.rank = (-module.apt, module.node_id)
        self.weight = _weight(module.status, config)
        self.unhealthy = unhealthy
        availability = times(module.apt, self.weight)
        if unhealthy:
            # Once, however many of them there are (D-000-19).
            availability = times(availability, config.dep_unhealthy_penalty)
        self.availability = availability
        self.lack = SCALE - availability
        self.availability_term = times(config.weight_avail, availability)
        self.served = config.weight_avail * availability * SCALE
        self.serves = frozenset(module.capabilities)
        self.forbidden = frozenset(map(action_key, module.policy.forbidden_actions))
        self.allowed = frozenset(map(action_key, module.policy.allowed_actions))
        self.is_restricted = bool(self.forbidden or self.allowed)
        self.barred = _bar_reason(module, availability, config)
        if EVERY_ACTION in self.forbidden:
            self.barred = "policy", (module.node_id, Excluded.FORBIDDEN_ACTION, EVERY_ACTION)
        self.beyond: Miss = (module.node_id, Excluded.BEYOND_TOP_N, "")


def _weight(status: Status, config: RouterConfig) -> Billionths:
    if status == "healthy":
        return config.status_weight_healthy
    return config.status_weight_degraded if status == "degraded" else ZERO


def _bar_reason(
    module: Module, availability: Billionths, config: RouterConfig
) -> tuple[CheckName, Miss] | None:
    if module.status == "quarantined":
        return "status", (module.node_id, Excluded.QUARANTINED, "")
    if module.status == "offline":
        return "status", (module.node_id, Excluded.OFFLINE, "")
    if availability < config.min_availability:
        detail = f"{billionths_text(availability)} < {billionths_text(config.min_availability)}"
        return "min_availability", (module.node_id, Excluded.LOW_AVAILABILITY, detail)
    return None


class Screening(NamedTuple):
    """The result of the checks: how many passed each, the excluded, and all of a long list."""

    checks: tuple[Check, ...]
    excluded: tuple[Exclusion, ...]
    total: int
    artifact: Artifact | None


class Misses:
    """The excluded modules, check by check, and in each by trust."""

    __slots__ = ("by_check", "kept")

    def __init__(self) -> None:
        # In the order of the checks.
        self.by_check: dict[CheckName, list[Miss]] = {
            "known": [], "reroute": [], "rbac": [], "policy": [], "status": [],
            "min_availability": [], "top_n": [],
        }  # fmt: skip
        self.kept: list[Miss] = []
        """Fallbacks named among the candidates: not excluded, but not asked yet."""

    def __len__(self) -> int:
        return len(self.kept) + sum(map(len, self.by_check.values()))

    def __iter__(self) -> Iterator[Miss]:
        return chain(self.kept, *self.by_check.values())

    def checks(self, considered: int) -> tuple[Check, ...]:
        """Return how many passed each check, in the order of the checks."""
        left, found = considered - len(self.kept), []
        for name, out in self.by_check.items():
            left -= len(out)
            found.append(Check(name, left, len(out)))
        return tuple(found)

    def screening(self, checks: tuple[Check, ...], config: RouterConfig) -> Screening:
        """Return the result of the checks; of a long list its head, and all as an artifact."""
        rows, most = list(self), config.trace_rows
        shown = tuple([Exclusion(*each) for each in rows[:most]])
        body = _ROWS.encode(rows) if len(rows) > most else b""
        artifact = Artifact(content_id(body), body) if body else None
        return Screening(checks, shown, len(rows), artifact)


_ROWS: Final = msgspec.json.Encoder()


class Roster:
    """Rows by trust, with the checks that need no job."""

    __slots__ = ("barred", "beyond", "first", "forbidden", "has_allowed", "rows", "screening")

    def __init__(self, rows: Sequence[RosterRow], config: RouterConfig) -> None:
        self.rows = rows
        free = [row for row in rows if row.barred is None]
        self.first = free[: config.top_n]
        self.beyond = [row.beyond for row in free[config.top_n :]]
        self.barred: dict[CheckName, list[Miss]] = {}
        for row in rows:
            if row.barred is not None:
                self.barred.setdefault(row.barred[0], []).append(row.barred[1])
        self.forbidden = frozenset(each for row in rows for each in row.forbidden)
        self.has_allowed = any(row.allowed for row in rows)
        misses = self.misses()
        self.screening = misses.screening(misses.checks(len(rows)), config)
        """The result of the checks for every job that vetoes no module of this roster."""

    def misses(self) -> Misses:
        """Return the modules excluded from every job, before its own vetoes."""
        misses = Misses()
        for check, barred in self.barred.items():
            misses.by_check[check] += barred
        misses.by_check["top_n"] += self.beyond
        return misses


class CompiledAgents:
    """A policy and a snapshot of the modules: all that decides a job, besides its facts."""

    __slots__ = (
        "agents", "by_capability", "fallback_names", "fallbacks", "policy", "rows", "selfrep",
        "selfrep_id",
    )  # fmt: skip

    def __init__(self, policy: CompiledAgentsPolicy, selfrep: SelfRep) -> None:
        self.policy = policy
        self.selfrep = selfrep
        self.selfrep_id: ContentId = selfrep_id(selfrep)
        unhealthy = _unhealthy(selfrep)
        config = policy.config
        self.rows = {
            each.node_id: RosterRow(each, config, unhealthy.get(each.node_id, ()))
            for each in selfrep.modules
        }
        self.fallbacks = _fallbacks(self.rows)
        self.fallback_names = kept = tuple(row.node_id for row in self.fallbacks)
        agents = sorted_rows(
            row
            for row in self.rows.values()
            if row.module.type == "agent" and row.node_id not in kept
        )
        self.agents = Roster(agents, config)
        able: dict[str, list[RosterRow]] = {}
        for row in agents:
            for each in row.module.capabilities:
                able.setdefault(each, []).append(row)
        self.by_capability = {name: Roster(rows, config) for name, rows in able.items()}


def sorted_rows(rows: Iterable[RosterRow]) -> list[RosterRow]:
    """Sort rows by trust, the highest first, then by name: the order of the prefilter."""
    return sorted(rows, key=_RANK)


_RANK: Final = attrgetter("rank")


def _unhealthy(selfrep: SelfRep) -> dict[str, tuple[str, ...]]:
    """Return the required dependencies that are not healthy, by the module that needs them."""
    statuses = {each.node_id: each.status for each in selfrep.modules}
    found: dict[str, list[str]] = {}
    for each in selfrep.edges:
        if each.required and statuses.get(each.to) != "healthy":
            found.setdefault(each.from_, []).append(each.to)
    return {node_id: tuple(sorted(names)) for node_id, names in found.items()}


def _fallbacks(rows: dict[str, RosterRow]) -> list[RosterRow]:
    named = [row for row in rows.values() if row.module.is_fallback]
    generic = rows.get(GENERIC_AGENT)
    return sorted_rows(named) if named or generic is None else [generic]
