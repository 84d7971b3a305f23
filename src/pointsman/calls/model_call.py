"""One model call, once: reserve, send, classify, settle, outcome entry.

Turns, fallbacks, shadow runs, judges, pass-through endpoints, conversations and delegations drive
it; this is the one place that charges a call, tells its health and writes its outcome entry.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import UNSET, Raw, Struct

from pointsman.access.book import Spent
from pointsman.access.budgets import BudgetPort, Refused, Reservation
from pointsman.access.caps import Cap, Owners
from pointsman.access.charges import Quote, is_absurd, quote_call
from pointsman.calls.answering import complete_usage
from pointsman.calls.call_end import END_FORM, OVER_BUDGET, STOPPED, CallEnd, charge_alarm_draft
from pointsman.calls.cutting import Cuttable
from pointsman.calls.services import CallServices
from pointsman.errors import OverBudget, TurnStopped
from pointsman.kernel.record import Names, OutcomeRecord, outcome_draft
from pointsman.providers.key_choice import KeyChoice
from pointsman.providers.messages import Usage
from pointsman.providers.port import UpstreamAnswer, UpstreamError, provider_request_id
from pointsman.recording.stops import Stops
from pointsman.storage.policies.policies import InForce
from pointsman.turns.chain.validation import stop_text
from pointsman.turns.registry.call_event import Result
from pointsman.turns.registry.prices import output_bound

NOT_CONFIRMED: Final = "confirmation_needed"
"""The class of a call that was never made, because its policy wants a human's yes first."""


class Progress(Protocol):
    """An answer so far: the usage that the provider reported, and its words."""

    @property
    def usage(self) -> Usage:
        """The usage that the provider reported."""
        ...

    def output_tokens(self) -> int:
        """Estimate the tokens of the answer; asked only where the provider did not tell."""
        ...


class CallContext(Protocol):
    """The context of a call, for the listener; never anything of a message."""

    @property
    def turn_id(self) -> str:
        """The turn it belongs to."""
        ...

    @property
    def session_id(self) -> str:
        """The session of the turn."""
        ...

    @property
    def operation(self) -> str:
        """The operation: empty for an answer, else `embeddings` and the like."""
        ...

    @property
    def requested_model(self) -> str:
        """The name its caller gave."""
        ...

    @property
    def policy(self) -> str:
        """The slot that chose the model."""
        ...

    @property
    def rule(self) -> str:
        """The rule that chose it."""
        ...

    @property
    def placement_rule(self) -> str:
        """The rule by which the turn may be where it goes."""
        ...

    @property
    def fallen_from(self) -> tuple[str, ...]:
        """The models that failed before it."""
        ...

    @property
    def trace(self) -> object:
        """The caller's trace context."""
        ...

    @property
    def overhead_ns(self) -> int | None:
        """How long the answer's first byte took, less the providers' time; None for no request."""
        ...


class PlainContext(Struct, frozen=True):
    """The surroundings of a call that answers no request over HTTP."""

    turn_id: str
    session_id: str
    policy: str = ""
    rule: str = ""
    placement_rule: str = ""
    requested_model: str = ""
    operation: str = ""
    fallen_from: tuple[str, ...] = ()
    trace: object = None
    overhead_ns: int | None = None


_ENDED: Final[CallContext] = PlainContext("", "")


class CallOrder(Struct, frozen=True):
    """Which model is called, for whom, under which decision, within which budgets."""

    model: str
    number: int
    decision_id: str
    in_force: InForce
    owners: Owners
    caps: Sequence[Cap]
    input_tokens: int
    asked_output: int | None
    is_stream: bool
    started_ns: int
    """When the work began that this call is part of: its latency counts from there."""


