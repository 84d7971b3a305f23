"""Workflow decisions over HTTP: definitions, evaluations, their lineage, the cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import Struct

from pointsman.branches.policy import Decision
from pointsman.branches.rules.review import BranchFinding, review
from pointsman.errors import DocumentError, InputError, NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.schema import conform
from pointsman.storage.policies.decision_files import DecisionsInForce
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.decision_cache import MOST_ANSWERS, CacheCount, cache_counts
from pointsman.workflows.branch_log import (
    BranchLog,
    LogEntry,
    decision_value,
    dry_run_value,
    duration,
    log_value,
)
from pointsman.workflows.branching import CACHE_FILE, dry_run
from pointsman.workflows.graph import Graph, subgraph
from pointsman.workflows.lineage import lineage_graph, matching_nodes

MOST_LOGGED: Final = 100
MOST_DRAWN: Final = 10
"""Evaluations in one picture: more than these cannot be read."""


class DryRunBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The context in which the decision's input is evaluated."""

    input: dict[str, Any]


class CacheRow(Struct, frozen=True):
    """The cached answers of a decision."""

    enabled: bool
    ttl: str
    entries: int
    expired: int


class DefinitionsAnswer(Struct, frozen=True):
    """The decisions in force."""

    decisions: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]
    most_answers: int


class DefinitionAnswer(Struct, frozen=True):
    """One decision: its definition, its evaluations, and its cached answers."""

    definition: dict[str, Any]
    distribution: dict[str, int]
    expected: dict[str, float]
    total: int
    log: tuple[dict[str, Any], ...]
    findings: tuple[dict[str, Any], ...]
    cache: CacheRow


class GraphAnswer(Struct, frozen=True):
    """What recorded evaluations came from and led to."""

    version: str
    nodes: tuple[dict[str, Any], ...]
    edges: tuple[dict[str, Any], ...]


class EvaluatedDry(Struct, frozen=True):
    """Where a decision would lead."""

    decision_id: str
    selected_targets: tuple[str, ...]
    selected_labels: tuple[str, ...]
    is_default: bool
    blocked: bool
    would_route_to: tuple[str, ...]
    would_block: bool


class Forgotten(Struct, frozen=True):
    """How many answers of a decision were forgotten."""

    decision_id: str
    removed: int


class WorkflowApi:
    """Serves workflow decisions."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def list_decisions(self, request: ApiRequest) -> object:
        """List the decisions in force."""
        reach = request.caller.reach
        return await in_thread(lambda: self._definitions(reach))

    def _definitions(self, reach: str | None) -> dict[str, object]:
        in_force = self._in_force()
        with self._log(reach) as log:
            entries = [] if log is None else list(log.every())
        rows = [
            {
                **_definition(in_force, each),
                "evaluations": sum(e.outcome.decision_id == each.id for e in entries),
                "kept": self._cache_row(each),
                "warnings": sum(f.decision_id == each.id for f in review(in_force.policy)),
            }
            for each in in_force.policy.decisions
        ]
        problems = [str(each) for each in in_force.problems]
        return {"decisions": rows, "problems": problems, "most_answers": MOST_ANSWERS}

    async def show_decision(self, request: ApiRequest) -> object:
        """Return a decision's definition, and its evaluations so far."""
        name, reach = request.part("id"), request.caller.reach
        return await in_thread(lambda: self._definition(name, reach))

    def _definition(self, name: str, reach: str | None) -> dict[str, object]:
        in_force = self._in_force()
        decision = in_force.ready.decision(name).decision
        counted, total = {}, 0
        logged: list[LogEntry] = []
        with self._log(reach) as log:
            if log is not None:
                found = log.distribution(name)
                counted, total = found.labels, found.total
                logged = list(log.query(decision_id=name))[-MOST_LOGGED:]
        return {
            "definition": _definition(in_force, decision),
            "distribution": counted,
            "expected": expected_shares(decision),
            "total": total,
            "log": [log_value(each) for each in reversed(logged)],
            "findings": [
                _finding(each) for each in review(in_force.policy) if each.decision_id == name
            ],
            "cache": self._cache_row(decision),
        }

    async def show_lineage(self, request: ApiRequest) -> object:
        """Tell what the evaluations of a decision, or one of them, came from and led to."""
        name, reach = request.part("id"), request.caller.reach
        return await in_thread(lambda: self._lineage(name, reach))

    def _lineage(self, name: str, reach: str | None) -> dict[str, object]:
        with self._log(reach) as log:
            graph = lineage_graph([] if log is None else log.every())
        named = matching_nodes(graph, name)
        if not named:
            self._in_force().ready.decision(name)
            return Graph((), ()).value()
        return subgraph(graph, named[-MOST_DRAWN:]).value()

    async def dry_run(self, request: ApiRequest) -> object:
        """Evaluate a decision and leave nothing behind."""
        name = request.part("id")
        found = request.document()
        conform(found, DryRunBody)
        context = _context(found.value)
        in_force, now = self._in_force(), self._parts.pointsman.clock.now()
        problems = in_force.problems_of(name)
        if problems:
            raise DocumentError(problems)
        made = await in_thread(lambda: dry_run(in_force, name, context, now))
        return dry_run_value(made)

    async def clear_cache(self, request: ApiRequest) -> object:
        """Forget the answers that are kept of a decision."""
        name = request.part("id")
        branching = self._parts.pointsman.branching
        if name not in branching.in_force().decisions:
            raise NotFound(f"no decision is called `{name[:100]}`")
        removed = await in_thread(lambda: branching.cache.invalidate(name))
        return Forgotten(name, removed)

    def _in_force(self) -> DecisionsInForce:
        return self._parts.pointsman.branching.in_force()

    @contextmanager
    def _log(self, reach: str | None) -> Iterator[BranchLog | None]:
        home = self._parts.pointsman.home.seen_by(reach)
        if not home.database.exists():
            yield None
            return
        with told_errors(home.database), closing(home.reader()) as ledger:
            yield BranchLog(ledger)

    def _cache_row(self, decision: Decision) -> CacheRow:
        pointsman = self._parts.pointsman
        counts = cache_counts(pointsman.home.path / CACHE_FILE, pointsman.clock.now())
        found = next((each for each in counts if each.decision_id == decision.id), None)
        kept = found or CacheCount(decision.id, 0, 0)
        ttl = duration(decision.cache.ttl_ms)
        return CacheRow(decision.cache.enabled, ttl, kept.entries, kept.expired)


def expected_shares(decision: Decision) -> dict[str, float]:
    """Return the share of each label by its weight; nothing where there are no weights."""
    weights = [(each.label, Decimal(each.weight)) for each in decision.cases if each.weight]
    total = sum(weight for _, weight in weights)
    shares: dict[str, float] = {}
    for label, weight in weights if total else ():
        shares[label] = shares.get(label, 0.0) + float(weight / total)
    return shares


def _definition(in_force: DecisionsInForce, decision: Decision) -> dict[str, object]:
    name = decision.id
    return decision_value(decision, in_force.sources[name], in_force.policy_id(name))


def _finding(finding: BranchFinding) -> dict[str, object]:
    encoder = msgspec.json.Encoder(decimal_format="number")
    example = None if finding.example is None else msgspec.Raw(encoder.encode(finding.example))
    return {**msgspec.structs.asdict(finding), "example": example}


def _context(value: object) -> dict[str, Any]:
    """Return the context as it was read: its numbers are exact there."""
    if not isinstance(value, dict) or not isinstance(value["input"], dict):
        raise InputError("a context is a mapping of names to values")
    return value["input"]
