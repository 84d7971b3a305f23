"""The tables of a home besides its ledger: those that a copy takes, and those it leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from pointsman.storage.connection import Connection, Row


class CopiedTable(Struct, frozen=True):
    """One table: its columns, by which of them a row is known, and in which order they are put.

    `numbered` is a column that the database counts up by itself.
    """

    place: str
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    order: str = ""
    numbered: str = ""

    @property
    def title(self) -> str:
        """The table's name with its store's."""
        return f"{self.place}.{self.name}"

    def read(self, connection: Connection, *, in_key_order: bool = True) -> Iterable[Row]:
        """Return the rows, the keys in the order of their bytes, or as they were put."""
        order = ", ".join(self.key) if in_key_order or not self.order else self.order
        chosen = ", ".join(self.columns)
        return connection.stream(f"SELECT {chosen} FROM {self.name} ORDER BY {order}")  # noqa: S608 - names of this file


def _table(place: str, name: str, columns: str, key: str, **more: str) -> CopiedTable:
    return CopiedTable(place, name, tuple(columns.split()), tuple(key.split()), **more)


CONTENTS: Final = _table("content", "contents", "digest kept text", "digest")

TABLES: Final = (
    _table(
        "access",
        "keys",
        "id digest body revoked_at last_used_at changed",
        "id",
        order="rowid",
    ),
    _table("access", "admin", "one digest", "one"),
    _table(
        "sessions",
        "session",
        "id pinned_model turn_id decision_id locked_model changed_at",
        "id",
    ),
    _table("patterns", "fingerprints", "id body vector samples updated_us", "id"),
    _table(
        "patterns",
        "outcomes",
        "fingerprint model samples score_sum score_count cost_microusd latency_ms pricing_version"
        " updated_us",
        "fingerprint model",
    ),
    _table("patterns", "turns", "id fingerprint model at_us score", "id"),
    _table("patterns", "evals", "id turn", "id"),
    _table("patterns", "imports", "id fingerprint", "id"),
    _table("patterns", "tokens", "fingerprint vector", "fingerprint"),
    _table("patterns", "origins", "turn origin", "turn"),
    _table("patterns", "calibrations", "number id body", "number", numbered="number"),
    _table(
        "conversations",
        "session",
        "id parent_session_id parent_tool_use_id workspace privacy sticky_model started_at"
        " changed_at ended_at",
        "id",
    ),
    _table(
        "conversations",
        "turn",
        "id session_id decision_id model status started_at ended_at cost_microusd latency_ms"
        " pricing_version fingerprint vector score is_score_explicit score_confidence is_learned",
        "id",
    ),
    _table(
        "conversations",
        "message",
        "number id session_id turn_id role metadata created_at schema_version kept content",
        "number",
        numbered="number",
    ),
    _table(
        "semantic",
        "versions",
        "namespace key version value request_id entry action_hash requested_by approved_by at_us",
        "namespace key version",
    ),
    _table(
        "bulk",
        "bulk_jobs",
        "id kind given begun_us ended_us state is_clean told found",
        "id",
    ),
    _table(
        "bulk",
        "bulk_ranges",
        "job place chain chain_number first_seq end_seq tries trouble done_us part",
        "job place",
    ),
)
"""In an order in which no row comes before one that it refers to."""

STAYING: Final = frozenset({"semantic.versions"})
"""What cannot be removed, and so is only added to."""

_FOLDED: Final = "folded anew from the copied ledger"
_LIVING: Final = "about processes that serve, and none does"
_OWN: Final = "the target's own"
_KEPT_UP: Final = "kept up by the target itself, from what is copied"
_LOCAL: Final = "made again on each machine"

LEFT_OUT: Final = {
    "spend.spent": _FOLDED,
    "spend.batches": "which of a writer's calls are in the sums: they are folded anew",
    "spend.accounts": "counted from the sums when a budget is first checked",
    "spend.holds": _LIVING,
    "spend.buckets": "what keys may still ask for in this minute",
    "shared.marks": _FOLDED,
    "shared.accounts": "counted from the sums when a budget is first checked",
    "shared.holds": _LIVING,
    "shared.replicas": _LIVING,
    "shared.claims": _LIVING,
    "shared.events": "which providers are out: found out anew",
    "health.health": "which providers are out: found out anew",
    "patterns.changes": _KEPT_UP,
    "patterns.changed": _KEPT_UP,
    "patterns.structures": _KEPT_UP,
    "patterns.looks": _KEPT_UP,
    **{
        f"live.{name}": _LIVING
        for name in ("gateways", "marks", "turns", "taints", "buckets", "counts", "logins")
    },
    "witness.logs": "a witness's own: it keeps a folder of its own, which is no home",
    "schema_migrations": _OWN,
    "copies": _OWN,
    "leases": _OWN,
    "queue": "handed out anew, for every bulk job that is not at its end",
    "turns": _LOCAL,
    "decision-cache": _LOCAL,
}
"""Tables and whole stores that a copy leaves out, each with the reason."""


def places() -> Iterator[str]:
    """Name the stores whose tables are copied, in their order."""
    yield from dict.fromkeys(each.place for each in TABLES)
