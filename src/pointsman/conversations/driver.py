"""Drives one session's turn: carries out each effect, and answers it; a cancel is an answer.

INVARIANT: no word is shown and no tool runs before everything told so far is durable.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from pointsman.access.caps import Owners
from pointsman.calls.flow import Record, RecordPlacement
from pointsman.calls.model_call import CallOrder, PlainContext
from pointsman.conversations.conversation_house import House
from pointsman.conversations.kept_messages import message_row
from pointsman.conversations.model_call import ShownCall
from pointsman.conversations.telling import Where, handed_in
from pointsman.errors import PointsmanError
from pointsman.kernel.record import Aside, Names
from pointsman.placement.facts import PlacementFacts
from pointsman.providers.messages import ToolResult, ToolUse
from pointsman.recording.placing import Turn as Placed
from pointsman.recording.waiting import Awaited
from pointsman.sessions.catalogue import Payload
from pointsman.sessions.delegate_call import MOST_AT_ONCE, DelegateResult, Delegation
from pointsman.sessions.effects import (
    Ask,
    AskEgress,
    AskRoute,
    CallModel,
    CancelledBy,
    Delegate,
    Effect,
    Gather,
    GoOn,
    Keep,
    NeedsAsking,
    NewId,
    Now,
    Ran,
    Replied,
    RouteAnswer,
    RunTool,
    RunTools,
    Steps,
    Tell,
)
from pointsman.sessions.events.session import CancelReason
from pointsman.sessions.message import SessionMessage, check_message
from pointsman.sessions.tool import Answered, Asked, Confirmer, ToolContext, ToolOutcome, ToolSet
from pointsman.sessions.transcript import estimated_tokens, everything
from pointsman.sessions.update import Told, ToolAnswered, ToolAsked, Update
from pointsman.signals.redaction import redacted
from pointsman.signals.tokens import TOKENIZER
from pointsman.storage.policies.policies import InForce
from pointsman.turns.facts import ANY_MODEL, TurnFacts
from pointsman.version import VERSION

T = TypeVar("T")
GIVE_UP_S: Final = 30
"""How long a cancelled tool may take to stop before nobody waits for it any more."""


class Seat(Struct, frozen=True):
    """Whose turn is driven."""

    session_id: str
    turn_id: str
    workspace: str | None = None
    parent_session_id: str = ""
    parent_turn_id: str = ""
    """The planner's turn that a worker belongs to."""

    @property
    def is_worker(self) -> bool:
        """Whether a planner waits for it."""
        return bool(self.parent_session_id)

    @property
    def owners(self) -> Owners:
        """Whose money is spent: a worker's planner's, so that no budget is passed by delegating."""
        return Owners("", self.placed_as, self.workspace or "")

    @property
    def placed_as(self) -> str:
        """The session whose past says what must stay: a worker's is its planner's."""
        return self.parent_session_id or self.session_id


class Desires(Struct, frozen=True):
    """What a driver asks of the session round it."""

    show: Callable[[Update], None]
    ask_route: Callable[[AskRoute], Awaitable[RouteAnswer]]
    ask_egress: Callable[[AskEgress], Awaitable[bool]]
    confirmer: Confirmer
    tools: ToolSet
    run_workers: Callable[[Sequence[Delegation]], Awaitable[tuple[DelegateResult, ...]]]
    decided: Callable[[Record, str], None]
    """Told of every decision and its id."""


