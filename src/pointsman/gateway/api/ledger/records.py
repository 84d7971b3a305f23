"""What was recorded, over HTTP: decisions of any room, what left, backtests, the whole ledger."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final, get_args

from msgspec import Raw

from pointsman.app import Pointsman
from pointsman.audit.backtest.result import backtest_value
from pointsman.audit.egress import egress_value
from pointsman.audit.export import BundleSummary
from pointsman.audit.replay import Progress
from pointsman.errors import InputError, LedgerBroken
from pointsman.gateway.access import caller_of, check_reader
from pointsman.gateway.api import query
from pointsman.gateway.api.bodies import body_as
from pointsman.gateway.api.ledger.progress import told_progress, wants_events
from pointsman.gateway.api.ledger.shapes import BacktestBody
from pointsman.gateway.api.shapes import DecisionRow
from pointsman.gateway.asgi import Handler
from pointsman.gateway.http import NO_STORE, Asked, Receive, Send, answer_value, in_thread
from pointsman.gateway.parts import Parts
from pointsman.kernel.instant import EPOCH, LATEST, Instant, instant_text, read_instant
from pointsman.kernel.record import DECISION, Room, read_recorded
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader, Stored

BUNDLE: Final = "pointsman-ledger.jsonl"
_LINKED: Final = {"turn": ("turn", "turn.fallback")}
_PIECE: Final = 256 * 1024


class Records:
    """Serves what was recorded."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {
            ("GET", "/api/decisions"): self.decisions,
            ("GET", "/api/audit/egress"): self.egress,
            ("POST", "/api/backtest"): self.backtest,
            ("POST", "/api/export"): self.export,
        }

    async def decisions(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """List the latest decisions of any room."""
        check_reader(self._parts, asked)
        kinds, most = _kinds(asked), query.limit(asked)
        since, before = query.instant(asked, "since", EPOCH), query.instant(asked, "before", LATEST)
        database = self._parts.pointsman.home.database

        def found() -> list[DecisionRow]:
            return [_row(each) for each in _latest(database, kinds, before, most)]

        rows = await in_thread(found)
        earliest = instant_text(since)
        await answer_value(send, {"decisions": [each for each in rows if each.at >= earliest]})

    async def egress(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell what left this machine since an instant."""
        check_reader(self._parts, asked)
        pointsman, since = self._parts.pointsman, query.instant(asked, "since", EPOCH)
        report = await in_thread(lambda: pointsman.egress(since))
        await answer_value(send, egress_value(report))

    async def backtest(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Decide the recorded turns again under another policy."""
        check_reader(self._parts, asked, "act")
        given = body_as(asked, BacktestBody)
        since = EPOCH if given.since is None else read_instant(given.since)
        pointsman = self._parts.pointsman
        models = None if given.models is None else (_bytes(given.models), "models.yaml")
        policy = pointsman.candidate_policy((_bytes(given.policy), "routing.yaml"), models)

        def run(progress: Progress | None) -> object:
            made = pointsman.backtest(policy, since, previews=given.previews, progress=progress)
            return backtest_value(made)

        if wants_events(asked):
            await told_progress(send, run)
        else:
            await answer_value(send, await in_thread(lambda: run(None)))

    async def export(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Send the ledger as a bundle that another machine can verify."""
        caller_of(self._parts, asked, "admin")
        with tempfile.TemporaryDirectory(prefix="pointsman-export-") as folder:
            target = Path(folder) / BUNDLE
            summary = await in_thread(lambda: _exported(self._parts.pointsman, target))
            with target.open("rb") as file:
                await _sent(send, file, summary, target.stat().st_size)


def _kinds(asked: Asked) -> list[str]:
    room = query.parameter(asked, "kind")
    rooms: tuple[str, ...] = get_args(Room)
    if room is not None and room not in rooms:
        raise InputError("`kind` names no room", hint=f"one of {', '.join(rooms)}")
    named = rooms if room is None else (room,)
    return [DECISION + kind for each in named for kind in _LINKED.get(each, (each,))]


def _latest(database: Where, kinds: list[str], before: Instant, most: int) -> list[Stored]:
    """Give the newest entries over several kinds; each kind is asked for by its index."""
    if not database.exists():
        return []
    with told_errors(database), closing(LedgerReader(database)) as ledger:
        rows = [each for kind in kinds for each in ledger.recent(kind, before, most)]
    rows.sort(key=lambda each: (each.entry.at, each.chain, each.entry.seq), reverse=True)
    return rows[:most]


def _row(stored: Stored) -> DecisionRow:
    entry = stored.entry
    _, record, aside = read_recorded(entry.payload)
    return DecisionRow(
        decision_id=entry.id,
        room=record.kind,
        kind=entry.kind.removeprefix(DECISION),
        ref=entry.ref,
        session_id=aside.session_id,
        trace_id=aside.trace_id,
        at=instant_text(entry.at),
        decision_version=record.decision_version,
        policy_id=record.policy_id,
        facts_id=record.facts_id,
        is_preview=aside.is_preview,
        elapsed_ms=aside.elapsed_us / 1000,
        outcome=Raw(bytes(record.outcome)),
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _exported(pointsman: Pointsman, target: Path) -> BundleSummary:
    """Write the bundle of an intact ledger."""
    report = pointsman.verify()
    if not report.is_intact:
        raise LedgerBroken("only an intact ledger is exported", hint="POST /api/verify tells more")
    return pointsman.export(target)


async def _sent(send: Send, file: BinaryIO, summary: BundleSummary, size: int) -> None:
    headers = [
        (b"content-type", b"application/x-ndjson"),
        (b"content-length", str(size).encode()),
        (b"content-disposition", f'attachment; filename="{BUNDLE}"'.encode()),
        (b"x-pointsman-signed-by", summary.key_id.encode()),
        (b"x-pointsman-entries", str(summary.entries).encode()),
        NO_STORE,
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    left = size
    while left > 0:
        piece = await in_thread(lambda: file.read(_PIECE))
        left -= len(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
