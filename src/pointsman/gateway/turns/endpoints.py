"""The model endpoints: one request in a vendor's wire format, one turn, one answer in the same."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pointsman.access.keys import Principal
from pointsman.calls.flow import (
    AskOpinion,
    CallResult,
    Flow,
    FlowEnd,
    Record,
    RecordPlacement,
    TakeAnswer,
)
from pointsman.errors import (
    CallerLimited,
    LedgerError,
    NotAuthenticated,
    PointsmanError,
    RoutingFailed,
)
from pointsman.gateway.serving.access import caller_of
from pointsman.gateway.serving.http import JSON, Asked, Headers, Receive, Send, answer
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.telemetry.logs import LogLine
from pointsman.gateway.telemetry.metrics import Counter
from pointsman.gateway.turns.copying_send import CopyingSend
from pointsman.gateway.turns.failures import (
    is_final,
    refusal_of,
    refusal_of_continued,
    status_of,
    told_message,
)
from pointsman.gateway.turns.forwarding import Forwarding
from pointsman.gateway.turns.incoming import incoming
from pointsman.gateway.turns.second_opinion import HeldAnswers
from pointsman.gateway.turns.shadow_runs import ShadowRuns
from pointsman.gateway.turns.turn import NO_HEADERS, LiveTurn, request_id_header
from pointsman.gateway.turns.turn_flow import continue_flow, new_flow
from pointsman.kernel.instant import Instant
from pointsman.providers.dialects.loss import CannotSay
from pointsman.providers.port import Dialect, UpstreamError
from pointsman.providers.registry.dialects import speaker
from pointsman.storage.policies.policies import InForce

if TYPE_CHECKING:
    from pointsman.gateway.turns.turn_batcher import TurnBatcher


class DisconnectWatch:
    """Cancels the task that made it once its caller is gone."""

    __slots__ = ("_own", "_receive", "has_left")

    def __init__(self, receive: Receive) -> None:
        self.has_left = False
        self._receive = receive
        self._own = asyncio.current_task()
        receive.when_left(self._leave)

    def end(self) -> None:
        """Stop watching."""
        self._receive.when_left(None)

    def _leave(self) -> None:
        self.has_left = True
        if self._own is not None:
            self._own.cancel()


LEDGER_RETRY_S: Final = 1
"""When a caller may try again that was refused because the ledger could not be written."""

Drive = Callable[[LiveTurn, Send], Awaitable[None]]
"""Runs a turn, or the rest of it, until its caller was answered."""


class ModelEndpoint:
    """Serves one dialect."""

    def __init__(
        self,
        parts: GatewayServices,
        dialect: Dialect,
        name: str = "",
        shadow_runs: ShadowRuns | None = None,
    ) -> None:
        self.parts = parts
        self._shadow_runs = shadow_runs
        self._dialect = dialect
        self._name = name or dialect
        self._counted: dict[int, Counter] = {}
        self.batcher: TurnBatcher | None = None
        """A shorter way for most requests."""

    async def __call__(self, asked: Asked, receive: Receive, send: Send) -> None:
        """Serve one request."""
        self.parts.metrics.in_flight += 1
        await self.run_to_end(lambda: self.read_turn(asked), self.drive, receive, send)

    async def run_to_end(
        self, read_turn: Callable[[], LiveTurn], drive: Drive, receive: Receive, send: Send
    ) -> None:
        """Serve one request to its end; an error is answered in the vendor's own shape."""
        status = 200
        live: LiveTurn | None = None
        failed: PointsmanError | None = None
        try:
            live = read_turn()
            await self._serve_turn(live, drive, receive, send)
        except PointsmanError as error:
            failed = await _once_durable(error, live)
            status = await self._refuse(send, failed, live)
        finally:
            self.finish_request(status, live, failed)

    def check_caller(self, asked: Asked) -> bool:
        """Raise unless the caller may call models."""
        if self.parts.neighbours is not None:
            self.parts.neighbours.look_once()
        caller_of(self.parts, asked)
        return True

    def read_turn(self, asked: Asked) -> LiveTurn:
        """Read the turn that a request asks for, or raise why it cannot be served."""
        parts = self.parts
        in_force = parts.in_force()
        live = self._live(asked, caller := caller_of(parts, asked), in_force)
        if caller.key_id:
            limits = (caller.key_id, caller.tenant, caller.limits)
            live.admission = parts.limiter.admit(*limits, live.asked_at)
        return live

    def finish_request(
        self, status: int, live: LiveTurn | None, failed: PointsmanError | None
    ) -> None:
        """Count a request that is over, and tell of it."""
        parts = self.parts
        parts.metrics.in_flight -= 1
        if live is not None and live.admission is not None:
            spent = None if live.end is None else live.end.spent
            used = live.earlier_tokens
            used += 0 if spent is None else spent.input_tokens + spent.output_tokens
            parts.limiter.finish(live.admission, used, parts.pointsman.clock.now())
        cell = self._counted.get(status)
        if cell is None:
            labels = (("endpoint", self._name), ("status", str(status)))
            cell = self._counted[status] = parts.metrics.cell("pointsman_requests_total", labels)
        cell.value += 1
        if parts.log.is_on:
            parts.log.request(_log_line(self._name, status, live, parts.log.now(), failed))

    def _live(self, asked: Asked, caller: Principal, in_force: InForce) -> LiveTurn:
        """Read a request, or raise why it cannot be served."""
        request = incoming(self._dialect, asked, caller, in_force, self.parts.memos)
        return LiveTurn(self.parts, request, in_force)

    async def _serve_turn(self, live: LiveTurn, drive: Drive, receive: Receive, send: Send) -> None:
        """Run the turn; a caller who hangs up ends it."""
        watch, sharing = DisconnectWatch(receive), self.parts.sharing
        try:
            if live.is_much_to_read:
                await read_in_steps(live)
            if live.asks_detectors:
                await live.ask_detectors()
            if sharing is not None and live.ahead is None:
                await live.look_ahead(sharing)
            await drive(live, send)
        except asyncio.CancelledError:
            if not watch.has_left:
                raise
            live.cancel_call()
        except LedgerError:
            # The provider may have answered, but nothing may leave: its reservation is released.
            with suppress(LedgerError):
                live.cancel_call()
            raise
        finally:
            watch.end()
            if sharing is not None:
                live.release_claims(sharing)

    def is_plain(self, live: LiveTurn) -> bool:
        """Tell whether neither a judge nor a shadow run may follow a turn, as in most homes."""
        shadow_runs, ready = self._shadow_runs, live.in_force.ready
        return shadow_runs is None or not (shadow_runs.has_judge or ready.learns_on_purpose)

    async def drive(self, live: LiveTurn, send: Send) -> None:
        """Run a turn from its beginning."""
        lock = live.lock()
        flow = new_flow(live) if lock is None else continue_flow(live, lock)
        shadow_runs = self._shadow_runs
        copied = None if self.is_plain(live) else CopyingSend(send)
        ended, last = await _run(flow, live, copied or send)
        if shadow_runs is not None and copied is not None:
            shadow_runs.follow(live, copied)
        _check_went_well(live, ended, last)

    async def _refuse(self, send: Send, error: PointsmanError, live: LiveTurn | None) -> int:
        if isinstance(error, NotAuthenticated):
            self.parts.metrics.refused_key(error)
        status = status_of(error)
        headers = [JSON, *self._refusal_headers(error, live)]
        retry_after_s = getattr(error, "retry_after_s", None)
        if retry_after_s is None and isinstance(error, LedgerError):
            retry_after_s = LEDGER_RETRY_S
        if retry_after_s is not None and all(name != b"retry-after" for name, _ in headers):
            headers.append((b"retry-after", b"%d" % math.ceil(retry_after_s)))
        if is_final(error, status):
            headers.append((b"x-should-retry", b"false"))
        body = speaker(self._dialect).write_error(status, _code_of(error), told_message(error))
        await answer(send, status, body, headers)
        return status

    def _refusal_headers(self, error: PointsmanError, live: LiveTurn | None) -> Headers:
        """Return the headers of a refusal: its turn and its provider."""
        upstream = error.headers if isinstance(error, UpstreamError) else NO_HEADERS
        if live is not None and live.is_decided and not isinstance(error, LedgerError):
            return live.headers(upstream)
        own_id = self.parts.pointsman.ids.new_id() if live is None else live.turn_id
        found = [request_id_header(self._dialect, upstream, own_id)]
        if isinstance(error, CallerLimited):
            is_anthropic = self._dialect == "messages"
            found += [
                (name.encode(), value.encode())
                for name, value in error.headers
                if name.startswith("anthropic-") == is_anthropic
            ]
        return found