class Driver:
    """Carries out the effects of one turn."""

    def __init__(self, house: House, seat: Seat, in_force: InForce, desires: Desires) -> None:
        self._house = house
        self._seat = seat
        self._in_force = in_force
        self._desires = desires
        self._durable = Awaited()
        self._stopping = asyncio.Event()
        self._reason: CancelReason = "user_cancel"
        self._call: ShownCall | None = None
        self._decision_id = ""
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
                return end.value  # type: ignore[no-any-return] # what the flow returns
            failed = None
            try:
                answer = await self._carried_out(effect)
            except PointsmanError as error:
                failed = error

    async def _carried_out(self, effect: Effect) -> object:  # noqa: PLR0911, PLR0912, C901 - one each
        match effect:
            case Record() | RecordPlacement():
                return self._recorded(effect)
            case Tell():
                return self._told(effect)
            case Keep():
                return await self._kept(effect)
            case CallModel():
                return await self._called(effect)
            case Gather():
                return self._gathered(effect)
            case GoOn():
                return not self.is_cancelled
            case CancelledBy():
                return self._reason
            case Ask():
                return await self._until_cancelled(self._asked(effect.asked))
            case AskRoute():
                return await self._until_cancelled(_of(self._desires.ask_route(effect))) or "none"
            case AskEgress():
                return bool(await self._until_cancelled(_of(self._desires.ask_egress(effect))))
            case NeedsAsking():
                return self._desires.tools.needs_confirmation(effect.use, self._context())
            case RunTool():
                await self._durable.wait()
                return await self._ran(effect.use)
            case RunTools():
                await self._durable.wait()
                return await self._ran_together(effect.uses)
            case Delegate():
                await self._durable.wait()
                return await self._desires.run_workers(effect.delegations)
            case Now():
                return self._house.ground.clock.now()
            case NewId():
                return self._house.ground.ids.new_id()

    def _recorded(self, effect: Record | RecordPlacement) -> str:
        """Hand a decision in; what follows from it waits until it is durable."""
        ground, seat = self._house.ground, self._seat
        names = Names(ground.ids.new_id(), seat.turn_id, ground.clock.now())
        elapsed_us = (time.perf_counter_ns() - self._started_ns) // 1000
        aside = Aside(elapsed_us, seat.turn_id, seat.session_id, False, VERSION)  # noqa: FBT003 - no preview
        if isinstance(effect, RecordPlacement):
            ground.desk.hand_in_placement(
                names,
                self._in_force,
                effect.placing,
                aside,
                self._durable,
                is_refused=effect.is_refused,
            )
            return names.id
        linked = "" if effect.kind == "turn" else effect.kind
        ground.desk.hand_in(names, self._in_force, effect.ruling, aside, self._durable, linked)
        self._decision_id = names.id
        self._desires.decided(effect, names.id)
        return names.id

    def _told(self, effect: Tell) -> str:
        seat = self._seat
        where = (seat.session_id, seat.turn_id, seat.parent_session_id)
        if effect.to_parent:
            where = (seat.parent_session_id, seat.parent_turn_id, "")
        return self.tell(effect.payload, effect.parent, where)

    def tell(self, payload: Payload, parent: str, where: Where) -> str:
        """Record an event."""
        event = handed_in(self._house, payload, where, parent, self._durable)
        self._desires.show(Told(event))
        return event.id

    async def _kept(self, effect: Keep) -> SessionMessage:
        ground, seat, store = self._house.ground, self._seat, self._house.store
        message = SessionMessage(
            ground.ids.new_id(),
            seat.session_id,
            seat.turn_id,
            effect.role,
            effect.content,
            effect.metadata,
            ground.clock.now(),
        )
        check_message(message, self._messages)
        await asyncio.wrap_future(store.keep(message_row(message, store.retain, redacted)))
        self._messages.append(message)
        for each in message.content:
            if isinstance(each, ToolUse):
                self._desires.show(ToolAsked(each))
            elif isinstance(each, ToolResult):
                self._desires.show(ToolAnswered(each))
        return message

    async def _called(self, effect: CallModel) -> Replied:
        seat = self._seat
        house, ruling, request = self._house, effect.ruling, effect.request
        # The first call of a turn is paid for by the estimate its decision was made with.
        tokens = effect.input_tokens if ruling is None else ruling.facts.tokens_for(effect.model)
        order = CallOrder(
            model=effect.model,
            number=effect.number,
            decision_id=self._decision_id,
            in_force=self._in_force,
            owners=house.owners(seat.owners),
            caps=house.caps(self._in_force),
            input_tokens=tokens,
            asked_output=request.max_output_tokens,
            is_stream=request.is_stream,
            started_ns=time.perf_counter_ns(),
        )
        context = PlainContext(seat.turn_id, seat.session_id)
        call = ShownCall(house, order, context, request, self._desires.show, self._durable.wait)
        self._call = call
        try:
            if self.is_cancelled:
                call.cancel()
            return await call.run()
        finally:
            self._call = None

    def _gathered(self, effect: Gather) -> PlacementFacts:
        """Look at what a call that goes on would send: a tool may have brought what must stay."""
        ground, request = self._house.ground, effect.request
        facts = TurnFacts(
            message=everything(request) if self._in_force.placement.reads_content else "",
            estimated_input_tokens={ANY_MODEL: estimated_tokens(request)},
            tokenizer=TOKENIZER,
        )
        about = Placed(self._seat.turn_id, self._seat.placed_as, ground.clock.now())
        return ground.asked(self._in_force, facts, about, lambda: everything(request))

    def _context(self) -> ToolContext:
        seat = self._seat
        return ToolContext(
            seat.session_id, seat.turn_id, seat.workspace, seat.is_worker, seat.parent_session_id
        )

    async def _asked(self, asked: Asked) -> Answered:
        await self._durable.wait()
        left_us = asked.expires_at - self._house.ground.clock.now()
        try:
            async with asyncio.timeout(max(0, left_us) / 1e6):
                return await self._desires.confirmer.ask(asked)
        except TimeoutError:
            return Answered("timeout")

    async def _ran_together(self, uses: Sequence[ToolUse]) -> tuple[Ran, ...]:
        free = asyncio.Semaphore(MOST_AT_ONCE)

        async def one(use: ToolUse) -> Ran:
            async with free:
                if self.is_cancelled:
                    return Ran(ToolOutcome((), "cancelled"), is_cancelled=True)
                return await self._ran(use)

        ran = await asyncio.gather(*map(one, uses), return_exceptions=True)
        for each in ran:
            if isinstance(each, BaseException):
                raise each
        return tuple(each for each in ran if isinstance(each, Ran))

    async def _ran(self, use: ToolUse) -> Ran:
        tools, started = self._desires.tools, time.perf_counter_ns()
        running = asyncio.ensure_future(tools.run(use, self._context()))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return Ran(running.result(), _since_ms(started))
            await tools.cancel(use.id)
            await asyncio.wait({running}, timeout=GIVE_UP_S)
            return Ran(ToolOutcome((), "cancelled"), _since_ms(started), is_cancelled=True)
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


async def _of(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _since_ms(started_ns: int) -> int:
    return (time.perf_counter_ns() - started_ns) // 1_000_000
