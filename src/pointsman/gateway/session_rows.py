"""Sessions as their latest turns show them: read from the ledger, newest turns first."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from pointsman.app import TURN, Pointsman
from pointsman.gateway.shapes import SessionRow, TaintRow
from pointsman.kernel.instant import LATEST, Instant, instant_text
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.kernel.record import read_recorded
from pointsman.runs.event_stream import worker_sessions
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.sqlite.reading import LedgerReader, Stored
from pointsman.storage.sqlite.spend import SpendAmounts
from pointsman.storage.sqlite.spend_reading import SpendReader
from pointsman.turns.trace import OUTCOME_FORM

LOOKED_AT: Final = 5000
"""How many of the latest turns are looked at; older ones are in the ledger."""


class _Session:
    """What was seen of a session so far, from its newest turn back."""

    def __init__(self, at: Instant) -> None:
        self.first = self.last = at
        self.turns = self.fallbacks = 0
        self.models: list[str] = []

    def add(self, at: Instant, model: str, *, is_fallback: bool) -> None:
        self.first = min(self.first, at)
        self.fallbacks += is_fallback
        self.turns += not is_fallback
        if model and (not self.models or self.models[-1] != model):
            self.models.append(model)


def session_rows(
    pointsman: Pointsman, pins: Mapping[str, str], spending: Where
) -> list[SessionRow]:
    """Give the sessions of the latest turns, the latest first; those of workers are not listed."""
    seen: dict[str, _Session] = {}
    for stored in _latest(pointsman.home.database):
        _add(seen, stored)
    tainted = {each.session_id: each for each in pointsman.tainted()}
    spent = _spent(spending)
    workers = worker_sessions(pointsman.home)
    rows = []
    for name, each in seen.items():
        if name in workers:
            continue
        held, money = tainted.get(name), spent.get(name)
        taint = None
        if held is not None:
            told = held.taint
            taint = TaintRow(told.turn_id, told.rule_id, instant_text(held.since))
        rows.append(
            SessionRow(
                session_id=name,
                first_at=instant_text(each.first),
                last_at=instant_text(each.last),
                turns=each.turns,
                fallbacks=each.fallbacks,
                model=each.models[0] if each.models else "",
                model_switches=max(0, len(each.models) - 1),
                pinned_model=pins.get(name),
                taint=taint,
                calls=0 if money is None else money.calls,
                cost_usd=microusd_text(MicroUsd(0 if money is None else money.cost_microusd)),
            )
        )
    return rows


def _latest(database: Where) -> list[Stored]:
    if not database.exists():
        return []
    with told_errors(database), closing(LedgerReader(database)) as ledger:
        kinds = (TURN, f"{TURN}.fallback")
        found = [each for kind in kinds for each in ledger.recent(kind, LATEST, LOOKED_AT)]
    found.sort(key=lambda each: (each.entry.at, each.chain, each.entry.seq), reverse=True)
    return found[:LOOKED_AT]


def _add(seen: dict[str, _Session], stored: Stored) -> None:
    entry = stored.entry
    _, record, aside = read_recorded(entry.payload)
    if aside.is_preview or not aside.session_id:
        return
    session = seen.setdefault(aside.session_id, _Session(entry.at))
    model = OUTCOME_FORM.decode(bytes(record.outcome)).chosen_model
    session.add(entry.at, model, is_fallback=entry.kind != TURN)


def _spent(where: Where) -> dict[str, SpendAmounts]:
    if not where.exists():
        return {}
    with closing(SpendReader(where)) as reader:
        return {each.what: each.amounts for each in reader.totals("session")}