async def read_in_steps(live: LiveTurn) -> None:
    """Read a long request; short ones go between, and long ones one after the other."""
    async with live.parts.reading:
        for _ in live.reading_steps():
            await asyncio.sleep(0)


def _check_went_well(live: LiveTurn, ended: FlowEnd, last: Forwarding | None) -> None:
    """Raise the error of a turn that did not end well."""
    if ended.status == "no_model":
        raise refusal_of(live)
    if ended.status == "refused":
        raise refusal_of_continued(ended, live.model)
    if ended.status == "failed" and last is not None and not last.has_begun:
        raise last.error or UpstreamError("the provider failed", error_class="other")


async def finish_turn(flow: Flow, live: LiveTurn, first: Forwarding, reply: CallResult) -> None:
    """Carry out the rest of a turn whose first call went as `reply` says."""
    ended, last = await _run(flow, live, first.send, reply, first)
    _check_went_well(live, ended, last)


async def _run(
    flow: Flow,
    live: LiveTurn,
    send: Send,
    reply: CallResult | None = None,
    last: Forwarding | None = None,
) -> tuple[FlowEnd, Forwarding | None]:
    """Carry out the effects of the flow until it ends; `reply` is how its last call went."""
    held: HeldAnswers | None = None
    while True:
        try:
            effect = flow.send(reply)
        except StopIteration as end:
            return end.value, last
        if isinstance(effect, Record):
            live.record(effect)
            live.check_confirmed(effect.ruling.placing)
            reply = None
        elif isinstance(effect, RecordPlacement):
            live.record_placement(effect)
            reply = None
        elif isinstance(effect, AskOpinion):
            held = held or HeldAnswers(live)
            reply = await held.ask(effect)
        elif isinstance(effect, TakeAnswer):
            if held is None:
                raise RoutingFailed
            last = await held.release(effect.model, send)
            reply = None
        else:
            live.number = effect.number
            last = Forwarding(live, effect.model, send)
            reply = await last.run()


