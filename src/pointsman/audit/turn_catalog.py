"""The turns of a home as rows: what the ledger gained since the last look is read when asked.

A look has a time limit: while a long ledger is read for the first time, the answer says how much
is still to be read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.audit.recorded_turns import FALLBACK, OPINION, OVERRIDE, TURN, order_of
from pointsman.audit.turn_story import PLACEMENT, read_turn
from pointsman.errors import ChainHeld, LedgerBroken, ReplayError
from pointsman.kernel.entry import Entry
from pointsman.kernel.record import OUTCOME
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.storage.stores.turn_index import Mark, TurnIndex, opened_index
from pointsman.storage.stores.turn_rows import (
    CallMade,
    LaterMade,
    RefusalMade,
    Row,
    TurnMade,
    WorkerMade,
)

TURNS_FILE: Final = "turns.db"
TURNS_LEASE: Final = "turns"
"""Held by the process that reads on without being asked."""

LOOK_S: Final = 0.25
BATCH: Final = 1000
DELEGATED: Final = "event.delegate.started"


class TurnCatalog:
    """The rows of one home, opened when they are first asked for."""

    def __init__(
        self, home: Home, monotonic: Callable[[], float] = time.monotonic, batch: int = BATCH
    ) -> None:
        self._home = home
        self._monotonic = monotonic
        self._batch = batch
        self._index: TurnIndex | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the rows."""
        with self._lock:
            index, self._index = self._index, None
        if index is not None:
            index.close()

    def keep_up(self, limit_s: float) -> bool:
        """Read on for so long, unless another process does; return whether more is to be read."""
        try:
            lease = self._home.lease(TURNS_LEASE)
        except ChainHeld:
            return False
        try:
            return self.look(limit_s)[1] > 0
        finally:
            lease.release()

    def look(self, limit_s: float = LOOK_S) -> tuple[TurnIndex, int]:
        """Return the rows, and how many entries of the ledger they do not know yet."""
        with self._lock:
            if self._index is None:
                self._index = opened_index(self._home.path / TURNS_FILE)
            return self._index, self._behind(self._index, self._monotonic() + limit_s)

    def _behind(self, index: TurnIndex, deadline: float) -> int:
        database = self._home.database
        if not database.exists():
            return 0
        with told_errors(database), closing(LedgerReader(database)) as ledger:
            marks = index.marks()
            if not _is_same(ledger, marks):
                index.clear()
                marks = {}
            return sum(
                self._read(ledger, index, name, marks.get(name), deadline)
                for name in ledger.chains()
            )

    def _read(
        self,
        ledger: LedgerReader,
        index: TurnIndex,
        name: str,
        mark: Mark | None,
        deadline: float,
    ) -> int:
        """Read the new entries of a chain; return how many are left."""
        number = ledger.chains()[name]
        first, size = mark.next if mark else 0, ledger.size(number)
        is_first = True
        # At least one step a look: a clock that jumps must not keep the rows from being made.
        while first < size and (is_first or self._monotonic() < deadline):
            is_first = False
            batch = [*islice(ledger.chain_entries(number, first), self._batch)]
            if not batch:
                break
            end = batch[-1].seq + 1
            if index.take(name, Mark(end, batch[-1].hash), _rows(ledger, number, batch), first):
                first = end
            else:
                # Another process of the home reads them, too, and was first.
                known = index.marks().get(name)
                first = known.next if known else 0
        return max(0, size - first)


def _is_same(ledger: LedgerReader, marks: dict[str, Mark]) -> bool:
    """Tell whether the ledger is the one that was read: it may have been put back from a copy."""
    chains = ledger.chains()
    for name, mark in marks.items():
        if name not in chains:
            return False
        last = next(ledger.chain_entries(chains[name], mark.next - 1), None)
        if last is None or last.hash != mark.hash:
            return False
    return True


class _Aside(Struct):
    session_id: str = ""
    is_preview: bool = False
    tenant: str = ""


class _Outcome(Struct):
    chosen_model: str = ""
    winner_index: int = -1


class _Attempt(Struct):
    rule_name: str


class _Slot(Struct):
    policy: str
    verdict: str
    rule_name: str | None = None
    rule_attempts: tuple[_Attempt, ...] = ()


class _Trace(Struct):
    chain: tuple[_Slot, ...]


class _Decision(Struct):
    outcome: _Outcome
    trace: _Trace


class _Recorded(Struct):
    decision: _Decision
    aside: _Aside


class _Seal(Struct):
    digest: str = ""


class _Placed(Struct):
    gate: str = ""
    rule_id: str = ""


