"""One call beside a turn: decided, paid for and recorded like every other; nobody waits for it."""

from __future__ import annotations

import asyncio
import time

from pointsman.access.budgets import Refused, Reservation
from pointsman.access.charges import output_bound, quoted
from pointsman.access.spent import Spent
from pointsman.calls.call_end import CallEnd, outcome_of
from pointsman.errors import InputError, LedgerError
from pointsman.gateway.parts import Parts
from pointsman.gateway.turns.durable import Durability
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.kernel.record import Aside, Names, outcome_draft
from pointsman.providers.dialects.speaker import speaker
from pointsman.providers.failures import failure_inside
from pointsman.providers.messages import Request, Response, Usage
from pointsman.providers.port import Outgoing, UpstreamError
from pointsman.recording.ruling import Ruling
from pointsman.runs.learning.rubric import words_of
from pointsman.signals.tokens import count_tokens
from pointsman.turns.call_event import Result
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
        self.result = "over_budget"
        self.end: CallEnd | None = None

    async def made(self, request: Request) -> Response | None:
        """Make the call; None where it may not be paid for, or failed."""
        reserved = await self._reserved(request)
        if isinstance(reserved, Refused):
            return None
        try:
            await self._recorded()
        except LedgerError:
            self._give_back(reserved)
            raise
        self._parts.health.begin(self._ruling.model, self._input_tokens)
        try:
            response, attempts = await self._answered(request)
        except UpstreamError as error:
            self.result = "failed"
            self._ended(reserved, error.error_class, error, None, error.attempts)
            return None
        except asyncio.CancelledError:
            self._ended(reserved, "cancelled", None, None, 1)
            raise
        self.result = "done"
        self._ended(reserved, "success", None, response, attempts)
        return response

    def _give_back(self, reserved: Reservation) -> None:
        """Free what was set aside for a call that is never made."""
        sharing = self._parts.sharing
        if sharing is not None:
            sharing.budgets.forget(reserved)
        else:
            self._parts.budgets.release(reserved)

    async def _reserved(self, request: Request) -> Reservation | Refused:
        parts, live, model = self._parts, self._live, self._ruling.model
        known = live.in_force.ready.models.get(model)
        most = None if known is None else known.capabilities.max_output_tokens
        quote = quoted(
            model,
            None if known is None else known.price,
            parts.pointsman.files.prices.id,
            self._input_tokens,
            output_bound(request.max_output_tokens, most),
        )
        if parts.sharing is not None:
            return await live.purse.set_aside(parts.sharing, quote)
        return parts.budgets.reserve(
            live.purse.owners, quote, live.purse.caps, parts.pointsman.clock.now()
        )

    async def _recorded(self) -> None:
        """Record the decision, and wait for it: nothing acts before its decision is durable."""
        parts, live = self._parts, self._live
        elapsed_us = (time.perf_counter_ns() - self._began) // 1_000
        aside = Aside(elapsed_us, live.trace_id, live.session_id, False, VERSION)  # noqa: FBT003 - no preview
        names = Names(self.decision_id, live.turn_id, parts.pointsman.clock.now())
        durable = Durability(parts.bridge())
        parts.pointsman.desk.hand_in(names, live.in_force, self._ruling, aside, durable, self._kind)
        await durable.reached()

    async def _answered(self, request: Request) -> tuple[Response, int]:
        parts, live = self._parts, self._live
        provider, name = parts.providers.of(self._ruling.model, live.in_force.models)
        dialect = provider.dialects[0]
        try:
            body = speaker(dialect).write_request(request, name).body
        except InputError as error:
            raise UpstreamError(error.message, error_class="invalid_request", status=400) from error
        answer = await provider.send(Outgoing(dialect, name, body, False), live.deadlines())  # noqa: FBT003 - no stream
        try:
            said = await answer.read()
        finally:
            await answer.close()
        inside = failure_inside(provider.name, said)
        if inside is not None:
            raise inside
        try:
            return speaker(dialect).read_response(said), answer.attempts
        except InputError as error:
            message = f"the answer of `{provider.name}` cannot be read: {error.message}"
            raise UpstreamError(message, error_class="server_error", status=200) from error

    def _ended(
        self,
        reserved: Reservation,
        result: Result,
        error: UpstreamError | None,
        response: Response | None,
        attempts: int,
    ) -> None:
        """Take the end of the call into account: availability, money, the ledger."""
        parts, model = self._parts, self._ruling.model
        models = self._live.in_force.ready.models
        is_refusal = error is not None and error.is_policy_refusal
        ended_as = result if error is None else error.result
        parts.health.ended(model, ended_as, models, is_policy_refusal=is_refusal)
        known = models.get(model)
        elapsed_us = (time.perf_counter_ns() - self._began) // 1_000
        self.end = CallEnd(
            model=model,
            location="cloud" if known is None else known.location,
            number=1,
            is_stream=False,
            status=200 if error is None else error.status,
            error_class="" if result == "success" else result,
            attempts=attempts,
            stop_reason="" if response is None else response.stop_reason,
            elapsed_us=elapsed_us,
            first_byte_us=elapsed_us,
            spent=self._settled(reserved, response),
        )
        pointsman = parts.pointsman
        name = reserved.id or pointsman.ids.new_id()
        names = Names(name, self.decision_id, pointsman.clock.now())
        pointsman.desk.recorder().note(outcome_draft(names, outcome_of(self.end)))

    def _settled(self, reserved: Reservation, response: Response | None) -> Spent | None:
        """Charge what was answered; what was not costs nothing."""
        budgets = self._parts.budgets
        if response is None:
            budgets.release(reserved)
            return None
        if response.usage.output_tokens is not None:
            return budgets.settle(reserved, response.usage)
        guessed = Usage(self._input_tokens, count_tokens(words_of(response)))
        return budgets.settle(reserved, guessed, is_estimated=True)
