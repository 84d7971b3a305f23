"""A call beside a turn, under a decision of its own: a shadow run, or a judge's verdict."""

from __future__ import annotations

import asyncio
import time

from pointsman.calls.answering import ModelAnswer, ask_whole
from pointsman.calls.model_call import CallOrder, ModelCall, PlainContext
from pointsman.calls.services import OVER_BUDGET, CallEnd
from pointsman.errors import LedgerError, OverBudget
from pointsman.gateway.parts import Parts
from pointsman.gateway.turns.durable import Durability
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.kernel.record import Aside, Names
from pointsman.providers.messages import Request, Response
from pointsman.providers.port import UpstreamError
from pointsman.recording.ruling import Ruling
from pointsman.version import VERSION


class SideCall:
    """A call under a ruling of its own; `result` says what became of it."""

    def __init__(
        self, parts: Parts, live: LiveTurn, ruling: Ruling, kind: str, input_tokens: int
    ) -> None:
        self._parts = parts
        self._live = live
        self._ruling = ruling
        self._kind = kind
        self._input_tokens = input_tokens
        self._began = time.perf_counter_ns()
        self.decision_id = parts.pointsman.ids.new_id()
        self.result = OVER_BUDGET
        self.end: CallEnd | None = None

    async def make(self, request: Request) -> Response | None:
        """Record the decision and make the call; None where it may not be paid for, or failed."""
        call = self._open(request)
        try:
            reserving = call.reserve()
            if reserving is not None:
                await reserving
        except OverBudget:
            return None
        try:
            await self._record()
        except LedgerError:
            call.abandon()
            raise
        call.begin()
        try:
            answered = await self._ask(request)
        except UpstreamError as error:
            self.result = "failed"
            self.end = call.fail(error)
            return None
        except asyncio.CancelledError:
            call.cancel()
            raise
        call.first_byte_ns = time.perf_counter_ns()
        call.answer_headers = answered.headers
        self.result = "done"
        stop_reason = answered.response.stop_reason
        self.end = call.complete(answered.written, stop_reason, answered.attempts)
        return answered.response

    def _open(self, request: Request) -> ModelCall:
        live, ruling = self._live, self._ruling
        context = PlainContext(
            live.turn_id,
            live.session_id,
            policy=self._kind,
            placement_rule=ruling.placing.outcome.rule_id,
            requested_model=live.requested_model,
            trace=live.trace,
        )
        order = CallOrder(
            ruling.model,
            1,
            self.decision_id,
            live.in_force,
            live.owners,
            live.caps,
            self._input_tokens,
            request.max_output_tokens,
            False,  # noqa: FBT003 - no stream
            self._began,
        )
        return ModelCall(self._parts.calls, order, context)

    async def _record(self) -> None:
        """Record the decision, and wait for it: nothing acts before its decision is durable."""
        parts, live = self._parts, self._live
        elapsed_us = (time.perf_counter_ns() - self._began) // 1_000
        aside = Aside(elapsed_us, live.trace_id, live.session_id, False, VERSION)  # noqa: FBT003 - no preview
        names = Names(self.decision_id, live.turn_id, parts.pointsman.clock.now())
        durable = Durability(parts.bridge())
        parts.pointsman.desk.hand_in(names, live.in_force, self._ruling, aside, durable, self._kind)
        await durable.wait()

    async def _ask(self, request: Request) -> ModelAnswer:
        parts, live = self._parts, self._live
        provider, name = parts.providers.of(self._ruling.model, live.in_force.models)
        return await ask_whole(provider, name, request, live.deadlines())
