"""Turns as rows, for lists and counts: a view of the ledger that can be made again at any time.

Nothing is proved from here. Lists are paged by key, never by offset, so that a page deep in the
past costs as much as the first.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, cast

import apsw
from msgspec import Struct

from pointsman.kernel.instant import LATEST, Instant
from pointsman.storage.sqlite.database import (
    in_transaction,
    named_blocks,
    open_database,
    sql_text,
    sqlite_errors_told,
    told_errors,
)
from pointsman.storage.stores.turn_rows import (
    BUCKET,
    CallMade,
    LaterMade,
    RefusalMade,
    Row,
    TurnMade,
    TurnSums,
    WorkerMade,
)
from pointsman.turns.story.turn_story import REFUSALS, TurnState

_CONDITIONS: Final = {
    "digest": "digest = :digest",
    "session": "session_id = :session AND session_id <> ''",
    "rule": "rule = :rule AND rule <> ''",
    "state": "state = :state AND state <> 'done'",
    "workspace": "workspace = :workspace AND workspace <> ''",
    "model": "model = :model",
    "policy": "policy = :policy",
    "tenant": "tenant = :tenant AND tenant <> ''",
    "cost": "cost_microusd >= :least AND cost_microusd > 0",
    "time": "TRUE",
}
"""What each index `turns_by_...` finds; the filter that leaves the fewest turns first."""

_SESSIONS: Final = {
    "name": ("", "session_id = :named"),
    "tenant": ("INDEXED BY sessions_by_tenant", "tenant = :tenant AND tenant <> ''"),
    "time": ("INDEXED BY sessions_by_time", "TRUE"),
}
"""How sessions are found: one by its name, or the latest, of one tenant or of all."""


def _queries() -> dict[str, str]:
    blocks = dict(named_blocks(sql_text("turn_index_queries.sql")))
    listing = blocks.pop("list_turns")
    for name, condition in _CONDITIONS.items():
        query = listing.format(index=f"turns_by_{name}", condition=condition)
        blocks[f"list_turns_by_{name}"] = query
    listing = blocks.pop("list_sessions")
    for name, (index, condition) in _SESSIONS.items():
        blocks[f"list_sessions_by_{name}"] = listing.format(index=index, condition=condition)
    return blocks


_SQL = _queries()


class Listed(Struct, frozen=True):
    """One turn of a list, with what became of it."""

    at: Instant
    turn_id: str
    decision_id: str
    session_id: str
    model: str
    policy: str
    rule: str
    workspace: str
    digest: str
    gate: str
    placement_rule: str
    rejected: int
    is_preview: int
    is_worker: int
    state: TurnState
    served: str
    fallbacks: int
    calls: int
    failed: int
    error_class: str
    cost_microusd: int
    input_tokens: int
    output_tokens: int
    elapsed_us: int


class Wanted(Struct, frozen=True):
    """Which turns to list; None is any. `at` and `before` say where the last page ended."""

    digest: str | None = None
    session: str | None = None
    rule: str | None = None
    workspace: str | None = None
    model: str | None = None
    policy: str | None = None
    least: int | None = None
    state: TurnState | None = None
    tenant: str | None = None
    at: Instant = LATEST
    before: str = ""


class Mark(Struct, frozen=True):
    """How far a chain was read: the number of the next entry, and the hash of the last."""

    next: int
    hash: bytes


class SessionLine(Struct, frozen=True):
    """One session as its turns show it."""

    session_id: str
    first: Instant
    last: Instant
    turns: int
    fallbacks: int
    switches: int
    model: str
    calls: int
    cost_microusd: int
    is_worker: int


class ModelLine(Struct, frozen=True):
    """What one model did in a session."""

    model: str
    turns: int
    calls: int
    cost_microusd: int
    input_tokens: int
    output_tokens: int


class RuleHits(Struct, frozen=True):
    """How often a rule chose a model that took the turn, and how often one that could not."""

    rule: str
    hits: int
    rejected: int
    last: Instant


class TimeBucket(Struct, frozen=True):
    """The turns of five minutes that went to one model."""

    start: Instant
    model: str
    turns: int
    fallbacks: int
    cost_microusd: int


class EndedTurn(Struct, frozen=True):
    """How one turn went: the model that had it last, its times and its cost."""

    model: str
    state: TurnState
    fallbacks: int
    elapsed_us: int
    first_byte_us: int
    cost_microusd: int


class LearnedTurns(Struct, frozen=True):
    """The turns that similar turns sent to one model."""

    model: str
    turns: int
    failed: int
    cost_microusd: int
    input_tokens: int
    output_tokens: int


class FilterValue(Struct, frozen=True):
    """A value that a filter can have, and how many turns have it."""

    what: str
    value: str
    turns: int


class TurnIndex:
    """The rows of one home; may be shared by threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # DURABILITY: what a power cut takes is read from the ledger again.
        self._connection = open_database(str(path), "turn_index.sql", sync="NORMAL")
        self._connection.execute(_SQL["index_costs"])
        # Rows of before there were first bytes raise here, and are made anew.
        self._connection.execute("SELECT tenant, first_byte_us FROM turns LIMIT 0")
        self._lock = threading.RLock()

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._connection.close()

    def marks(self) -> dict[str, Mark]:
        """Tell how far each chain was read."""
        rows = self._rows("read_progress", ())
        return {str(name): Mark(int(at), bytes(last)) for name, at, last in rows}  # type: ignore[call-overload] # STRICT tables

    def take(self, chain: str, mark: Mark, rows: Iterable[Row], first: int | None = None) -> bool:
        """Add the next entries of a chain, and how far they go.

        False, and nothing is added, where another process has read from `first` on before.
        """
        with self._lock, told_errors(self._path), self._connection.transaction():
            read = self.marks().get(chain)
            if first is not None and first != (read.next if read else 0):
                return False
            self._add_rows(chain, mark, rows)
            return True

    def clear(self) -> None:
        """Forget everything: the ledger is not the one that was read."""
        with self._lock, told_errors(self._path):
            in_transaction(self._connection, lambda: self._connection.execute(_SQL["forget"]))

    def turns(self, wanted: Wanted, most: int) -> list[Listed]:
        """Return turns, the newest first."""
        bound = {name: getattr(wanted, name) for name in wanted.__struct_fields__} | {"most": most}
        filters = bound | {"state": None if wanted.state == "done" else wanted.state}
        lead = next((name for name in _CONDITIONS if filters.get(name) is not None), "time")
        if wanted.least and lead not in _FEW and self._is_rare(wanted.least):
            lead = "cost"
        return [Listed(*row) for row in self._rows(f"list_turns_by_{lead}", bound)]  # type: ignore[arg-type] # STRICT tables

    def _is_rare(self, least: int) -> bool:
        """Whether so few turns cost so much that looking at all of them is least work."""
        (found,) = self._rows("count_dear", (least, RARE + 1))[0]
        return cast("int", found) <= RARE

    def sessions(
        self,
        most: int,
        named: str | None = None,
        *,
        with_workers: bool = False,
        tenant: str | None = None,
    ) -> list[SessionLine]:
        """Return sessions, those of the latest turns first; workers only where they are wanted.

        Here and below, `tenant` leaves only the rows of one tenant.
        """
        bound = {"named": named, "most": most, "with_workers": with_workers, "tenant": tenant}
        lead = "name" if named is not None else "time" if tenant is None else "tenant"
        return [SessionLine(*row) for row in self._rows(f"list_sessions_by_{lead}", bound)]  # type: ignore[arg-type] # STRICT tables

    def session_models(self, session_id: str) -> list[ModelLine]:
        """Return what the models of a session did."""
        return [ModelLine(*row) for row in self._rows("session_models", (session_id,))]  # type: ignore[arg-type] # STRICT tables

    def workers(self) -> list[tuple[str, str]]:
        """Return pairs of a session and a session it delegated to."""
        return [(str(parent), str(worker)) for parent, worker in self._rows("list_workers", ())]

    def count(self, tenant: str | None = None) -> int:
        """Tell how many turns there are, previews included."""
        (found,) = self._rows("count_turns", {"tenant": tenant})[0]
        return cast("int", found)

    def rule_hits(self, tenant: str | None = None) -> list[RuleHits]:
        """Return how often each rule chose."""
        return [RuleHits(*row) for row in self._rows("rule_hits", {"tenant": tenant})]  # type: ignore[arg-type] # STRICT tables

    def buckets(self, since: Instant, tenant: str | None = None) -> list[TimeBucket]:
        """Return counts over time from an instant on."""
        rows = self._rows("buckets_since", {"since": since // BUCKET, "tenant": tenant})
        return [TimeBucket(Instant(int(row[0]) * BUCKET), *row[1:]) for row in rows]  # type: ignore[call-overload,arg-type] # STRICT tables

    def ended_turns(
        self, since: Instant, end: Instant, tenant: str | None, most: int
    ) -> list[EndedTurn]:
        """Return how the turns of a span of time went, the newest first."""
        bound = {"since": since, "end": end, "tenant": tenant, "most": most}
        return [EndedTurn(*row) for row in self._rows("ended_turns", bound)]  # type: ignore[arg-type] # STRICT tables

    def learned_turns(self, since: Instant, end: Instant, tenant: str | None) -> list[LearnedTurns]:
        """Return what became of turns that similar turns spoke for, by model."""
        bound = {"since": since, "end": end, "tenant": tenant}
        return [LearnedTurns(*row) for row in self._rows("learned_turns", bound)]  # type: ignore[arg-type] # STRICT tables

    def values(self, tenant: str | None = None) -> list[FilterValue]:
        """Return the values that filters can have."""
        return [FilterValue(*row) for row in self._rows("turn_values", {"tenant": tenant})]  # type: ignore[arg-type] # STRICT tables

    def _rows(
        self, name: str, bound: tuple[object, ...] | Mapping[str, object]
    ) -> list[tuple[object, ...]]:
        with self._lock, told_errors(self._path):
            return [*self._connection.execute(_SQL[name], bound)]

    def _add_rows(self, chain: str, mark: Mark, rows: Iterable[Row]) -> None:
        sums = TurnSums()
        for row in rows:
            match row:
                case TurnMade():
                    self._add_turn(row, sums)
                case LaterMade():
                    self._add_later(row, sums)
                case CallMade():
                    self._add_call(row, sums)
                case RefusalMade():
                    self._run("note_refusal", (row.turn_id,))
                case WorkerMade():
                    self._run("add_worker", (row.parent, row.worker))
        for name, bound in sums.statements():
            self._run(name, bound)
        self._run("write_progress", (chain, mark.next, mark.hash))

    def _add_turn(self, row: TurnMade, sums: TurnSums) -> None:
        state = "preview" if row.is_preview else "open" if row.model else "refused"
        values = (
            row.at, row.turn_id, row.decision_id, row.session_id, row.model, row.policy, row.rule,
            row.workspace, row.digest, row.gate, row.placement_rule, row.rejected,
            int(row.is_preview), int(row.is_worker), state, row.tenant, row.model,
        )  # fmt: skip
        self._run("add_turn", values)
        sums.add_turn(row)

    def _add_later(self, row: LaterMade, sums: TurnSums) -> None:
        found = self._connection.execute(_SQL["newest_turn"], (row.turn_id,)).fetchone()
        if found is not None:
            turn, at, session, tenant = found
            self._run("add_follower", (row.decision_id, turn))
            self._run("note_fallback" if row.is_fallback else "note_override", (row.model, turn))
            sums.add_later(at, session, tenant, row)

    def _add_call(self, row: CallMade, sums: TurnSums) -> None:
        ended = "refused" if row.error_class in REFUSALS else "failed" if row.is_failed else ""
        bound: dict[str, str | int] = {
            "decision": row.decision_id, "model": row.model, "ended": ended,
            "failed": int(row.is_failed), "error": row.error_class,
            "cost": row.cost_microusd, "input": row.input_tokens, "output": row.output_tokens,
            "elapsed": row.elapsed_us, "first": row.first_byte_us,
        }  # fmt: skip
        found = self._note_call(bound)
        if found is None:
            lead = self._connection.execute(_SQL["lead_decision"], (row.decision_id,)).fetchone()
            found = None if lead is None else self._note_call(bound | {"decision": lead[0]})
        if found is not None:
            sums.add_call(*found, row)

    def _note_call(self, bound: dict[str, str | int]) -> tuple[int, str, str] | None:
        rows = [*self._connection.execute(_SQL["note_call"], bound)]
        return rows[0] if rows else None

    def _run(
        self, name: str, bound: tuple[str | int | bytes, ...] | Mapping[str, str | int]
    ) -> None:
        self._connection.execute(_SQL[name], bound)


_FEW: Final = ("digest", "session")
"""Filters that leave so few turns that no other one is worth a look."""

RARE: Final = 2_000
"""Up to so many turns are sorted by time after they were found by their cost."""


def opened_index(path: Path) -> TurnIndex:
    """Open the rows of a home; a file that cannot be read is made anew, since it holds nothing."""
    try:
        return TurnIndex(path)
    except (apsw.Error, OSError, ValueError):
        for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
            each.unlink(missing_ok=True)
        with sqlite_errors_told(path):
            return TurnIndex(path)