async def _once_durable(error: PointsmanError, live: LiveTurn | None) -> PointsmanError:
    """Return the error to answer with once its decisions are durable, else the ledger's error."""
    try:
        # An entry that the ledger refused to take at once is never heard of again.
        if live is not None and not isinstance(error, LedgerError):
            await live.durability.wait()
    except LedgerError as worse:
        return worse
    return error


def _code_of(error: PointsmanError) -> str:
    """Return the error code a caller sees: of a translation, an upstream failure, or our own."""
    if isinstance(error.__cause__, CannotSay):
        return error.__cause__.refusal.value
    return error.error_class if isinstance(error, UpstreamError) else error.code


def _log_line(
    endpoint: str, status: int, live: LiveTurn | None, at: Instant, failed: PointsmanError | None
) -> LogLine:
    """Return the log line of a request; of an error its code, not its words."""
    code = "" if failed is None else failed.code
    if isinstance(failed, NotAuthenticated):
        code = failed.reason or code
    if live is None:
        return LogLine(at, endpoint, status, 0, error_class=code)
    end = live.end
    spent = None if end is None else end.spent
    return LogLine(
        at,
        endpoint,
        status,
        live.elapsed_us,
        live.turn_id,
        live.decision_id,
        live.trace_id,
        live.request.meant.requested,
        live.model,
        live.policy,
        code if end is None else end.error_class or code,
        0 if spent is None else spent.input_tokens,
        0 if spent is None else spent.output_tokens,
        None if spent is None else spent.cost_microusd,
    )