class _Facts(Struct):
    message: _Seal
    workspace_path: str | None = None
    is_worker: bool = False
    placement: _Placed | None = None


class _Placement(Struct):
    outcome: _Placed


class _RecordedPlacement(Struct):
    decision: _Placement


class _Spent(Struct):
    cost_microusd: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class _End(Struct):
    model: str = ""
    error_class: str = ""
    elapsed_us: int = 0
    first_byte_us: int = 0
    spent: _Spent | None = None


class _Ended(Struct):
    detail: _End


class _Worker(Struct):
    worker_session_id: str


class _Started(Struct):
    session_id: str
    payload: _Worker


# Not the canonical forms: those check every byte, and nothing is proved from these rows.
_RECORDED: Final = msgspec.json.Decoder(_Recorded)
_PLACEMENT: Final = msgspec.json.Decoder(_RecordedPlacement)
_FACTS: Final = msgspec.json.Decoder(_Facts)
_ENDED: Final = msgspec.json.Decoder(_Ended)
_STARTED: Final = msgspec.json.Decoder(_Started)
_NO_FACTS: Final = _Facts(_Seal())


def _rows(ledger: LedgerReader, number: int, entries: list[Entry]) -> Iterator[Row]:
    for entry in entries:
        try:
            row = _row(ledger, number, entry)
        except (msgspec.MsgspecError, LedgerBroken, ReplayError):
            # An entry that was changed is for `verify` to name; a list goes on without it.
            continue
        if row is not None:
            yield row


def _row(ledger: LedgerReader, number: int, entry: Entry) -> Row | None:
    if entry.kind == TURN:
        facts = next(iter(ledger.attachments(Stored(number, entry))), None)
        return _turn(entry, _NO_FACTS if facts is None else _FACTS.decode(facts))
    if entry.kind in {FALLBACK, OVERRIDE, OPINION}:
        chosen = _RECORDED.decode(entry.payload).decision.outcome.chosen_model
        return LaterMade(entry.ref, entry.id, chosen, is_fallback=entry.kind == FALLBACK)
    if entry.kind == OUTCOME:
        return _call(entry)
    if entry.kind == PLACEMENT:
        return _refusal(ledger, Stored(number, entry))
    if entry.kind == DELEGATED:
        started = _STARTED.decode(entry.payload)
        return WorkerMade(started.session_id, started.payload.worker_session_id)
    return None


def _turn(entry: Entry, facts: _Facts) -> TurnMade:
    recorded = _RECORDED.decode(entry.payload)
    outcome, chain = recorded.decision.outcome, recorded.decision.trace.chain
    winner = chain[outcome.winner_index] if outcome.winner_index >= 0 else None
    placed = facts.placement or _Placed()
    attempts = [each.rule_name for slot in chain for each in slot.rule_attempts]
    return TurnMade(
        at=entry.at,
        turn_id=entry.ref,
        decision_id=entry.id,
        session_id=recorded.aside.session_id,
        model=outcome.chosen_model,
        policy=winner.policy if winner else "",
        rule=(winner.rule_name or "") if winner else "",
        workspace=facts.workspace_path or "",
        digest=facts.message.digest,
        gate=placed.gate,
        placement_rule=placed.rule_id,
        rejected=sum(slot.verdict == "rejected" for slot in chain),
        is_preview=recorded.aside.is_preview,
        is_worker=facts.is_worker,
        rules_in_vain=tuple(attempts),
        tenant=recorded.aside.tenant,
    )


def _refusal(ledger: LedgerReader, placed: Stored) -> RefusalMade | None:
    """Return the refusal of a call that would have gone on; most placements are none."""
    entry = placed.entry
    if _PLACEMENT.decode(entry.payload).decision.outcome.gate == "open":
        return None
    turns = (each for each in ledger.with_ref(entry.ref) if each.entry.kind == TURN)
    turn = next(turns, None)
    if turn is None or order_of(placed) < order_of(turn):
        return None
    is_one = any(each.decision_id == entry.id for each in read_turn(ledger, turn).refusals)
    return RefusalMade(entry.ref) if is_one else None


def _call(entry: Entry) -> CallMade:
    end = _ENDED.decode(entry.payload).detail
    spent = end.spent or _Spent()
    return CallMade(
        decision_id=entry.ref,
        model=end.model,
        is_failed=bool(end.error_class),
        error_class=end.error_class,
        cost_microusd=spent.cost_microusd or 0,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        elapsed_us=end.elapsed_us,
        first_byte_us=end.first_byte_us,
    )
