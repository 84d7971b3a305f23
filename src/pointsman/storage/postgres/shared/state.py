"""Who lives, which turns wait, how calls ended and who may try: kept in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pointsman.kernel.instant import Instant
from pointsman.storage.postgres.connection import lock_key
from pointsman.storage.postgres.shared.pool import Pool
from pointsman.storage.sharing import Beat, Event, LookAhead, Peer, WaitingTurn

EVENTS_KEPT: Final = "1 hour"
"""Longer than anything that happened bears on whether a provider is out."""

MOST_EVENTS: Final = 1000

_BEAT: Final = """
INSERT INTO replicas (
    process, chain, policy_id, version, epoch, holding, beat_at, alive_until
) VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (process) DO UPDATE SET
    chain = excluded.chain, policy_id = excluded.policy_id, version = excluded.version,
    epoch = excluded.epoch, holding = excluded.holding,
    beat_at = excluded.beat_at, alive_until = excluded.alive_until
RETURNING xmax = 0
"""
_PEERS: Final = """
SELECT process, chain, policy_id, version, epoch, holding,
    (extract(epoch FROM beat_at) * 1000000)::bigint, alive_until > clock_timestamp()
FROM replicas ORDER BY process
"""
_SILENT: Final = """
SELECT 1 FROM replicas
WHERE process = %s AND (extract(epoch FROM beat_at) * 1000000)::bigint = %s
    AND alive_until <= clock_timestamp()
FOR UPDATE SKIP LOCKED
"""
_NOW: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_AHEAD: Final = """
SELECT asked.id, s.pinned_model, events.count,
    t.turn_id, t.decision_id, t.model, t.calls, t.is_escalated
FROM (
    SELECT count(*) FROM pointsman_ledger.entries
    WHERE kind >= %(kind)s AND kind < %(beyond)s AND at_us >= %(since)s
) AS events, unnest(%(sessions)s::text[]) AS asked (id)
LEFT JOIN pointsman_sessions.session AS s ON s.id = asked.id
LEFT JOIN turns AS t ON t.session_id = asked.id
"""
_HOLD_TURNS: Final = """
INSERT INTO turns (session_id, turn_id, decision_id, model, calls, is_escalated, at_us)
SELECT * FROM unnest(
    %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::boolean[], %s::bigint[]
)
ON CONFLICT (session_id) DO UPDATE SET
    turn_id = excluded.turn_id, decision_id = excluded.decision_id, model = excluded.model,
    calls = excluded.calls, is_escalated = excluded.is_escalated, at_us = excluded.at_us
"""
_AFTER: Final = "SELECT seq, body FROM events WHERE seq > %s ORDER BY seq LIMIT %s"
_FORGET_EVENTS: Final = f"DELETE FROM events WHERE at < now() - interval '{EVENTS_KEPT}'"  # noqa: S608 - a constant
_CLAIM: Final = """
INSERT INTO claims AS c (name, holder, until)
VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s))
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE c.until < clock_timestamp() OR c.holder = excluded.holder
RETURNING 1
"""
_GIVE_UP: Final = "DELETE FROM claims WHERE name = %s AND holder = %s"


class SharedState:
    """The shared state of one database's replicas, money apart; may be shared by threads."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def beat(self, beat: Beat, lease_s: float) -> bool:
        """Return a sign of life that is good for so long; True where none was known before."""
        said = (beat.process, beat.chain, beat.policy_id, beat.version, beat.epoch, beat.holding)
        with self._pool.lent() as raw:
            row = raw.execute(_BEAT, (*said, lease_s)).fetchone()
        return row is not None and bool(row[0])

    def peers(self) -> list[Peer]:
        """Return every replica that has not left."""
        with self._pool.lent() as raw:
            rows = raw.execute(_PEERS).fetchall()
        return [Peer(Beat(*row[:6]), row[6], row[7]) for row in rows]

    def leave(self, process: str) -> None:
        """Forget a replica that has let go of everything."""
        with self._pool.lent() as raw:
            raw.execute("DELETE FROM replicas WHERE process = %s", (process,))

    def bury(self, peer: Peer, free: Callable[[], object]) -> bool:
        """Free what a dead replica holds and forget it; False where it lives after all.

        INVARIANT: its sign of life waits for the end of this, and then finds itself forgotten.
        """
        with self._pool.lent() as raw, raw.transaction():
            seen = (peer.beat.process, peer.beat_at_us)
            if raw.execute(_SILENT, seen).fetchone() is None:
                return False
            free()
            raw.execute("DELETE FROM replicas WHERE process = %s", (peer.beat.process,))
        return True

    def now_us(self) -> int:
        """Return the database's time."""
        with self._pool.lent() as raw:
            row = raw.execute(_NOW).fetchone()
        return 0 if row is None else int(row[0])

    def ahead_of(
        self, session_ids: Sequence[str], kind: str, since: Instant
    ) -> tuple[dict[str, LookAhead], int]:
        """Return what all replicas know of sessions, as it is now; in one journey.

        Beside it, how many entries there are since an instant whose kind begins like this.
        """
        asked = {
            "sessions": [*session_ids], "kind": kind, "beyond": f"{kind}\x7f", "since": since
        }  # fmt: skip
        with self._pool.lent() as raw:
            rows = raw.execute(_AHEAD, asked, prepare=True, binary=True).fetchall()
        known = {
            str(name): LookAhead(pinned or "", None if turn[0] is None else WaitingTurn(*turn))
            for name, pinned, _, *turn in rows
        }
        return known, int(rows[0][2]) if rows else 0

    def hold_turns(self, turns: Mapping[str, tuple[WaitingTurn, Instant]]) -> None:
        """Remember the models of turns that wait for a tool, by session; durable on return."""
        rows = [
            (name, turn.turn_id, turn.decision_id, turn.model, turn.calls, turn.is_escalated, at)
            for name, (turn, at) in sorted(turns.items())
        ]
        with self._pool.lent() as raw:
            raw.execute(_HOLD_TURNS, [*map(list, zip(*rows, strict=True))], prepare=True)

    def tell(self, body: bytes) -> None:
        """Append an event; one at a time, so that no reader sees a later one first."""
        with self._pool.lent() as raw, raw.transaction():
            raw.execute("SELECT pg_advisory_xact_lock(%s)", (lock_key("shared/events"),))
            raw.execute("INSERT INTO events (body) VALUES (%s)", (body,))

    def after(self, place: str) -> list[Event]:
        """Return the events after a place, the oldest first; all events for an empty place."""
        with self._pool.lent() as raw:
            rows = raw.execute(_AFTER, (int(place or 0), MOST_EVENTS)).fetchall()
        return [Event(str(seq), bytes(body)) for seq, body in rows]

    def claim(self, name: str, holder: str, for_s: int) -> bool:
        """Claim something for so long; False while another has it."""
        with self._pool.lent() as raw:
            return raw.execute(_CLAIM, (name, holder, for_s)).fetchone() is not None

    def give_up(self, name: str, holder: str) -> None:
        """Release a claim."""
        with self._pool.lent() as raw:
            raw.execute(_GIVE_UP, (name, holder))

    def forget(self, turns_before: Instant) -> None:
        """Forget expired events, and turns that were not continued."""
        with self._pool.lent() as raw:
            raw.execute(_FORGET_EVENTS)
            raw.execute("DELETE FROM turns WHERE at_us < %s", (turns_before,))
            raw.execute("DELETE FROM claims WHERE until < now() - interval '1 hour'")
