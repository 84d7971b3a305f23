"""Drives one session's turn: carries out each effect, and answers it; a cancel is an answer.

INVARIANT: no word is shown and no tool runs before every event recorded so far is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Final, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.access.caps import Owners
from pointsman.calls.answer_agreement import read_opinion
from pointsman.calls.flow import Record, RecordPlacement
from pointsman.calls.judging import Rubric, answer_text, judge_request, question_text, verdict
from pointsman.calls.model_call import NOT_CONFIRMED, CallOrder, ModelCall, PlainContext
from pointsman.conversations.displayed_call import DisplayedCall
from pointsman.conversations.masked_calls import masked_request, masker_for
from pointsman.conversations.services import ConversationServices
from pointsman.conversations.session_events import EventScope, hand_in_event
from pointsman.conversations.stored_messages import message_row
from pointsman.errors import ConfirmationNeeded, PointsmanError
from pointsman.kernel.record import Aside, Names
from pointsman.placement.facts import PlacementFacts
from pointsman.providers.messages import ModelRequest, ToolResult, ToolUse
from pointsman.recording.placing import PlacedTurn as Placed
from pointsman.recording.waiting import AsyncWaiter
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.delegate_call import MOST_AT_ONCE, DelegateResult, Delegation
from pointsman.sessions.effects import (
    AskEgress,
    AskHuman,
    AskJudge,
    AskRoute,
    CallModel,
    CancelledBy,
    CanContinue,
    Delegate,
    Effect,
    GatherPlacement,
    KeepMessage,
    ModelReply,
    NeedsConfirmation,
    NewId,
    Now,
    RouteAnswer,
    RunTool,
    RunTools,
    ShowAnswer,
    Steps,
    TellEvent,
    ToolRun,
)
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.message import SessionMessage, check_message
from pointsman.sessions.tool import (
    ConfirmationAnswer,
    Confirmer,
    DenyAll,
    NoTools,
    PendingConfirmation,
    ToolContext,
    ToolOutcome,
    ToolSet,
)
from pointsman.sessions.transcript import estimated_tokens, request_text, request_tools
from pointsman.sessions.update import EventUpdate, ToolAnswered, ToolAsked, Update
from pointsman.signals.redaction import redact
from pointsman.signals.tokens import TOKENIZER, count_tokens
from pointsman.storage.policies.policies import InForce
from pointsman.turns.facts import ANY_MODEL, TurnFacts
from pointsman.turns.learning.second_opinion import Opinion
from pointsman.version import VERSION

T = TypeVar("T")
GIVE_UP_S: Final = 30
"""How long the driver waits for a cancelled tool to stop."""


class TurnScope(Struct, frozen=True):
    """The turn that is driven: its session, its workspace, and its planner's turn."""

    session_id: str
    turn_id: str
    workspace: str | None = None
    parent_session_id: str = ""
    parent_turn_id: str = ""
    """The planner's turn that a worker belongs to."""
    handed_labels: tuple[str, ...] = ()
    """The labels of what the planner had seen when it handed the task over."""

    @property
    def is_worker(self) -> bool:
        """Whether a planner waits for it."""
        return bool(self.parent_session_id)

    @property
    def owners(self) -> Owners:
        """Whose budget is charged: for a worker its planner's, so that delegating evades no cap."""
        return Owners("", self.placement_session_id, self.workspace or "")

    @property
    def placement_session_id(self) -> str:
        """The session whose history taints the turn: for a worker, its planner's."""
        return self.parent_session_id or self.session_id


class TurnCallbacks(Struct, frozen=True):
    """The callbacks through which a driver reaches its session."""

    show: Callable[[Update], None]
    ask_route: Callable[[AskRoute], Awaitable[RouteAnswer]]
    ask_egress: Callable[[AskEgress], Awaitable[bool]]
    confirmer: Confirmer
    tools: ToolSet
    run_workers: Callable[[Sequence[Delegation]], Awaitable[tuple[DelegateResult, ...]]]
    on_decision: Callable[[Record, str], None]
    """CallResult with every decision and its id."""


def _show_nothing(_update: Update) -> None:
    return None


def _ignore_decision(_effect: Record, _decision_id: str) -> None:
    return None


