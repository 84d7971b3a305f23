"""Batched turns: turns that come together take each step together, without a task of their own.

Most turns go one way: a new message, a model that speaks the caller's dialect on a connection that
rests, a whole answer. Here they take the same steps as all others, but step after step for all that
came in one round of the event loop: the code of a step is then in the processor's cache for all but
the first, which halves its time. Any other turn continues in a task, from where it stands.

INVARIANT: as everywhere, no byte of an answer leaves before its decision is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from pointsman.calls.cutting import NOT_MADE
from pointsman.calls.flow import CallEffect, Effect, Flow, Record, RecordPlacement
from pointsman.errors import PointsmanError, RoutingFailed
from pointsman.gateway.serving.http import Asked, Receive, Send
from pointsman.gateway.turns.endpoints import ModelEndpoint, finish_turn
from pointsman.gateway.turns.forwarding import Begin, Forwarding
from pointsman.gateway.turns.turn_flow import continue_flow, new_flow
from pointsman.providers.dialects.tap import end_of
from pointsman.providers.http.provider import unreadable_reason
from pointsman.providers.messages import Usage

if TYPE_CHECKING:
    from pointsman.gateway.serving.sharing import Ahead, Sharing
    from pointsman.gateway.turns.turn import LiveTurn
    from pointsman.gateway.wire.connection import ClientConnection
    from pointsman.gateway.wire.request import IncomingRequest
    from pointsman.providers.http.exchange import Exchange


FEW: Final = 4
"""From so many turns on, the ledger begins to commit before they are sent to their providers, and
the accounting after their answers waits until there is time for it."""

LARGE: Final = 256 * 1024
"""From so many bytes on a request is read in a round of the event loop of its own: a megabyte takes
some 3 ms."""

AT_ONCE: Final = 2
"""How many turns are ended while others may still come."""

ENDS_S: Final = 0.005
"""Longest delay of that accounting."""


class BatchedTurn:
    """One turn in the batcher."""

    __slots__ = (
        "batcher", "begin", "body", "connection", "effect", "exchange", "failed", "first", "flow",
        "is_called", "is_over", "is_read", "live", "reason", "refused", "request", "usage",
        "written",
    )  # fmt: skip

    live: LiveTurn
    flow: Flow
    effect: Effect
    """What its flow asked for first; after a tool there may be nothing to record."""
    first: Forwarding
    begin: Begin
    body: bytes
    written: bytes
    """The answer as it goes out."""
    usage: Usage
    reason: str

    def __init__(
        self, batcher: TurnBatcher, connection: ClientConnection, request: IncomingRequest
    ) -> None:
        self.batcher = batcher
        self.connection = connection
        self.request = request
        self.exchange: Exchange | None = None
        self.failed: Exception | None = None
        self.is_read = False
        self.refused: PointsmanError | None = None
        """Why its first call was not made; the flow goes on from there."""
        self.is_called = False
        """Whether its money is reserved: its first call must run to its end."""
        self.is_over = False
        """Whether the batcher is done with it."""

    @property
    def is_capped(self) -> bool:
        """Whether a budget applies."""
        return self.is_read and bool(self.live.caps)

    def on_answer(self) -> None:
        """Learn that the provider's answer is here, or must be looked at."""
        self.batcher.to_answer.add(self)

    def cut_off(self, why: str) -> None:
        """Cut the call off; from any thread."""
        exchange = self.exchange
        if exchange is not None:
            exchange.cut_soon(why)

    def on_durable(self) -> None:
        """Learn that the decision is durable, or could not be made so."""
        self.batcher.to_send.add(self)

    def on_disconnect(self) -> None:
        """Learn that the caller hung up."""
        self.is_over = True
        if self.exchange is not None:
            self.exchange.discard()
        self.live.durability.then(None)
        self.batcher.cancel(self)

    def continue_in_task(self, failed: Exception | None = None) -> None:
        """Continue in a task, from here."""
        self.is_over = True
        self.failed = failed
        # The task installs its own disconnect handler.
        self.request.reply.when_left(None)
        self.connection.serve_in_task(self.request, self)

    async def __call__(self, _asked: Asked, receive: Receive, send: Send) -> None:
        """Serve the request in a task."""
        await self.batcher.endpoint.run_to_end(self._read_turn, self._run_rest, receive, send)

    def _read_turn(self) -> LiveTurn:
        if not self.is_read:
            raise self.failed or RoutingFailed
        return self.live

    async def _run_rest(self, live: LiveTurn, send: Send) -> None:
        if self.failed is not None:
            raise self.failed
        if self.refused is not None:
            await finish_turn(self.flow, live, self.first, self.first.refuse(self.refused))
        elif self.is_called:
            await finish_turn(
                self.flow, live, self.first, await self.first.run_to_end(self.exchange)
            )
        else:
            await self.batcher.endpoint.drive(live, send)


