"""A call beside the answer of a turn, under a ruling of its own: a shadow run, a judge."""

from __future__ import annotations

import asyncio
import time

from pointsman.calls.answering import BodyMasking, ModelAnswer, ask_whole
from pointsman.calls.call_end import OVER_BUDGET, STOPPED, CallEnd
from pointsman.calls.cutting import NOT_MADE
from pointsman.calls.flow import EgressRefused
from pointsman.calls.model_call import CallOrder, ModelCall, PlainContext
from pointsman.errors import LedgerError, TurnStopped
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.kernel.record import Aside, Names
from pointsman.providers.messages import ModelRequest, Response
from pointsman.providers.port import UpstreamError
from pointsman.recording.ruling import Ruling
from pointsman.storage.writer.durability import Durability
from pointsman.version import VERSION


class SideCall:
    """A call under a ruling of its own; `result` says what became of it."""

    def __init__(  # noqa: PLR0913 - what a call is made from
        self,
        parts: GatewayServices,
        live: LiveTurn,
        ruling: Ruling,
        kind: str,
        input_tokens: int,
        *,
        decision_id: str = "",
        number: int = 1,
    ) -> None:
        """Prepare a call; `decision_id` is given where its ruling is recorded already."""
        self._parts = parts
        self._live = live
        self._ruling = ruling
        self._kind = kind
        self._input_tokens = input_tokens
        self._began = time.perf_counter_ns()
        self._is_recorded = bool(decision_id)
        self._number = number
        self.decision_id = decision_id or parts.pointsman.ids.new_id()
        self.result = OVER_BUDGET
        self.end: CallEnd | None = None

    async def make(self, request: ModelRequest) -> Response | None:
        """Record the decision and make the call; None where it may not be paid for, or failed."""
        call = self._open(request)
        try:
            reserving = call.reserve()
            if reserving is not None:
                await reserving
        except NOT_MADE as error:
            self.result = STOPPED if isinstance(error, TurnStopped) else OVER_BUDGET
            return None
        try:
            await (self._live.durability.wait() if self._is_recorded else self._record())
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
        call.answer_headers = answered.headers
        call.first_byte_ns = time.perf_counter_ns()
        self.result = "done"
        stop_reason = answered.response.stop_reason
        self.end = call.complete(answered.written, stop_reason, answered.attempts)
        return answered.response

    def _open(self, request: ModelRequest) -> ModelCall:
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
            self._number,
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
        aside = Aside(elapsed_us, live.trace_id, live.session_id, False, VERSION, live.tenant)  # noqa: FBT003 - no preview
        names = Names(self.decision_id, live.turn_id, parts.pointsman.clock.now())
        durable = Durability(parts.bridge())
        parts.pointsman.decision_recorder.hand_in(
            names, live.in_force, self._ruling, aside, durable, self._kind
        )
        await durable.wait()

    async def _ask(self, request: ModelRequest) -> ModelAnswer:
        parts, live = self._parts, self._live
        provider, name = parts.providers.of(self._ruling.model, live.in_force.models)
        restoring = live.restoring_for(self._ruling.model)
        masking = None if restoring is None else BodyMasking(self._mask, restoring.body)
        return await ask_whole(provider, name, request, live.parts.deadlines, masking)

    def _mask(self, body: bytes) -> bytes:
        """Mask the request to a second model as well, or have the call fail."""
        try:
            return self._live.masked_body(body)
        except EgressRefused as error:
            raise UpstreamError(str(error), error_class="invalid_request", status=400) from error
