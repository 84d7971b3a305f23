"""One turn of a conversation as a generator of effects: from the user's message to the turn's end.

The routing of its first call and the lock of the others are `calls.flow`; this adds what a
conversation has beside them: events, messages, tools, workers, and an end for every way it can go.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pointsman.calls.flow import (
    AskOpinion,
    CallEffect,
    CallResult,
    Flow,
    FlowEnd,
    Record,
    TakeAnswer,
    TurnLock,
    continue_turn,
)
from pointsman.calls.flow import turn as routing_flow
from pointsman.errors import LedgerError, PointsmanError
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ZERO, billionths_text
from pointsman.providers.messages import ModelRequest, StopReason, Text, ToolSpec, ToolUse
from pointsman.recording.ruling import Ruling
from pointsman.sessions import effects
from pointsman.sessions.call_events import (
    answer_message,
    cut_message,
    llm_completed,
    llm_failed,
    pattern_matched,
)
from pointsman.sessions.delegate_call import DELEGATE_TOOL
from pointsman.sessions.effects import AskJudge, AskRoute, CallModel, ModelReply, Steps
from pointsman.sessions.events.calls import LlmCallStarted
from pointsman.sessions.events.session import (
    PatternOverrideDismissed,
    RouteOverridden,
    TurnCancelled,
    TurnStarted,
    TurnStop,
)
from pointsman.sessions.history import TranscriptStyle
from pointsman.sessions.message import Metadata, SessionMessage
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tool_cycle import ToolCycle, ToolScope
from pointsman.sessions.transcript import estimated_tokens
from pointsman.sessions.turn import (
    EndStatus,
    TurnEnd,
    TurnPlan,
    TurnTally,
    after_call,
    turn_completed,
)
from pointsman.turns.facts import ANY_MODEL, Override
from pointsman.turns.registry.models import provider_of

ROUTE_OVERRIDE: Final = "route override"
"""The alias recorded when the user took the pattern's choice."""

_STOPS: Final[dict[StopReason, TurnStop]] = {
    "end": "end_turn",
    "length": "max_tokens",
    "tool_use": "tool_use",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "error": "error",
}
_CANCELLED: Final = CallResult(is_done=False, error_class="cancelled", is_worth_another=False)


def run_turn(turn: TurnPlan) -> Steps[TurnEnd]:
    """Run one turn."""
    return (yield from _TurnFlow(turn).run())


