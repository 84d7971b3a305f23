"""One turn over HTTP: rule it, record it, call the model, and let the answer out once it may.

The flow itself is `calls.flow`; this drives it. INVARIANT: no byte of an answer leaves before
its decision is durable, and after the first one no other model takes over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from msgspec import UNSET
from msgspec.structs import replace

from pointsman.access.caps import Owners, caps_of
from pointsman.calls.call_end import CallEnd
from pointsman.calls.flow import EgressRefused, Record, RecordPlacement, TurnLock
from pointsman.calls.model_call import NOT_CONFIRMED, CallOrder, ModelCall
from pointsman.errors import ConfirmationNeeded, RoutingFailed
from pointsman.gateway.serving.http import Headers
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.telemetry.call_telemetry import count_ruling
from pointsman.gateway.telemetry.tracing import (
    TRACEPARENT,
    DecisionSpan,
    TraceContext,
    trace_context,
)
from pointsman.gateway.turns.incoming import TurnRequest
from pointsman.kernel.record import Aside, Names
from pointsman.providers.dialects.look import look
from pointsman.providers.dialects.masked_body import MaskedBody, Restoring, mask_body
from pointsman.providers.dialects.words_before import with_text_of_last_user
from pointsman.providers.port import provider_request_id
from pointsman.recording.key_limits import Admission
from pointsman.recording.labels import ToolItems, items_in_body
from pointsman.recording.placing import MaskedRequest
from pointsman.recording.ruling import PlacementRuling, Ruling
from pointsman.recording.taints import ITEM
from pointsman.signals.sensitivity import LongText, sensitivity_of_parts, sensitivity_steps
from pointsman.signals.tokens import count_tokens
from pointsman.storage.policies.policies import InForce
from pointsman.storage.writer.durability import Durability
from pointsman.turns.chain.override import Mode
from pointsman.turns.trace import Evaluation
from pointsman.version import VERSION

if TYPE_CHECKING:
    from pointsman.gateway.serving.sharing import Ahead, Sharing


from pointsman.providers.port import Dialect

MUCH_BYTES: Final = 32 * 1024
"""From so many unread bytes on a request is read in steps: they take the event loop some 3 ms."""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class LiveTurn:
    """One request on its way, with everything that is known about it so far."""

    # How every turn begins stands with the class: it is written down only where it changes.
    decision_id = ""
    ruling: Ruling | None = None
    fallen_as: tuple[str, ...] = ()
    number = 0
    input_tokens = 0
    earlier_tokens = 0
    """What earlier calls of this turn used; the limits of a key count it, too."""
    admission: Admission | None = None
    """How the limits of the caller's key count the request."""
    call: ModelCall | None = None
    """The call under way, or the last one."""
    _earlier_ns = 0
    """The providers' time in earlier calls of this turn."""
    model = ""
    """The model that serves now."""
    masked: MaskedRequest | None = None
    """The request as models in the cloud see it, where that is not as it is."""
    winner: Evaluation | None = None
    """The slot that chose it."""

    def __init__(self, parts: GatewayServices, request: TurnRequest, in_force: InForce) -> None:
        self.parts = parts
        self.request = request
        self.in_force = in_force
        self.started = time.perf_counter_ns()
        # One reading of the clock for all that is gathered and decided.
        self.asked_at = parts.pointsman.clock.now()
        self.durability = Durability(parts.bridge())
        self.turn_id = parts.pointsman.ids.new_id()
        self.session_id = request.conversation.id
        self.is_derived = request.conversation.source == "derived"
        """Whether its session is known by the opening of the conversation alone."""
        self.inline_mode: Mode = parts.settings.inline_override
        """How an `@alias` at the start of a message is taken."""
        self.fallback = parts.fallback
        self.trace: TraceContext | None = None
        if TRACEPARENT in request.asked.headers:
            self.trace = trace_context(request.asked.headers)
        self.fallen_from: tuple[str, ...] = ()
        self.locked: TurnLock | None = None
        self.ahead: Ahead | None = None
        self.tenant = request.caller.tenant or UNSET
        self.owners = Owners(
            request.caller.key_id,
            request.conversation.id,
            request.workspace or "",
            request.caller.tenant,
        )
        budgets = in_force.ready.policy.budgets
        self.caps = (*caps_of(budgets), *request.caller.caps) if budgets else request.caller.caps

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

    def require_ruling(self) -> Ruling:
        """Return the ruling in force; there is one from the first effect on."""
        if self.ruling is None:
            raise RoutingFailed
        return self.ruling

    @property
    def end(self) -> CallEnd | None:
        """How its last call ended."""
        return None if self.call is None else self.call.end

    @property
    def elapsed_us(self) -> int:
        """How long it has taken, until its answer was out."""
        out_ns = 0 if self.call is None else self.call.out_ns
        return ((out_ns or time.perf_counter_ns()) - self.started) // 1000

    @property
    def operation(self) -> str:
        """The operation other than an answer: `embeddings` and the like."""
        return self.request.operation

    @property
    def requested_model(self) -> str:
        """The name the caller gave."""
        return self.request.meant.requested

    @property
    def rule(self) -> str:
        """The rule that chose the model."""
        return "" if self.winner is None else self.winner.rule_name or ""

    @property
    def placement_rule(self) -> str:
        """The rule by which the turn may be where it goes."""
        return "" if self.ruling is None else self.ruling.placing.outcome.rule_id

    @property
    def overhead_ns(self) -> int | None:
        """How long the first byte took, less the providers' time; None before it left."""
        call = self.call
        if call is None or not call.first_byte_ns:
            return None
        return max(0, call.first_byte_ns - self.started - self._earlier_ns - call.upstream_ns)

    @property
    def is_much_to_read(self) -> bool:
        """Whether reading the request would hold up others: much of it was not seen lately."""
        parts = self.request.look.parts
        return parts is not None and parts.uncounted_bytes > MUCH_BYTES

    @property
    def asks_detectors(self) -> bool:
        """Whether detectors of the operator's own look at it, which may take its time."""
        own = self.parts.pointsman.own_detectors
        return own is not None and self.in_force.placement.policy.asks_detector

    async def ask_detectors(self) -> None:
        """Have the operator's own detectors look at it; their answers are remembered."""
        own = self.parts.pointsman.own_detectors
        if own is not None:
            leaving = self.leaving_text()
            text = leaving if isinstance(leaving, str) else leaving.text()
            await asyncio.get_running_loop().run_in_executor(None, own.find, text)

    def reading_steps(self) -> Iterator[None]:
        """Find out what the request holds, with a pause every few milliseconds."""
        look = self.request.look
        yield from look.token_steps(count_tokens)
        if look.parts is not None and self.in_force.placement.policy.asks_detector:
            key = self.parts.pointsman.home.content_key()
            yield from sensitivity_steps([*look.parts], key, self.parts.memos.findings)

    def leaving_text(self) -> str | LongText:
        """Return everything that leaves with the request."""
        look = self.request.look
        if look.parts is None:
            return look.everything()
        return LongText([*look.parts], self.parts.memos.findings)

    def tools(self) -> ToolItems:
        """Return the calls of tools that the request carries."""
        return items_in_body(self.request.asked.body)

    def mask(self) -> MaskedRequest:
        """Mask the request; from now on it goes to models in the cloud under placeholders alone."""
        pointsman, body = self.parts.pointsman, self.request.asked.body
        masked = pointsman.mask_request(self.in_force, self.session_id, body)
        if self.request.look.parts is not None and not masked.found.obstacle:
            masked = replace(masked, found=self._look_again(masked))
        self.masked = masked
        return masked

    def _look_again(self, masked: MaskedRequest) -> MaskedBody:
        """Look through a long masked request part by part, as it was looked through before."""
        found, memos = masked.found, self.parts.memos
        seen = look(self.request.dialect, found.body, memos)
        key = self.parts.pointsman.home.content_key()
        parts = [] if seen.parts is None else [*seen.parts]
        kinds = sensitivity_of_parts(parts, key, memos.findings)
        left = masked.placeholders.chosen_kinds(kinds.kinds)
        if not left and not kinds.has_failed:
            return found
        return replace(found, obstacle=f"{', '.join(left) or 'a value'} is found in it still")

    def restoring_for(self, model: str) -> Restoring | None:
        """Return what puts values back into a model's answer; None where it sees them as they are.

        A model on this machine is asked in plain words.
        """
        known = self.in_force.ready.models.get(model)
        if self.masked is None or (known is not None and known.location == "local"):
            return None
        return Restoring(
            self.masked.placeholders, is_json=self.request.look.wants_structured_output
        )

    def masked_body(self, body: bytes) -> bytes:
        """Return a body of this request, or of one made from it, under placeholders.

        INVARIANT: it raises where anything to be masked is left: decided once, and enforced again
        at the door.
        """
        masked = self.masked
        if masked is None:
            return body
        if body is self.request.asked.body and not masked.found.obstacle:
            return masked.found.body
        found = mask_body(body, masked.placeholders)
        if found.obstacle:
            raise EgressRefused(f"{self.model} may not be called: {found.obstacle}")
        return found.body

    def lock(self) -> TurnLock | None:
        """Return the lock of the turn that this request continues, if it does."""
        if not self.request.look.is_continuation:
            return None
        if self.ahead is not None:
            return self.ahead.lock
        return self.parts.locks.of(self.session_id)

    async def look_ahead(self, sharing: Sharing) -> None:
        """Read the state shared with other replicas, which wins over this process's memory."""
        is_new = not self.request.look.is_continuation
        asked = (self.session_id, self.owners, self.caps, self.asked_at)
        self.ahead = await sharing.ahead(*asked, is_new=is_new)

    def release_claims(self, sharing: Sharing) -> None:
        """Release the half-open models that this turn had claimed to try."""
        if self.ahead is not None and self.ahead.claims:
            sharing.let_go(self.ahead.claims)

    def stripped_body(self) -> bytes:
        """Return the body without its message's leading `@alias`, or the backslash of `\\@`."""
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
        linked = "" if effect.kind == "turn" else effect.kind
        decision_recorder = self.parts.pointsman.decision_recorder
        decision_recorder.hand_in(
            names, self.in_force, ruling, self._aside(), self.durability, linked, self._taint_name
        )
        count_ruling(self.parts.metrics, ruling, self.winner)
        if self.parts.tracing is not None:
            self.parts.tracing.send_decision(self._decision_span(effect.kind, ruling))
        step = ruling.trace.opinion
        if step is not UNSET and step.step in {"take", "up"}:
            self.parts.metrics.count("pointsman_second_opinions_total", (("result", step.step),))

    def _decision_span(self, kind: str, ruling: Ruling) -> DecisionSpan:
        """Return a decision as a span: the first lasts from the request, a later one no time."""
        now, won = time.time_ns(), self.winner
        took_ns = time.perf_counter_ns() - self.started if kind == "turn" else 0
        return DecisionSpan(
            kind=kind,
            started_ns=now - took_ns,
            ended_ns=now,
            session_id=self.session_id,
            turn_id=self.turn_id,
            decision_id=self.decision_id,
            model=self.model,
            policy="" if won is None else won.policy,
            rule="" if won is None else won.rule_name or "",
            placement_rule=ruling.placing.outcome.rule_id,
            gate=ruling.placing.outcome.gate,
            rejected=sum(each.verdict == "rejected" for each in ruling.trace.chain),
            fallback_from=self.fallen_from,
            parent=self.trace,
        )

    def check_confirmed(self, placing: PlacementRuling) -> None:
        """Raise if a policy wants a human's yes and the request does not bring it."""
        if not placing.outcome.requires_confirmation:
            return
        if self.request.asked.header(b"x-pointsman-confirm").lower() != "yes":
            asked = "; ".join(placing.trace.prompts) or placing.outcome.reason
            if self.model:
                self.number += 1
                self.open_call(self.model).refuse(NOT_CONFIRMED, ConfirmationNeeded.http_status)
            raise ConfirmationNeeded(asked, hint="send `x-pointsman-confirm: yes`")

    def record_placement(self, effect: RecordPlacement) -> None:
        """Hand in the placement of a call that continues a turn; the answer waits for it."""
        decision_recorder = self.parts.pointsman.decision_recorder
        decision_recorder.hand_in_placement(
            self._names(),
            self.in_force,
            effect.placing,
            self._aside(),
            self.durability,
            is_refused=effect.is_refused,
            taint_as=self._taint_name,
        )

    def items(self) -> list[str]:
        """Name the user's earlier messages, as taints name them."""
        names = [f"{self.session_id}{ITEM}{each}" for each in self.request.look.said_before()]
        # A call that continues its turn has its own message in its past, too.
        return names if self.locked is not None else names[:-1]

    def _taint_name(self) -> str:
        """Name the message that a taint of this turn holds; empty for the session."""
        if not self.is_derived:
            return ""
        said = self.request.look.said_before()
        return f"{self.session_id}{ITEM}{said[-1]}" if said else ""

    def _names(self) -> Names:
        pointsman = self.parts.pointsman
        return Names(pointsman.ids.new_id(), self.turn_id, pointsman.clock.now())

    def _aside(self) -> Aside:
        elapsed_us = (time.perf_counter_ns() - self.started) // 1000
        return Aside(elapsed_us, self.trace_id, self.session_id, False, VERSION, self.tenant)  # noqa: FBT003 - no preview

    def cancel_call(self) -> None:
        """Settle the call under way: its caller hung up, or nothing of it may leave."""
        if self.call is not None:
            self.call.cancel()

    def headers(self, upstream: Mapping[str, str] = NO_HEADERS) -> Headers:
        """Return the headers about the decision; never anything of the message."""
        found = [
            (b"x-pointsman-turn", self.turn_id.encode()),
            (b"x-pointsman-decision", self.decision_id.encode()),
            (b"x-pointsman-requested-model", _header(self.request.meant.requested)),
            (b"x-pointsman-model", _header(self.model)),
            request_id_header(self.request.dialect, upstream, self.turn_id),
        ]
        if upstream:
            found += passed_headers(upstream)
        receipts = self.parts.settings.receipts
        if receipts.in_answers:
            url = f"{receipts.base_url.rstrip('/')}/api/turns/{self.turn_id}/receipt"
            found.append((b"x-pointsman-receipt", url.encode()))
        winner = self.winner
        if self.locked is not None:
            found.append((b"x-pointsman-policy", b"turn_lock"))
        elif winner is not None:
            found.append((b"x-pointsman-policy", winner.policy.encode()))
            if winner.rule_name:
                found.append((b"x-pointsman-rule", _header(winner.rule_name)))
        rejected: list[str] = []
        if self.ruling is not None and self.ruling.outcome.banners and winner is not None:
            # The models chosen by hand that did not take the turn.
            chain = self.ruling.trace.chain[:2]
            rejected = [each.candidate_model or "" for each in chain if each.verdict == "rejected"]
        if rejected:
            found.append((b"x-pointsman-notice", b"turns.choice_rejected"))
        if rejected or self.fallen_from:
            names = dict.fromkeys((*rejected, *self.fallen_from))
            found.append((b"x-pointsman-fallback-from", _header(", ".join(names))))
        return found

    def open_call(self, model: str) -> ModelCall:
        """Make ready to call a model; its money is to be reserved first."""
        if self.call is not None:
            self._earlier_ns += self.call.upstream_ns
            spent = None if self.call.end is None else self.call.end.spent
            if spent is not None:
                self.earlier_tokens += spent.input_tokens + spent.output_tokens
        look = self.request.look
        order = CallOrder(
            model,
            self.number,
            self.decision_id,
            self.in_force,
            self.owners,
            self.caps,
            self.input_tokens,
            look.max_output_tokens,
            look.is_stream,
            self.started,
        )
        call = self.call = ModelCall(self.parts.calls, order, self)
        return call

    async def hold(self, stop_reason: str) -> None:
        """Bind the session to the model that served, for the calls that go on in this turn.

        Before the answer is out: its caller may go on at once, and after a restart, too.
        """
        storing = self._start_holding(stop_reason)
        if storing is not None:
            await asyncio.wrap_future(storing)

    def hold_beside(self, stop_reason: str) -> None:
        """Do the same, and have the answer wait for the stored lock as for its decision."""
        storing = self._start_holding(stop_reason)
        if storing is not None:
            self.durability.expect_future(storing)

    def _start_holding(self, stop_reason: str) -> Future[None] | None:
        lock, sharing = self._new_lock(), self.parts.sharing
        if sharing is None:
            return self._hold_in_memory(lock, stop_reason)
        if stop_reason == "tool_use" or (self.ahead is not None and self.ahead.lock):
            return sharing.hold(self.session_id, lock, self.parts.pointsman.clock.now())
        return None

    def _hold_in_memory(self, lock: TurnLock, stop_reason: str) -> Future[None] | None:
        """Hold a lock; one that waits for a tool is stored, too, unless it stands there already."""
        before, storing = self.locked, None
        if stop_reason == "tool_use":
            if before is None or not before.is_stored or before.model != lock.model:
                now = self.parts.pointsman.clock.now()
                storing = self.parts.sessions.lock(
                    self.session_id, lock.turn_id, lock.decision_id, lock.model, now
                )
            lock = replace(lock, is_stored=True)
        self.parts.locks.hold(self.session_id, lock)
        return storing

    def _new_lock(self) -> TurnLock:
        let_go = self.ruling is not None and self.ruling.placing.outcome.log_escalation
        if self.locked is not None:
            let_go = self.locked.is_escalated
        return TurnLock(self.turn_id, self.decision_id, self.model, self.number, let_go)


@lru_cache(4096)
def _header(text: str) -> bytes:
    return quote(text, safe=":/@,. -_").encode("ascii")


_NAMED: Final = frozenset({"openai-processing-ms", "openai-version", "retry-after"})
_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-")


def request_id_header(
    dialect: Dialect, headers: Mapping[str, str], own_id: str
) -> tuple[bytes, bytes]:
    """Return the request id under the name that the vendor of a dialect gives it."""
    name = b"request-id" if dialect == "messages" else b"x-request-id"
    return name, (provider_request_id(headers) or own_id).encode("latin-1", "replace")


def passed_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return a provider's headers about its limits and its time."""
    return [
        (name.encode("ascii", "replace"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
        if name in _NAMED or name.startswith(_PREFIXES)
    ]