class ModelCall:
    """A call on its way, from its reservation to its outcome entry."""

    __slots__ = (
        "_reservation", "_waiting_ns", "answer_headers", "called_ns", "context",
        "deployment_choice", "end", "first_byte_ns", "holder", "key_choice", "order", "out_ns",
        "progress", "services", "upstream_ns",
    )  # fmt: skip

    def __init__(self, services: CallServices, order: CallOrder, context: CallContext) -> None:
        self.services = services
        self.order = order
        self.context = context
        """Dropped at the end: a turn holds its call, and a cycle waits for the garbage collector,
        which stops the event loop for milliseconds."""
        self.end: CallEnd | None = None
        self.called_ns = self.upstream_ns = self._waiting_ns = 0
        self.first_byte_ns = 0
        """When the first byte of the answer left; 0 before."""
        self.out_ns = 0
        """When the last byte was out, where that is not now."""
        self.progress: Progress | None = None
        """The answer so far, once some of it left; before that a failure is free."""
        self.answer_headers: Mapping[str, str] = {}
        """The headers of the provider's answer, once they are here."""
        self.key_choice: KeyChoice | None = None
        """How one of the provider's several keys was chosen."""
        self.deployment_choice: KeyChoice | None = None
        self.holder: Cuttable | None = None
        """Cuts the call off, as long as it is under way."""
        self._reservation: Reservation | None = None

    @property
    def tenant(self) -> str:
        """The tenant of its caller."""
        return self.order.owners.tenant

    @property
    def model(self) -> str:
        """The model that is called."""
        return self.order.model

    def cut_off(self, why: str) -> None:
        """Cut it off; from any thread, and nothing where it has ended."""
        holder = self.holder
        if holder is not None:
            holder.cut_off(why)

    @property
    def is_open(self) -> bool:
        """Whether money is set aside for the call, and its end is still to be told."""
        return self._reservation is not None

    def reserve(self) -> Awaitable[None] | None:
        """Set aside what the call may cost; raise where it may not be made.

        That is `OverBudget` where no budget has so much left, `TurnStopped` where an order stands.
        Where budgets are shared with other replicas, the result is to be awaited.
        """
        services, order = self.services, self.order
        if services.stops is not None:
            self._check_stops(services.stops)
        known = order.in_force.ready.models.get(order.model)
        most = None if known is None else known.capabilities.max_output_tokens
        quote = quote_call(
            order.model,
            None if known is None else known.price,
            services.price_table_id,
            order.input_tokens,
            output_bound(order.asked_output, most),
        )
        if services.run_blocking is not None and order.caps:
            return self._reserve_shared(services.run_blocking, quote)
        now = services.clock.now()
        self._take(services.budgets.reserve(order.owners, quote, order.caps, now))
        return None

    def begin(self) -> None:
        """Note that the provider is called now; the time until `stop_waiting` is the provider's."""
        order, stops = self.order, self.services.stops
        if stops is not None:
            stops.watch(self)
        self.services.health.begin(order.model, order.input_tokens)
        self.called_ns = self._waiting_ns = time.perf_counter_ns()

    def stop_waiting(self) -> None:
        """Note that the provider has begun to answer, or has failed to."""
        if self._waiting_ns:
            self.upstream_ns += time.perf_counter_ns() - self._waiting_ns
            self._waiting_ns = 0

    def take_head(self, answer: UpstreamAnswer) -> None:
        """Note what an answer's head tells: its headers, and the key it came by."""
        self.answer_headers, self.key_choice = answer.headers, answer.key_choice
        self.deployment_choice = answer.deployment_choice

    def abandon(self) -> None:
        """Release the reservation of a call that is never made."""
        reservation, self._reservation = self._reservation, None
        self._leave_watch()
        self.context = _ENDED
        if reservation is not None:
            self.services.budgets.forget(reservation)

    def complete(self, answer: Progress, stop_reason: str, attempts: int) -> CallEnd:
        """Settle a call that was answered."""
        self.progress = answer
        return self._finish("success", None, stop_reason, attempts)

    def fail(self, error: UpstreamError) -> CallEnd:
        """Settle a call that failed; one of which nothing was let out costs nothing."""
        self.answer_headers = error.headers or self.answer_headers
        self.key_choice = error.key_choice or self.key_choice
        self.deployment_choice = error.deployment_choice or self.deployment_choice
        return self._finish(error.result, error, "", error.attempts)

    def cancel(self, attempts: int = 1) -> None:
        """Settle a call whose caller hung up, if one is under way."""
        if self.is_open:
            self._finish("cancelled", None, "", attempts)

    async def _reserve_shared(self, run: Callable[..., Awaitable[object]], quote: Quote) -> None:
        services, order = self.services, self.order
        asked = (order.owners, quote, order.caps, services.clock.now())
        asking = asyncio.ensure_future(run(lambda: services.budgets.reserve(*asked)))
        try:
            found = await asyncio.shield(asking)
        except asyncio.CancelledError:
            # A caller who hangs up now must not leave money behind that no call settles.
            asking.add_done_callback(lambda done: _forget(services.budgets, done))
            raise
        self._take(found)

    def _check_stops(self, stops: Stops) -> None:
        """Raise where an order stands against the call; a turn that goes on is met here alone."""
        order = stops.against(self.tenant, self.model)
        if order is not None:
            self.refuse(STOPPED, TurnStopped.http_status)
            raise TurnStopped(stop_text(order.fact))

    def _leave_watch(self) -> None:
        self.holder = None
        if self.services.stops is not None:
            self.services.stops.forget(self)

    def _take(self, found: object) -> None:
        if isinstance(found, Refused):
            self.refuse(OVER_BUDGET, OverBudget.http_status)
            raise OverBudget(found.message)
        if isinstance(found, Reservation):
            self._reservation = found

    def refuse(self, error_class: str, status: int) -> None:
        """Record that the call was never made, so that `why` can tell the cause."""
        self._note(error_class, status, "", 0, None, self.services.ids.new_id())

    def _finish(
        self, result: Result, error: UpstreamError | None, stop_reason: str, attempts: int
    ) -> CallEnd:
        """Take the end of the call into account: health, money, the ledger, the listener."""
        if self._waiting_ns:
            self.stop_waiting()
        self._leave_watch()
        services, order = self.services, self.order
        models = order.in_force.ready.models
        is_refusal = error is not None and error.is_policy_refusal
        services.health.note_call_end(order.model, result, models, is_policy_refusal=is_refusal)
        reservation, self._reservation = self._reservation, None
        spent = None if reservation is None else self._settle(reservation, result)
        if self.called_ns and services.health.rates.is_limited:
            # The estimate was counted at the start; limits count what the ledger does.
            services.health.note_tokens(order.model, _tokens_of(spent) - order.input_tokens)
        # Shared budgets count a call's end by its entry, under the id that was reserved for it.
        name = (reservation.id if reservation is not None else "") or services.ids.new_id()
        status = 200 if error is None else error.status
        failed: str = "" if result == "success" else result
        if error is not None:
            failed = error.error_class
        end = self._note(failed, status, stop_reason, attempts, spent, name)
        if reservation is not None and spent is not None and self.progress is not None:
            usage, quote = self.progress.usage, reservation.quote
            if is_absurd(quote, usage, spent.cost_microusd):
                self._raise_alarm(quote, end)
        return end

    def _settle(self, reservation: Reservation, result: Result) -> Spent | None:
        """Charge the usage; a call that failed before its first word costs nothing."""
        budgets, progress = self.services.budgets, self.progress
        if progress is None:
            budgets.release(reservation)
            return None
        usage = progress.usage
        if result == "success" and None not in {usage.input_tokens, usage.output_tokens}:
            return budgets.settle(reservation, usage)
        guessed = complete_usage(usage, self.order.input_tokens, progress.output_tokens())
        return budgets.settle(reservation, guessed, is_estimated=True)

    def _note(
        self,
        error_class: str,
        status: int,
        stop_reason: str,
        attempts: int,
        spent: Spent | None,
        name: str,
    ) -> CallEnd:
        """Write the outcome entry, and tell the listener."""
        services, order = self.services, self.order
        known = order.in_force.ready.models.get(order.model)
        first_ns = self.first_byte_ns - order.started_ns
        end = self.end = CallEnd(
            model=order.model,
            location="cloud" if known is None else known.location,
            number=order.number,
            is_stream=order.is_stream,
            status=status,
            error_class=error_class,
            attempts=attempts,
            stop_reason=stop_reason,
            elapsed_us=((self.out_ns or time.perf_counter_ns()) - order.started_ns) // 1000,
            first_byte_us=first_ns // 1000 if first_ns > 0 else 0,
            spent=spent,
            request_id=provider_request_id(self.answer_headers) or UNSET,
            key_choice=self.key_choice or UNSET,
            deployment_choice=self.deployment_choice or UNSET,
        )
        names = Names(name, order.decision_id, services.clock.now())
        outcome = OutcomeRecord("failed" if error_class else "done", Raw(END_FORM.encode(end)))
        services.decision_recorder.recorder().note(outcome_draft(names, outcome))
        if services.listener is not None:
            services.listener.call_ended(self, end, names.at)
        self.context = _ENDED
        return end

    def _raise_alarm(self, quote: Quote, end: CallEnd) -> None:
        services = self.services
        names = Names(services.ids.new_id(), self.order.decision_id, services.clock.now())
        services.decision_recorder.recorder().note(charge_alarm_draft(names, quote, end))
        if services.listener is not None:
            services.listener.absurd_charge(self, end)


def _tokens_of(spent: Spent | None) -> int:
    if spent is None:
        return 0
    cached = spent.cached_input_tokens + spent.cache_creation_input_tokens
    return spent.input_tokens + cached + spent.output_tokens


def _forget(budgets: BudgetPort, done: asyncio.Future[object]) -> None:
    """Release the money that was reserved for a caller who had left by then."""
    if not done.cancelled() and done.exception() is None:
        found = done.result()
        if isinstance(found, Reservation):
            budgets.forget(found)