class _TurnFlow:
    """One running turn."""

    def __init__(self, turn: TurnPlan) -> None:
        self.turn = turn
        self.started_at = Instant(0)
        self.ruling: Ruling | None = None
        self.decision_id = ""
        self.messages: list[SessionMessage] = []
        self.tally = TurnTally()
        self.parent = ""
        """The event that the next call of a model follows from."""
        self.lock: TurnLock | None = None
        self.cut_calls = 0
        self.is_cancelled = False
        self.error = ""
        self.wanted: tuple[ToolUse, ...] = ()
        self.stop: TurnStop | None = None
        self.held: dict[str, ModelReply] = {}
        """Answers that the user has not seen yet, by their models."""
        self.cycle = ToolCycle(
            ToolScope(
                turn.session_id, {}, self._all_messages, turn.is_worker, turn.limits.confirm_s
            ),
            turn.granted,
        )

    def run(self) -> Steps[TurnEnd]:
        self.started_at = yield from effects.now()
        try:
            ended = yield from self._loop()
        except LedgerError:
            raise
        except PointsmanError as error:
            self.error = error.message
            ended = FlowEnd("failed", self.ruling, self.tally.llm_calls)
        return (yield from self._end(ended))

    def _loop(self) -> Steps[FlowEnd]:
        turn = self.turn
        ended = yield from self._drive_routing(
            routing_flow(turn.policies, turn.asked, turn.facts, turn.fallback, turn.claim)
        )
        while ended.status == "done" and self.wanted and self.lock is not None:
            yield from self._use_tools()
            if self.is_cancelled or self.cycle.context_request is not None:
                break
            if self._is_over_limits():
                break
            lock = self.lock
            asked = yield from effects.gather_placement(self._request(lock.model), lock)
            ended = yield from self._drive_routing(continue_turn(turn.policies, asked, lock))
        return ended

    def _drive_routing(self, flow: Flow) -> Steps[FlowEnd]:
        """Carry out what the routing flow asks for, until it ends."""
        reply: CallResult | None = None
        is_again = False
        while True:
            try:
                effect = flow.send(reply)
            except StopIteration as end:
                return self._note_end(end.value)
            reply = None
            if isinstance(effect, CallEffect):
                reply = yield from self._call(effect)
            elif isinstance(effect, AskOpinion):
                reply = yield from self._ask_opinion(effect)
            elif isinstance(effect, TakeAnswer):
                yield from effects.show_answer(effect.model)
                yield from self._keep_answer(effect.model, self.held[effect.model])
            elif isinstance(effect, Record):
                again = yield from self._record_ruling(effect, is_again=is_again)
                if self.stop == "privacy":
                    return FlowEnd("refused", effect.ruling, 0)
                if again is not None:
                    flow, is_again = again, True
            else:
                yield from effects.record(effect)

    def _note_end(self, ended: FlowEnd) -> FlowEnd:
        if ended.status == "refused":
            self.stop = "privacy"
            self.error = "" if ended.placing is None else ended.placing.outcome.reason
        return ended

    def _record_ruling(self, effect: Record, *, is_again: bool) -> Steps[Flow | None]:
        """Record a ruling and its events; return another flow where the user wants one."""
        ruling = effect.ruling
        is_first = effect.kind == "turn" and not is_again
        if is_first and ruling.model:
            yield from self._begin()
        before, self.ruling = self.ruling, ruling
        kind = "override" if is_again and effect.kind == "turn" else effect.kind
        self.decision_id = yield from effects.record(Record(ruling, kind))
        if not ruling.model:
            return None
        if kind == "opinion":
            # A human allowed the turn to leave, where one had to, at its first decision.
            return None
        if not (yield from self._may_leave(ruling)):
            return None
        if kind == "override":
            yield from self._record_override(before)
            return None
        if not is_first:
            return None
        if ruling.trace.chain[ruling.outcome.winner_index].policy == "pattern":
            yield from effects.tell(pattern_matched(ruling), self.decision_id)
        return (yield from self._ask_about_pattern(ruling))

    def _may_leave(self, ruling: Ruling) -> Steps[bool]:
        """Ask a human where the placement wants one asked; a no ends the turn."""
        if not ruling.placing.outcome.requires_confirmation:
            return True
        is_allowed = yield from effects.ask_egress(ruling, self.tally.llm_calls + 1)
        if not is_allowed:
            self.stop, self.error = "privacy", "nobody allowed this turn to leave"
            self.is_cancelled = not (yield from effects.can_continue())
        return is_allowed

    def _begin(self) -> Steps[None]:
        turn, facts = self.turn, self.turn.facts
        started = TurnStarted(
            user_message_hash=facts.message,
            estimated_input_tokens=facts.tokens_for(ANY_MODEL),
            has_images=facts.has_images,
            has_tool_calls_in_history=facts.has_tool_calls_in_history,
        )
        self.parent = yield from effects.tell(started)
        metadata = Metadata(parent_tool_use_id=turn.parent_tool_use_id)
        self.messages.append((yield from effects.keep("user", turn.content, metadata)))

    def _ask_about_pattern(self, ruling: Ruling) -> Steps[Flow | None]:
        """Ask the user where the pattern disagrees; only before the first call (D-002-31)."""
        codes = {each.code: each.text for each in ruling.outcome.banners}
        text = codes.get("turns.pattern_disagreement")
        if text is None:
            return None
        pattern = next(each for each in ruling.trace.chain if each.policy == "pattern")
        suggested = pattern.candidate_model or ""
        answer = yield from effects.ask_route(AskRoute(ruling, suggested, text))
        if answer == "ignore":
            dismissed = PatternOverrideDismissed(
                ruling.model,
                suggested,
                _rule_name(ruling),
                billionths_text(pattern.confidence or ZERO),
            )
            yield from effects.tell(dismissed, self.decision_id)
        if answer != "override":
            return None
        turn = self.turn
        facts = replace(turn.facts, override=Override(ROUTE_OVERRIDE, suggested))
        return routing_flow(turn.policies, turn.asked, facts, turn.fallback, turn.claim)

    def _record_override(self, before: Ruling | None) -> Steps[None]:
        if before is None or self.ruling is None:
            return
        pattern = next(each for each in before.trace.chain if each.policy == "pattern")
        overridden = RouteOverridden(
            original_chosen_model=before.model,
            new_chosen_model=self.ruling.model,
            deferred_policy="pattern",
            rule_name=_rule_name(before),
            pattern_confidence=billionths_text(pattern.confidence or ZERO),
        )
        self.parent = yield from effects.tell(overridden, self.decision_id)

    def _call(self, call: CallEffect) -> Steps[CallResult]:
        if not (yield from effects.can_continue()):
            self.is_cancelled = True
            return _CANCELLED
        reply, started_id = yield from self._call_model(call)
        if reply.called.is_done:
            yield from self._tell_answer(call.model, reply, started_id)
            yield from self._keep_answer(call.model, reply)
        else:
            yield from self._take_failure(call.model, reply, started_id)
        return reply.called

    def _ask_opinion(self, call: AskOpinion) -> Steps[CallResult]:
        """Call a model whose answer is held back, or a judge about such an answer."""
        if not (yield from effects.can_continue()):
            self.is_cancelled = True
            return _CANCELLED
        if call.about:
            answer = self.held[call.about].response
            order = AskJudge(call.model, call.number, call.ruling, answer)
            reply = yield from effects.ask_judge(order)
            self.tally = after_call(self.tally, reply)
            return reply.called
        reply, started_id = yield from self._call_model(call)
        if reply.called.is_done:
            self.held[call.model] = reply
            yield from self._tell_answer(call.model, reply, started_id)
        else:
            yield from self._take_failure(call.model, reply, started_id, is_held=True)
        return reply.called

    def _call_model(self, call: CallEffect | AskOpinion) -> Steps[tuple[ModelReply, str]]:
        """Call a model; returns its reply, and the event that the call began with."""
        turn, request = self.turn, self._request(call.model)
        tokens = estimated_tokens(request)
        started = LlmCallStarted(
            model=call.model,
            provider=provider_of(call.model),
            estimated_input_tokens=tokens,
            request_id=f"{turn.turn_id}.{self.tally.llm_calls + 1}",
            is_worker=turn.is_worker,
        )
        started_id = yield from effects.tell(started, self.parent)
        is_held = isinstance(call, AskOpinion)
        order = CallModel(call.model, call.number, request, call.ruling, tokens, is_held)
        reply = yield from effects.call_model(order)
        self.tally = after_call(self.tally, reply)
        return reply, started_id

    def _tell_answer(self, model: str, reply: ModelReply, started_id: str) -> Steps[None]:
        self.error = ""
        completed = llm_completed(model, reply)
        self.parent = yield from effects.tell(completed, started_id)

    def _keep_answer(self, model: str, reply: ModelReply) -> Steps[None]:
        """Store an answer as the turn's own, and bind the turn to its model."""
        message = answer_message(model, reply, self.ruling, self.decision_id)
        self.messages.append(
            (yield from effects.keep("assistant", reply.response.content, message))
        )
        is_escalated = self.ruling is not None and self.ruling.placing.outcome.log_escalation
        self.lock = TurnLock(
            self.turn.turn_id, self.decision_id, model, self.tally.llm_calls, is_escalated
        )
        stop = reply.response.stop_reason
        uses = self.messages[-1].tool_uses
        # Some providers say that an answer ended although it asks for tools.
        self.wanted = uses if stop in {"tool_use", "end"} else ()
        self.stop = "tool_use" if self.wanted else _STOPS[stop]
        if stop == "tool_use" and not self.wanted:
            self.stop = "end_turn"

    def _take_failure(
        self, model: str, reply: ModelReply, started_id: str, *, is_held: bool = False
    ) -> Steps[None]:
        failed = llm_failed(model, reply)
        self.parent = yield from effects.tell(failed, started_id)
        self.error = reply.error_message
        if reply.is_cancelled:
            self.is_cancelled = True
            self.cut_calls += 1
        if is_held:
            return
        if reply.called.error_class == "over_budget":
            self.stop = "over_budget"
        if reply.response.content or reply.spent is not None:
            message = cut_message(model, reply, self.ruling, self.decision_id)
            content = tuple(each for each in reply.response.content if isinstance(each, Text))
            self.messages.append((yield from effects.keep("assistant", content, message)))

    def _use_tools(self) -> Steps[None]:
        cycle, lock = self.cycle, self.lock
        cycle.offer(self._tools_for("" if lock is None else lock.model))
        yield from cycle.run(self.wanted, self.parent)
        self.messages += cycle.messages
        self.parent = cycle.last_event
        self.tally = replace(self.tally, tool_calls=cycle.calls)
        self.is_cancelled = self.is_cancelled or cycle.is_cancelled

    def _is_over_limits(self) -> bool:
        limits = self.turn.limits
        if self.tally.llm_calls >= limits.most_calls:
            self.stop, self.error = "loop_limit", f"the turn made {limits.most_calls} calls"
        elif self._tokens_left() == 0:
            self.stop = "max_tokens"
        else:
            return False
        return True

    def _tokens_left(self) -> int | None:
        most = self.turn.limits.most_output_tokens
        return None if most is None else max(0, most - self.tally.output_tokens)

    def _tools_for(self, model: str) -> tuple[ToolDefinition, ...]:
        """Return the tools of a model: `delegate` only where it may delegate. 002 §6.8."""
        if not self._can_delegate(model):
            return self.turn.tools
        return (*self.turn.tools, DELEGATE_TOOL)

    def _can_delegate(self, model: str) -> bool:
        known = self.turn.policies.turns.models.get(model)
        return known is not None and known.can_delegate and not self.turn.is_worker

    def _all_messages(self) -> tuple[SessionMessage, ...]:
        return (*self.turn.history, *self.messages)

    def _request(self, model: str) -> ModelRequest:
        turn = self.turn
        known = turn.policies.turns.models.get(model)
        sees = known is not None and known.capabilities.supports_images is not False
        system = turn.system(model)
        tools = tuple(
            ToolSpec(each.name, each.description, each.input_schema)
            for each in self._tools_for(model)
        )
        left = self._tokens_left()
        most = None if known is None else known.capabilities.max_output_tokens
        past = turn.history.transcript_for(TranscriptStyle(sees, self._can_delegate(model)))
        return ModelRequest(
            messages=(*past.open, *past.to_messages(self.messages)),
            earlier=past,
            system=(Text(system),) if system else (),
            tools=tools,
            output=turn.output,
            max_output_tokens=left if left is None or most is None else min(left, most),
            is_stream=known is None or known.capabilities.supports_streaming is not False,
        )

    def _end(self, ended: FlowEnd) -> Steps[TurnEnd]:
        wall_us = (yield from effects.now()) - self.started_at
        self.tally = replace(self.tally, wall_us=max(0, wall_us))
        if self.is_cancelled:
            return (yield from self._end_cancelled())
        if ended.status == "no_model":
            banners = ended.ruling.outcome.banners if ended.ruling is not None else ()
            self.error = " ".join(each.text for each in banners)
            return self._turn_end("no_model", None)
        stop: TurnStop = self.stop or "error"
        status: EndStatus = "completed"
        if ended.status in {"failed", "refused"}:
            status = "failed" if ended.status == "failed" else "refused"
            stop = stop if stop in {"privacy", "over_budget"} else "error"
        if self.messages:
            yield from effects.tell(turn_completed(self.tally, stop), self.parent)
        return self._turn_end(status, stop)

    def _end_cancelled(self) -> Steps[TurnEnd]:
        reason = yield from effects.cancel_reason()
        cancelled = TurnCancelled(reason, self.cut_calls, self.cycle.cut)
        yield from effects.tell(cancelled, self.parent)
        return replace(self._turn_end("cancelled", None), cancelled_by=reason)

    def _turn_end(self, status: EndStatus, stop: TurnStop | None) -> TurnEnd:
        answers = [each for each in self.messages if each.role == "assistant"]
        return TurnEnd(
            status=status,
            stop_reason=stop,
            ruling=self.ruling,
            text=answers[-1].text if answers else "",
            tally=self.tally,
            messages=tuple(self.messages),
            granted=frozenset(self.cycle.granted),
            error=self.error,
            context_request=self.cycle.context_request,
        )


def _rule_name(ruling: Ruling) -> str | None:
    return ruling.trace.chain[ruling.outcome.winner_index].rule_name
