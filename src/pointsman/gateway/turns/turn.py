"""One turn over HTTP: rule it, record it, call the model, and let the answer out once it may.

The flow itself is `calls.flow`; this drives it. INVARIANT: no byte of an answer leaves before
its decision is durable, and after the first one no other model takes over.
"""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import Struct

from pointsman.calls.call_end import CallEnd, outcome_of
from pointsman.calls.flow import Fallback, Record, RecordPlacement
from pointsman.calls.locks import TurnLock
from pointsman.errors import ConfirmationNeeded, RoutingFailed
from pointsman.gateway.http import Headers
from pointsman.gateway.parts import Parts
from pointsman.gateway.telemetry.spans import call_span
from pointsman.gateway.telemetry.trace_context import trace_context
from pointsman.gateway.telemetry.turn_counts import count_end, count_ruling
from pointsman.gateway.turns.durable import Durability
from pointsman.gateway.turns.incoming import Incoming
from pointsman.gateway.turns.purse import Purse
from pointsman.kernel.record import Aside, Names, outcome_draft
from pointsman.providers.dialects.prefix import with_text_of_last_user
from pointsman.providers.messages import Usage
from pointsman.providers.port import Deadlines, UpstreamError
from pointsman.recording.ruling import Placing, Ruling
from pointsman.storage.policies import InForce
from pointsman.turns.call_event import Result
from pointsman.turns.override import Mode
from pointsman.turns.trace import Evaluation
from pointsman.version import VERSION

if TYPE_CHECKING:
    from pointsman.gateway.sharing import Ahead, Sharing


class End(Struct, frozen=True):
    """How one call ended."""

    result: Result
    error: UpstreamError | None = None
    usage: Usage | None = None
    stop_reason: str = ""
    answer_bytes: int = 0
    attempts: int = 1


