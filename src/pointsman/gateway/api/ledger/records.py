"""Records over HTTP: decisions of any room, egress, replay, backtests, the whole ledger."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final, get_args

import msgspec
from msgspec import Raw

from pointsman.app import Pointsman
from pointsman.audit.backtest.backtester import BacktestCase
from pointsman.audit.backtest.result import backtest_value
from pointsman.audit.backtest.scenario import read_scenario
from pointsman.audit.bisection import bisection_value
from pointsman.audit.egress import egress_value
from pointsman.audit.export import BundleSummary
from pointsman.audit.ledger_query import LedgerQuery, ReportPeriod
from pointsman.audit.period_html import period_html
from pointsman.audit.replay import Progress
from pointsman.audit.witnessed import proofs_value
from pointsman.errors import InputError, LedgerBroken, NotFound, PointsmanError
from pointsman.gateway.api.ledger.shapes import (
    BacktestBody,
    BisectBody,
    DecisionRow,
    VerifyAnswer,
)
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.feed import sse
from pointsman.gateway.serving.http import (
    EVENTS,
    NO_STORE,
    Answer,
    AnswerWriter,
    Asked,
    Send,
    in_thread,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import EPOCH, LATEST, Instant, instant_text, read_instant
from pointsman.kernel.record import DECISION, Room, read_recorded
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import Stored

BUNDLE: Final = "pointsman-ledger.jsonl"
_LINKED: Final = {"turn": ("turn", "turn.fallback", "turn.opinion")}
_PIECE: Final = 256 * 1024
_HTML: Final = (b"content-type", b"text/html; charset=utf-8")


class RecordApi:
    """Serves records."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def list_decisions(self, request: ApiRequest) -> object:
        """List the latest decisions of any room."""
        kinds, most = _kinds(request), request.limit()
        since, before = request.instant("since", EPOCH), request.instant("before", LATEST)
        home = self._parts.pointsman.home.seen_by(request.caller.reach)

        def read_rows() -> list[DecisionRow]:
            return [_row(each) for each in _latest(home, kinds, before, most)]

        rows = await in_thread(read_rows)
        earliest = instant_text(since)
        return {"decisions": [each for each in rows if each.at >= earliest]}

    async def show_egress(self, request: ApiRequest) -> object:
        """Tell what left this machine since an instant."""
        pointsman, since = self._parts.pointsman, request.instant("since", EPOCH)
        reach = request.caller.reach
        report = await in_thread(lambda: pointsman.egress(since, reach))
        return egress_value(report)

    async def count_entries(self, request: ApiRequest) -> object:
        """Count entries of a period; a tenant's key counts its own."""
        pointsman, period = self._parts.pointsman, _period(request)
        query = LedgerQuery(
            request.parameter("kind") or "",
            request.parameters("where"),
            request.parameter("by") or "",
            request.parameter("sum") or "",
        )
        return await in_thread(lambda: pointsman.count_entries(query, period))

    async def report_period(self, request: ApiRequest) -> object:
        """Report a period, as JSON or as a page to print."""
        pointsman, period = self._parts.pointsman, _period(request)
        report = await in_thread(lambda: pointsman.period_report(period))
        if request.parameter("format") != "html":
            return report
        page = await in_thread(lambda: period_html(report))
        return Answer(page.encode(), [_HTML, NO_STORE])

    async def backtest(self, request: ApiRequest) -> object:
        """Decide the recorded turns again under another policy."""
        given = request.body_as(BacktestBody)
        since = EPOCH if given.since is None else read_instant(given.since)
        reach = request.caller.reach
        pointsman = self._parts.pointsman
        models = None if given.models is None else (_bytes(given.models), "models.yaml")

        def read_case(name: str, text: str) -> BacktestCase:
            policy = pointsman.candidate_policy((_bytes(text), name), models)
            return BacktestCase(
                policy, read_scenario(policy, given.prices, given.out, given.without)
            )

        cases = [read_case("routing.yaml", given.policy)]
        cases += [read_case(name, text) for name, text in given.others.items()]

        def run(progress: Progress | None) -> object:
            first, *others = pointsman.backtest_all(
                cases, since, previews=given.previews, progress=progress, tenant=reach
            )
            named = zip(given.others, map(backtest_value, others), strict=True)
            return {**backtest_value(first), **({"others": dict(named)} if others else {})}

        if wants_events(request.asked):
            return AnswerWriter(lambda _receive, send: stream_progress(send, run))
        return await in_thread(lambda: run(None))

    async def bisect(self, request: ApiRequest) -> object:
        """Find the entries that moved turns to another model."""
        given = request.body_as(BisectBody)
        since = EPOCH if given.since is None else read_instant(given.since)
        pointsman, reach = self._parts.pointsman, request.caller.reach
        found = await in_thread(lambda: pointsman.bisect(given.flip, since, tenant=reach))
        return bisection_value(found)

    async def export_ledger(self, request: ApiRequest) -> object:
        """Send the ledger, or a period of it, as a bundle that another machine can verify."""
        period = (request.instant("since", EPOCH), request.instant("until", LATEST))
        return AnswerWriter(lambda _receive, send: self._stream_bundle(send, period))

    async def _stream_bundle(self, send: Send, period: tuple[Instant, Instant]) -> None:
        with tempfile.TemporaryDirectory(prefix="pointsman-export-") as folder:
            target = Path(folder) / BUNDLE
            summary = await in_thread(lambda: _write_bundle(self._parts.pointsman, target, period))
            with target.open("rb") as file:
                await _stream_file(send, file, summary, target.stat().st_size)

    async def replay_all(self, request: ApiRequest) -> object:
        """Re-run recorded decisions."""
        pointsman, since = self._parts.pointsman, request.instant("since", EPOCH)
        reach = request.caller.reach
        return await in_thread(lambda: pointsman.replay_all(since, tenant=reach, from_scratch=True))

    async def verify(self, _request: ApiRequest) -> VerifyAnswer:
        """Check the whole ledger."""
        pointsman = self._parts.pointsman
        report = await in_thread(lambda: pointsman.verify(from_scratch=True))
        proofs = proofs_value(report.proofs)
        return VerifyAnswer(report.is_intact, report.entries, report.faults, report.doubts, proofs)