async def _keep_route(_effect: AskRoute) -> RouteAnswer:
    return "none"


async def _refuse_egress(_effect: AskEgress) -> bool:
    return False


async def run_no_workers(_work: Sequence[Delegation]) -> tuple[DelegateResult, ...]:
    """Run no worker: a turn that has none of its own."""
    return ()


UNATTENDED: Final = TurnCallbacks(
    _show_nothing,
    _keep_route,
    _refuse_egress,
    DenyAll(),
    NoTools(),
    run_no_workers,
    _ignore_decision,
)
"""The callbacks of a turn without a reader: an action that needs a human's yes does not happen."""


class TurnDriver:
    """Carries out the effects of one turn."""

    def __init__(
        self,
        services: ConversationServices,
        scope: TurnScope,
        in_force: InForce,
        callbacks: TurnCallbacks,
    ) -> None:
        self._services = services
        self._scope = scope
        self._in_force = in_force
        self._callbacks = callbacks
        self.labels: tuple[str, ...] = ()
        """The labels of what the last follow-up request sent."""
        self._durable = AsyncWaiter()
        self._stopping = asyncio.Event()
        self._reason: CancelReason = "user_cancel"
        self._call: DisplayedCall | None = None
        self._decision_id = ""
        self._held: dict[str, list[Update]] = {}
        """What there is to show of answers that are held back, by their models."""
        self._messages: list[SessionMessage] = []
        self._started_ns = time.perf_counter_ns()

    @property
    def is_cancelled(self) -> bool:
        """Whether the turn was cancelled."""
        return self._stopping.is_set()

    def cancel(self, reason: CancelReason = "user_cancel") -> None:
        """Cancel the turn; a second cancel does nothing."""
        if self._stopping.is_set():
            return
        self._reason = reason
        self._stopping.set()
        if self._call is not None:
            self._call.cancel()

    async def run(self, steps: Steps[T], begun: Sequence[SessionMessage] = ()) -> T:
        """Drive a flow to its end, and leave it once all of it is durable.

        `begun` are messages that the turn has already; a result answers a call of its own turn.
        """
        self._messages = [*begun]
        answer: object = None
        failed: PointsmanError | None = None
        while True:
            try:
                effect = steps.throw(failed) if failed is not None else steps.send(answer)
            except StopIteration as end:
                await self._durable.wait()
                return end.value  # type: ignore[no-any-return] # the flow's result
            failed = None
            try:
                answer = await self._carry_out(effect)
            except PointsmanError as error:
                failed = error

    async def _carry_out(self, effect: Effect) -> object:  # noqa: PLR0911, PLR0912, C901 - one each
        match effect:
            case Record() | RecordPlacement():
                return self._record_decision(effect)
            case TellEvent():
                return self._handle_tell(effect)
            case KeepMessage():
                return await self._keep_message(effect)
            case CallModel():
                return await self._call_model(effect)
            case AskJudge():
                return await self._ask_judge(effect)
            case ShowAnswer():
                await self._show_held(effect.model)
                return None
            case GatherPlacement():
                return self._gather_placement(effect)
            case CanContinue():
                return not self.is_cancelled
            case CancelledBy():
                return self._reason
            case AskHuman():
                return await self._until_cancelled(self._ask_confirmation(effect.asked))
            case AskRoute():
                return (
                    await self._until_cancelled(_await(self._callbacks.ask_route(effect))) or "none"
                )
            case AskEgress():
                return await self._ask_egress(effect)
            case NeedsConfirmation():
                return self._callbacks.tools.needs_confirmation(effect.use, self._context())
            case RunTool():
                await self._durable.wait()
                return await self._run_tool(effect.use)
            case RunTools():
                await self._durable.wait()
                return await self._run_tools(effect.uses)
            case Delegate():
                await self._durable.wait()
                return await self._callbacks.run_workers(effect.delegations)
            case Now():
                return self._services.opened.clock.now()
            case NewId():
                return self._services.opened.ids.new_id()

    def _record_decision(self, effect: Record | RecordPlacement) -> str:
        """Submit a decision; later effects wait until it is durable."""
        opened, scope = self._services.opened, self._scope
        names = Names(opened.ids.new_id(), scope.turn_id, opened.clock.now())
        elapsed_us = (time.perf_counter_ns() - self._started_ns) // 1000
        tenant = self._services.key_limits.tenant or UNSET
        aside = Aside(elapsed_us, scope.turn_id, scope.session_id, False, VERSION, tenant)  # noqa: FBT003 - no preview
        if isinstance(effect, RecordPlacement):
            opened.decision_recorder.hand_in_placement(
                names,
                self._in_force,
                effect.placing,
                aside,
                self._durable,
                is_refused=effect.is_refused,
            )
            return names.id
        linked = "" if effect.kind == "turn" else effect.kind
        opened.decision_recorder.hand_in(
            names, self._in_force, effect.ruling, aside, self._durable, linked
        )
        self._decision_id = names.id
        self._callbacks.on_decision(effect, names.id)
        return names.id

    def _handle_tell(self, effect: TellEvent) -> str:
        scope = self._scope
        where = (scope.session_id, scope.turn_id, scope.parent_session_id)
        if effect.to_parent:
            where = (scope.parent_session_id, scope.parent_turn_id, "")
        return self.record_event(effect.payload, effect.parent, where)

    def record_event(self, payload: Payload, parent: str, where: EventScope) -> str:
        """Record an event."""
        event = hand_in_event(self._services, payload, where, parent, self._durable)
        self._callbacks.show(EventUpdate(event))
        return event.id

    async def _keep_message(self, effect: KeepMessage) -> SessionMessage:
        opened, scope, store = self._services.opened, self._scope, self._services.store
        message = SessionMessage(
            opened.ids.new_id(),
            scope.session_id,
            scope.turn_id,
            effect.role,
            effect.content,
            effect.metadata,
            opened.clock.now(),
        )
        check_message(message, self._messages)
        await asyncio.wrap_future(store.append_message(message_row(message, store.retain, redact)))
        self._messages.append(message)
        for each in message.content:
            if isinstance(each, ToolUse):
                self._callbacks.show(ToolAsked(each))
            elif isinstance(each, ToolResult):
                self._callbacks.show(ToolAnswered(each))
        return message

    async def _ask_egress(self, effect: AskEgress) -> bool:
        """Ask a human; without a yes, record the call that is not made, as the gateway does."""
        asking = _await(self._callbacks.ask_egress(effect))
        is_allowed = bool(await self._until_cancelled(asking))
        if not is_allowed:
            model = effect.ruling.model
            order = self._order(model, effect.number, effect.ruling.facts.tokens_for(model))
            refused = ModelCall(self._services.calls, order, self._call_context())
            refused.refuse(NOT_CONFIRMED, ConfirmationNeeded.http_status)
        return is_allowed

    def _order(
        self, model: str, number: int, input_tokens: int, request: ModelRequest | None = None
    ) -> CallOrder:
        services = self._services
        return CallOrder(
            model=model,
            number=number,
            decision_id=self._decision_id,
            in_force=self._in_force,
            owners=services.owners(self._scope.owners),
            caps=services.caps(self._in_force),
            input_tokens=input_tokens,
            asked_output=None if request is None else request.max_output_tokens,
            is_stream=request is not None and request.is_stream,
            started_ns=time.perf_counter_ns(),
        )

    def _call_context(self) -> PlainContext:
        return PlainContext(self._scope.turn_id, self._scope.session_id)

    async def _call_model(self, effect: CallModel) -> ModelReply:
        services, ruling, request = self._services, effect.ruling, effect.request
        # The first call of a turn is paid for by the estimate its decision was made with.
        tokens = effect.input_tokens if ruling is None else ruling.facts.tokens_for(effect.model)
        order = self._order(effect.model, effect.number, tokens, request)
        if not effect.is_held:
            return await self._run_call(order, request, self._callbacks.show)
        kept: list[Update] = []
        reply = await self._run_call(order, request, kept.append)
        if not reply.called.is_done:
            return reply
        self._held[effect.model] = kept
        key = services.opened.home.content_key()
        opinion = read_opinion(effect.model, reply.response, request, key)
        return replace(reply, called=replace(reply.called, opinion=opinion))

    async def _run_call(
        self, order: CallOrder, request: ModelRequest, show: Callable[[Update], None]
    ) -> ModelReply:
        durable, context = self._durable.wait, self._call_context()
        opened, session_id = self._services.opened, self._scope.placement_session_id
        mask = masker_for(opened, self._in_force, session_id, order.model)
        call = DisplayedCall(self._services, order, context, request, show, durable, mask)
        self._call = call
        try:
            if self.is_cancelled:
                call.cancel()
            return await call.run()
        finally:
            self._call = None

    async def _ask_judge(self, effect: AskJudge) -> ModelReply:
        """Ask a judge about an answer that is held back; the user sees nothing of it."""
        message, given = effect.ruling.facts.message, self._services.settings.judge.rubric
        question = message if isinstance(message, str) else ""
        rubric = Rubric(given) if given else Rubric()
        request = judge_request(rubric, question, answer_text(effect.answer))
        tokens = count_tokens(question_text(request))
        order = self._order(effect.model, effect.number, tokens, request)
        reply = await self._run_call(order, request, _show_nothing)
        if not reply.called.is_done:
            return reply
        score = verdict(answer_text(reply.response))
        opinion = Opinion(effect.model, "text", score=score)
        return replace(reply, called=replace(reply.called, opinion=opinion))

    async def _show_held(self, model: str) -> None:
        """Show an answer that was held back, once the decision that took it is durable."""
        await self._durable.wait()
        for update in self._held.pop(model):
            self._callbacks.show(update)

    def _gather_placement(self, effect: GatherPlacement) -> PlacementFacts:
        """Gather facts about a follow-up request: a tool may have added private data."""
        opened, request = self._services.opened, effect.request
        facts = TurnFacts(
            message=request_text(request) if self._in_force.placement.reads_content else "",
            estimated_input_tokens={ANY_MODEL: estimated_tokens(request)},
            tokenizer=TOKENIZER,
        )
        about = Placed(
            self._scope.turn_id,
            self._scope.placement_session_id,
            opened.clock.now(),
            tools=lambda: request_tools(request),
            handed_labels=self._scope.handed_labels,
        )
        asked = opened.gather_placement(
            self._in_force,
            facts,
            about,
            lambda: request_text(request),
            masked_request(opened, self._in_force, about.session_id, request),
        )
        self.labels = asked.labels or ()
        return asked

    def _context(self) -> ToolContext:
        scope = self._scope
        return ToolContext(
            scope.session_id,
            scope.turn_id,
            scope.workspace,
            scope.is_worker,
            scope.parent_session_id,
        )

    async def _ask_confirmation(self, asked: PendingConfirmation) -> ConfirmationAnswer:
        await self._durable.wait()
        left_us = asked.expires_at - self._services.opened.clock.now()
        try:
            async with asyncio.timeout(max(0, left_us) / 1e6):
                return await self._callbacks.confirmer.ask(asked)
        except TimeoutError:
            return ConfirmationAnswer("timeout")

    async def _run_tools(self, uses: Sequence[ToolUse]) -> tuple[ToolRun, ...]:
        free = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(use: ToolUse) -> ToolRun:
            async with free:
                if self.is_cancelled:
                    return ToolRun(ToolOutcome((), "cancelled"), is_cancelled=True)
                return await self._run_tool(use)

        ran = await asyncio.gather(*map(one, uses), return_exceptions=True)
        for each in ran:
            if isinstance(each, BaseException):
                raise each
        return tuple(each for each in ran if isinstance(each, ToolRun))

    async def _run_tool(self, use: ToolUse) -> ToolRun:
        tools, started = self._callbacks.tools, time.perf_counter_ns()
        running = asyncio.ensure_future(tools.run(use, self._context()))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return ToolRun(running.result(), _since_ms(started))
            await tools.cancel(use.id)
            await asyncio.wait({running}, timeout=GIVE_UP_S)
            return ToolRun(ToolOutcome((), "cancelled"), _since_ms(started), is_cancelled=True)
        finally:
            stopping.cancel()
            if not running.done():
                running.cancel()

    async def _until_cancelled(self, work: Coroutine[object, object, T]) -> T | None:
        """Wait for a human, or for a cancel: then there is no answer."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            stopping.cancel()
            working.cancel()


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _since_ms(started_ns: int) -> int:
    return (time.perf_counter_ns() - started_ns) // 1_000_000