class LiveTurn:
    """One request on its way, with everything that is known about it so far."""

    # How every turn begins stands with the class: it is written down only where it changes.
    decision_id = ""
    ruling: Ruling | None = None
    fallen_as: tuple[str, ...] = ()
    number = 0
    first_byte_ns = answer_bytes = 0
    out_ns = 0
    """When the last byte was out, where that is not now."""
    input_tokens = stream_events = 0
    end: CallEnd | None = None
    upstream_ns = called_ns = _waiting_ns = 0
    model = ""
    """The model that serves now."""
    winner: Evaluation | None = None
    """The slot that chose it."""

    def __init__(self, parts: Parts, request: Incoming, in_force: InForce) -> None:
        self.parts = parts
        self.request = request
        self.in_force = in_force
        self.started = time.perf_counter_ns()
        # One reading of the clock for all that is gathered and decided.
        self.asked_at = parts.pointsman.clock.now()
        self.durability = Durability(parts.bridge())
        self.turn_id = parts.pointsman.ids.new_id()
        self.session_id = request.conversation.id
        self.trace = trace_context(request.asked.headers)
        self.fallen_from: tuple[str, ...] = ()
        self.locked: TurnLock | None = None
        self.ahead: Ahead | None = None
        self.purse = Purse(parts, request, in_force)

    @property
    def trace_id(self) -> str:
        """The caller's trace, or the turn where it has none."""
        return self.turn_id if self.trace is None else self.trace.trace_id

    @property
    def policy(self) -> str:
        """The slot that chose the model, or that the turn is locked; empty where nothing did."""
        if self.locked is not None:
            return "turn_lock"
        return "" if self.winner is None else self.winner.policy

    @property
    def is_decided(self) -> bool:
        """Whether there is a decision to tell about: this request's, or its turn's."""
        return self.ruling is not None or self.locked is not None

    def ruled(self) -> Ruling:
        """Give the ruling in force; there is one from the first effect on."""
        if self.ruling is None:
            raise RoutingFailed
        return self.ruling

    @property
    def elapsed_us(self) -> int:
        """How long it has taken, until its answer was out."""
        return ((self.out_ns or time.perf_counter_ns()) - self.started) // 1000

    def lock(self) -> TurnLock | None:
        """Give the lock of the turn that this request goes on in, if it does."""
        if not self.request.look.is_continuation:
            return None
        if self.ahead is not None:
            return self.ahead.lock
        return self.parts.locks.of(self.session_id)

    async def look_ahead(self, sharing: Sharing) -> None:
        """Look at what other replicas may have changed: what memory says must not win over it."""
        is_new = not self.request.look.is_continuation
        asked = (self.session_id, self.purse.owners, self.purse.caps, self.asked_at)
        self.ahead = await sharing.run(lambda: sharing.ahead(*asked, is_new=is_new))

    def let_go(self, sharing: Sharing) -> None:
        """Let others try what this turn had claimed to try."""
        if self.ahead is not None and self.ahead.claims:
            sharing.let_go(self.ahead.claims)

    @property
    def inline_mode(self) -> Mode:
        """How an `@alias` at the start of a message is taken."""
        return self.parts.settings.inline_override

    def fallback(self) -> Fallback:
        """Give when another model may take over."""
        return self.parts.fallback

    def deadlines(self) -> Deadlines:
        """Give how long the provider may take."""
        return self.parts.deadlines

    def stripped_body(self) -> bytes:
        """Give the body without the `@alias`, or the backslash of `\\@`, its message began with."""
        body = self.request.asked.body
        left = "" if self.ruling is None else self.ruling.facts.message
        if not isinstance(left, str) or not left:
            return body
        cut = len(self.request.look.last_user_text) - len(left)
        return with_text_of_last_user(body, self.request.dialect, cut) if cut else body

    def record(self, effect: Record) -> None:
        """Hand a ruling in; the answer waits for it."""
        if effect.kind == "fallback":
            self.fallen_from = (*self.fallen_from, self.model)
            self.fallen_as = (*self.fallen_as, self.end.error_class if self.end else "other")
            self.parts.metrics.count("pointsman_fallbacks_total", (("model", self.model),))
        ruling = self.ruling = effect.ruling
        names, winner = self._names(), ruling.outcome.winner_index
        self.model = ruling.outcome.chosen_model
        self.winner = ruling.trace.chain[winner] if winner >= 0 else None
        self.decision_id = names.id
        linked = "fallback" if effect.kind == "fallback" else ""
        desk = self.parts.pointsman.desk
        desk.hand_in(names, self.in_force, ruling, self._aside(), self.durability, linked)
        count_ruling(self.parts.metrics, ruling, self.winner)

    def check_confirmed(self, placing: Placing) -> None:
        """Raise if a policy wants a human's yes and the request does not bring it."""
        if not placing.outcome.requires_confirmation:
            return
        if self.request.asked.header(b"x-pointsman-confirm").lower() != "yes":
            asked = "; ".join(placing.trace.prompts) or placing.outcome.reason
            raise ConfirmationNeeded(asked, hint="send `x-pointsman-confirm: yes`")

    def record_placement(self, effect: RecordPlacement) -> None:
        """Hand in what was decided about a call that goes on; the answer waits for it."""
        desk = self.parts.pointsman.desk
        desk.hand_in_placement(
            self._names(), self.in_force, effect.placing, self._aside(), self.durability
        )

    def _names(self) -> Names:
        pointsman = self.parts.pointsman
        return Names(pointsman.ids.new_id(), self.turn_id, pointsman.clock.now())

    def _aside(self) -> Aside:
        elapsed_us = (time.perf_counter_ns() - self.started) // 1000
        return Aside(elapsed_us, self.trace_id, self.session_id, False, VERSION)  # noqa: FBT003 - no preview

    def cancelled(self) -> None:
        """Note that the caller hung up while a model was at work."""
        if self.purse.reservation is not None:
            self.call_ended(self.model, End("cancelled", answer_bytes=self.answer_bytes))

    def headers(self) -> Headers:
        """Give what every answer says about its decision; never anything of the message."""
        found = [
            (b"x-pointsman-turn", self.turn_id.encode()),
            (b"x-pointsman-decision", self.decision_id.encode()),
            (b"x-pointsman-requested-model", _header(self.request.meant.requested)),
            (b"x-pointsman-model", _header(self.model)),
        ]
        winner = self.winner
        if self.locked is not None:
            found.append((b"x-pointsman-policy", b"turn_lock"))
        elif winner is not None:
            found.append((b"x-pointsman-policy", winner.policy.encode()))
            if winner.rule_name:
                found.append((b"x-pointsman-rule", _header(winner.rule_name)))
        if self.fallen_from:
            found.append((b"x-pointsman-fallback-from", _header(", ".join(self.fallen_from))))
        return found

    def called(self, model: str) -> None:
        """Note that a model is called; what passes until `heard` is the provider's time."""
        self.parts.health.begin(model, self.input_tokens)
        self.called_ns = self._waiting_ns = time.perf_counter_ns()

    def heard(self) -> None:
        """Note that the provider has begun to answer, or has failed to."""
        if self._waiting_ns:
            self.upstream_ns += time.perf_counter_ns() - self._waiting_ns
            self._waiting_ns = 0

    def call_ended(self, model: str, end: End) -> None:
        """Take the end of a call into account: availability, money, the ledger, the counts."""
        if self._waiting_ns:
            self.heard()
        parts, models = self.parts, self.in_force.ready.models
        known, error = models.get(model), end.error
        is_refusal = error is not None and error.is_policy_refusal
        result = end.result if error is None else error.result
        parts.health.ended(model, result, models, is_policy_refusal=is_refusal)
        reserved = self.purse.reservation
        first_ns = self.first_byte_ns - self.started
        told = CallEnd(
            model=model,
            location="cloud" if known is None else known.location,
            number=self.number,
            is_stream=self.request.look.is_stream,
            status=200 if error is None else error.status,
            error_class="" if end.result == "success" else end.result,
            attempts=end.attempts,
            stop_reason=end.stop_reason,
            elapsed_us=self.elapsed_us,
            first_byte_us=first_ns // 1000 if first_ns > 0 else 0,
            spent=self.purse.settled(end, self.input_tokens, self.stream_events),
        )
        pointsman = parts.pointsman
        # Shared budgets count a call's end by its entry, under the id that was reserved for it.
        entry_id = "" if reserved is None else reserved.id
        names = Names(entry_id or pointsman.ids.new_id(), self.decision_id, pointsman.clock.now())
        pointsman.desk.recorder().note(outcome_draft(names, outcome_of(told)))
        self.end = told
        count_end(self, told)
        if parts.tracing is not None:
            parts.tracing.call_ended(call_span(self, told, names.at))

    async def hold(self, stop_reason: str) -> None:
        """Bind the session to the model that served, for the calls that go on in this turn.

        Before the answer is out: its caller may go on at once, and after a restart, too.
        """
        lock, sharing = self._new_lock(), self.parts.sharing
        if sharing is not None:
            if stop_reason == "tool_use" or (self.ahead is not None and self.ahead.lock):
                held = (self.session_id, lock, self.parts.pointsman.clock.now())
                await sharing.run(lambda: sharing.hold(*held))
            return
        self.parts.locks.hold(self.session_id, lock)
        if stop_reason == "tool_use":
            now = self.parts.pointsman.clock.now()
            kept = self.parts.sessions.lock(
                self.session_id, self.turn_id, self.decision_id, self.model, now
            )
            await asyncio.wrap_future(kept)

    def hold_here(self) -> None:
        """Do the same for a turn that waits for no tool, where no other replica looks at it."""
        self.parts.locks.hold(self.session_id, self._new_lock())

    def _new_lock(self) -> TurnLock:
        let_go = self.ruling is not None and self.ruling.placing.outcome.log_escalation
        if self.locked is not None:
            let_go = self.locked.is_escalated
        return TurnLock(self.turn_id, self.decision_id, self.model, self.number, let_go)


@lru_cache(4096)
def _header(text: str) -> bytes:
    return quote(text, safe=":/@,. -_").encode("ascii")