def _period(request: ApiRequest) -> ReportPeriod:
    """Return the period that is asked for; a key that sees one tenant asks about that tenant."""
    start, end = request.instant("from", EPOCH), request.instant("to", LATEST)
    reach, named = request.caller.reach, request.parameter("tenant")
    if reach is not None and named not in {None, reach}:
        raise NotFound("nothing is recorded of this tenant")
    return ReportPeriod(start, end, reach if reach is not None else named)


def _kinds(request: ApiRequest) -> list[str]:
    room = request.parameter("kind")
    rooms: tuple[str, ...] = get_args(Room)
    if room is not None and room not in rooms:
        raise InputError("`kind` names no room", hint=f"one of {', '.join(rooms)}")
    named = rooms if room is None else (room,)
    return [DECISION + kind for each in named for kind in _LINKED.get(each, (each,))]


def _latest(home: Home, kinds: list[str], before: Instant, most: int) -> list[Stored]:
    """Return the newest entries of several kinds; each kind is read by its index."""
    if not home.database.exists():
        return []
    with told_errors(home.database), closing(home.reader()) as ledger:
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


def _write_bundle(
    pointsman: Pointsman, target: Path, period: tuple[Instant, Instant]
) -> BundleSummary:
    """Write the bundle of an intact ledger."""
    report = pointsman.verify(from_scratch=True)
    if not report.is_intact:
        raise LedgerBroken("only an intact ledger is exported", hint="POST /api/verify tells more")
    return pointsman.export(target, *period)


async def _stream_file(send: Send, file: BinaryIO, summary: BundleSummary, size: int) -> None:
    headers = [
        (b"content-type", b"application/x-ndjson"),
        (b"content-length", str(size).encode()),
        (b"content-disposition", f'attachment; filename="{BUNDLE}"'.encode()),
        (b"x-pointsman-signed-by", summary.key_id.encode()),
        (b"x-pointsman-entries", str(summary.entries).encode()),
        NO_STORE,
    ]
    await send.begin(200, headers, await in_thread(lambda: file.read(_PIECE)))
    while piece := await in_thread(lambda: file.read(_PIECE)):
        await send.more(piece)
    send.end()


Work = Callable[[Progress], object]
"""Does the work, reports its progress, and returns the result."""


def wants_events(asked: Asked) -> bool:
    """Tell whether a caller wants to be told how far the work is."""
    return asked.header(b"accept").startswith("text/event-stream")


async def stream_progress(send: Send, work: Work) -> None:
    """Do some work in a thread, and tell how far it is until it is done."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

    def tell(done: int, total: int) -> None:
        event = sse("progress", msgspec.json.encode({"done": done, "total": total}))
        loop.call_soon_threadsafe(waiting.put_nowait, event)

    task = asyncio.ensure_future(in_thread(lambda: work(tell)))
    task.add_done_callback(lambda _: waiting.put_nowait(None))
    await send.begin(200, [EVENTS, NO_STORE, (b"x-accel-buffering", b"no")], b": begun\n\n")
    while (event := await waiting.get()) is not None:
        await send.more(event)
    await send.more(_ending(task))
    send.end()


def _ending(task: asyncio.Future[object]) -> bytes:
    error = task.exception()
    if error is None:
        return sse("result", msgspec.json.encode(task.result()))
    if isinstance(error, PointsmanError):
        told = {"error_code": error.code, "user_message": error.message}
        return sse("failed", msgspec.json.encode(told))
    raise error