class BatchStage:
    """Turns that wait for the same steps, and take them when the event loop comes round.

    While a turn is `alone` it takes them at once: no other turn can join it.
    """

    __slots__ = ("_is_alone", "_steps", "_waiting")

    def __init__(
        self,
        steps: Callable[[list[BatchedTurn]], None],
        alone: Callable[[], bool] | None = None,
    ) -> None:
        self._steps = steps
        self._is_alone = alone
        self._waiting: list[BatchedTurn] = []

    def add(self, *turns: BatchedTurn) -> None:
        """Have turns wait."""
        if turns and not self._waiting:
            if self._is_alone is not None and self._is_alone():
                self._steps([*turns])
                return
            asyncio.get_running_loop().call_soon(self._run)
        self._waiting += turns

    def put_back(self, turns: list[BatchedTurn]) -> None:
        """Have turns wait once more, before those that came meanwhile."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._run)
        self._waiting[:0] = turns

    def _run(self) -> None:
        turns, self._waiting = self._waiting, []
        self._steps(turns)


class TurnBatcher:
    """Takes the plain turns of one endpoint in batches."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self.endpoint = endpoint
        alone = endpoint.parts.is_alone
        self.to_read = BatchStage(self._read_all, alone)
        self.to_decide = BatchStage(self._decide_all, alone)
        self.to_answer = BatchStage(self._answer_all, alone)
        # Not at once: the committing thread is still at the ledger.
        self.to_send = BatchStage(self._send_all)
        self._large: deque[BatchedTurn] = deque()
        self._out: list[BatchedTurn] = []
        """Turns whose answers are out, and whose ends are to be taken into account."""
        self._timer: asyncio.TimerHandle | None = None
        self._hoped = 0  # how many may ask again soon
        endpoint.parts.finishing.append(self._end_some)

    def take(self, connection: ClientConnection, request: IncomingRequest) -> None:
        """Take a request."""
        self.endpoint.parts.metrics.in_flight += 1
        turn = BatchedTurn(self, connection, request)
        if request.size < LARGE:
            self.to_read.add(turn)
            return
        if not self._large:
            asyncio.get_running_loop().call_soon(self._read_large)
        self._large.append(turn)

    def _read_large(self) -> None:
        """Read one large request a round of the event loop: others are served between."""
        turn = self._large.popleft()
        if self._large:
            asyncio.get_running_loop().call_soon(self._read_large)
        self._read_all([turn])

    def _read_all(self, turns: list[BatchedTurn]) -> None:
        _each(turns, self._read_request)
        ready = [each for each in turns if not each.is_over]
        sharing = self.endpoint.parts.sharing
        if sharing is None:
            self.to_decide.add(*ready)
            return
        for turn in ready:
            look = sharing.look_ahead(turn.live.session_id)
            look.add_done_callback(partial(self._take_look, turn, sharing))

    def _take_look(self, turn: BatchedTurn, sharing: Sharing, look: asyncio.Future[Ahead]) -> None:
        """Take what other replicas know of a turn's session; it is decided by that."""
        failed = look.exception()
        if failed is not None or sharing.health.half_open():
            # The task looks for itself, and claims the models that are tried again.
            turn.continue_in_task()
            return
        turn.live.ahead = look.result()
        self.to_decide.add(turn)

    def _decide_all(self, turns: list[BatchedTurn]) -> None:
        if self._out and len(turns) < self._hoped:
            # Those that were just answered are about to ask again: together they take less time.
            self._end_some(AT_ONCE)
            self.to_decide.put_back(turns)
            return
        if self._out and any(each.is_capped for each in turns):
            # Their budgets would lack the money still reserved for turns that are out.
            self._end_some()
        _each(turns, self._rule, self._record)
        if len(turns) >= FEW:
            self.endpoint.parts.pointsman.decision_recorder.recorder().begin()
        _each(turns, self._write, self._call)

    def _answer_all(self, turns: list[BatchedTurn]) -> None:
        _each(turns, self._read_answer, self._wait)
        # The ledger is at work, and nothing else is to be done.
        self._end_some()

    def _send_all(self, turns: list[BatchedTurn]) -> None:
        _each(turns, self._let_out)
        self._out += [each for each in turns if not each.is_over]
        self._hoped = len(self._out)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if len(turns) < FEW:
            self._end_some()
        else:
            self._timer = asyncio.get_running_loop().call_later(ENDS_S, self._end_some)

    def _end_some(self, count: int | None = None) -> None:
        """Account for some turns whose answers are out, the oldest first; by default for all."""
        turns = self._out[:count]
        del self._out[:count]
        for turn in turns:
            self._end(turn)

    def _read_request(self, turn: BatchedTurn) -> None:
        live = turn.live = self.endpoint.read_turn(turn.request.to_asked(turn.connection.client))
        turn.is_read = True
        # Budgets that replicas share are asked over the network.
        is_asking = self.endpoint.parts.sharing is not None and bool(live.caps)
        is_long = live.is_much_to_read or live.asks_detectors or is_asking
        if is_long or live.in_force.ready.has_second_opinions or not self.endpoint.is_plain(live):
            turn.continue_in_task()

    def _rule(self, turn: BatchedTurn) -> None:
        """Decide the turn; nothing else is done yet."""
        live = turn.live
        lock = live.lock()
        turn.flow = new_flow(live) if lock is None else continue_flow(live, lock)
        effect = next(turn.flow, None)
        if effect is None or _needs_more(effect):
            turn.continue_in_task()
        else:
            turn.effect = effect

    def _record(self, turn: BatchedTurn) -> None:
        turn.request.reply.when_left(turn.on_disconnect)
        if turn.is_over:
            return
        effect = turn.effect
        if isinstance(effect, Record):
            turn.live.record(effect)
        elif isinstance(effect, RecordPlacement):
            turn.live.record_placement(effect)

    @staticmethod
    def _write(turn: BatchedTurn) -> None:
        live, call = turn.live, turn.effect
        if not isinstance(call, CallEffect):
            call = turn.flow.send(None)
        if not isinstance(call, CallEffect):
            raise RoutingFailed
        live.number = call.number
        first = turn.first = Forwarding(live, call.model, turn.request.reply)
        opened = first.call = live.open_call(call.model)
        try:
            opened.reserve()
        except NOT_MADE as error:
            turn.refused = error
            turn.continue_in_task()
            return
        opened.begin()
        turn.is_called = True
        begin = None
        with suppress(PointsmanError):
            # The task raises it again and answers with it.
            begin = first.prepare_send()
        if begin is None:
            turn.continue_in_task()
        else:
            turn.begin = begin

    @staticmethod
    def _call(turn: BatchedTurn) -> None:
        """Send the requests one after the other, so that the reader is woken once."""
        exchange = turn.exchange = turn.begin()
        turn.first.call.holder = turn
        if exchange is None or turn.live.request.look.is_stream:
            turn.continue_in_task()
        else:
            exchange.on_complete(turn.on_answer)

    @staticmethod
    def _read_answer(turn: BatchedTurn) -> None:
        exchange = turn.exchange
        body = None if exchange is None else exchange.whole()
        if exchange is None or body is None:
            turn.continue_in_task()
            return
        if exchange.status != 200 or unreadable_reason(exchange.headers):
            turn.continue_in_task()
            return
        usage, reason = end_of(turn.first.dialect, body)
        if reason is None:
            turn.continue_in_task()
            return
        turn.body, turn.usage, turn.reason = body, usage, reason
        turn.first.call.take_head(exchange)
        turn.first.call.stop_waiting()
        turn.live.hold_beside(reason)

    @staticmethod
    def _wait(turn: BatchedTurn) -> None:
        exchange = turn.exchange
        headers = turn.first.headers(turn.body, {} if exchange is None else exchange.headers)
        turn.written = turn.request.reply.render(200, headers, turn.body)
        turn.live.durability.then(turn.on_durable)

    @staticmethod
    def _let_out(turn: BatchedTurn) -> None:
        if turn.live.durability.error is not None:
            turn.continue_in_task()
        else:
            reply = turn.request.reply
            reply.when_left(None)
            call = turn.first.call
            call.first_byte_ns = call.out_ns = time.perf_counter_ns()
            reply.out(200, turn.written)

    def _end(self, turn: BatchedTurn) -> None:
        """Take the end of a turn into account."""
        turn.is_over = True
        exchange = turn.exchange
        attempts = 1 if exchange is None else exchange.attempts
        failed: PointsmanError | None = None
        try:
            turn.first.complete(attempts, turn.body, turn.usage, turn.reason)
        except PointsmanError as error:
            failed = error
        self.endpoint.finish_request(200, turn.live, failed)

    def cancel(self, turn: BatchedTurn) -> None:
        """Settle a turn whose caller hung up; an error is only logged, since no caller waits."""
        failed: PointsmanError | None = None
        try:
            turn.live.cancel_call()
        except PointsmanError as error:
            failed = error
        self.endpoint.finish_request(200, turn.live, failed)


def _needs_more(effect: Effect) -> bool:
    """Tell whether more is to be done than to record it: a refusal, or a human's yes."""
    if isinstance(effect, Record):
        placing = effect.ruling.placing
        return not effect.ruling.model or placing.outcome.requires_confirmation
    return isinstance(effect, RecordPlacement) and effect.is_refused


def _each(turns: list[BatchedTurn], *steps: Callable[[BatchedTurn], None]) -> None:
    """Have all turns take each step before any takes the next one."""
    for step in steps:
        for turn in turns:
            if not turn.is_over:
                try:
                    step(turn)
                except Exception as error:  # noqa: BLE001 - answered in a task, as any other
                    turn.continue_in_task(error)
