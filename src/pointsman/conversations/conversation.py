"""One conversation: send a message and follow what happens; cancel, swap the model, judge, end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from pointsman.conversations.services import ConversationServices, Kit
from pointsman.conversations.session_events import SessionEventRecorder
from pointsman.conversations.stored_messages import read_messages
from pointsman.conversations.turn_driver import TurnScope
from pointsman.conversations.turn_preparation import SessionState, TurnInput, TurnPreparer
from pointsman.conversations.turn_run import TurnRun
from pointsman.errors import InputError, NotFound, UnknownModel
from pointsman.kernel.number import MicroUsd, billionths_text, microusd_text
from pointsman.kernel.record import Names
from pointsman.learning.learning import learn_turns, update_learned_score
from pointsman.providers.messages import Image
from pointsman.recording.pins import Pinning, pinning_draft
from pointsman.recording.waiting import BlockingWaiter
from pointsman.sessions.effects import RouteAnswer
from pointsman.sessions.events.session import (
    CancelReason,
    Disposition,
    FeedbackExplicit,
    FeedbackImplicit,
    SessionEnded,
)
from pointsman.sessions.feedback import RATING_VERDICTS, SIGNAL_VERDICTS, Rating, Signal, signal_of
from pointsman.sessions.history import History
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.rollup import Rollup, WorkerMessages, WorkerShare, worker_share
from pointsman.sessions.tool import ConfirmationAnswer
from pointsman.sessions.update import Notice, Update
from pointsman.storage.stores.conversations import StoredSession, StoredTurn
from pointsman.turns.registry.models import meant, model_id

SWAP_PENDING = "session.swap_pending"
NO_TOOLS = Notice(
    "session.no_tools",
    "no model that may take this turn can use tools: it goes on without them",
)


class Opening(Struct, frozen=True):
    """The start of a session object: earlier messages, the event it began with, its prompts."""

    history: Sequence[SessionMessage] = ()
    event_id: str = ""
    prompts: tuple[str, ...] = ()


class Conversation:
    """A session of a user. One turn at a time; everything else may be asked meanwhile."""

    def __init__(
        self, services: ConversationServices, kit: Kit, row: StoredSession, opening: Opening
    ) -> None:
        self._services = services
        self._kit = kit
        self._row = row
        self._history = History(opening.history)
        self._worker_shares: dict[str, WorkerShare] = {}
        self._granted: frozenset[str] = frozenset()
        self._began_with = opening.event_id
        self._prompts = opening.prompts
        self._pending: tuple[str | None] | None = None
        self._run: TurnRun | None = None
        self._last_turn = next(iter(reversed(services.store.turns(row.id))), None)
        self._events = SessionEventRecorder(services)
        self._is_without_tools = False

    @property
    def id(self) -> str:
        """The session's id."""
        return self._row.id

    @property
    def workspace(self) -> str | None:
        """Where it works; fixed when it began."""
        return self._row.workspace

    @property
    def sticky_model(self) -> str | None:
        """The model the user bound the session to."""
        return self._row.sticky_model

    @property
    def pending_model(self) -> tuple[str | None] | None:
        """The swap that waits for the next turn: a model, or none; None where none waits."""
        return self._pending

    @property
    def history(self) -> History:
        """Everything said so far."""
        return self._history

    @property
    def last_turn(self) -> StoredTurn | None:
        """The latest turn."""
        return self._last_turn

    @property
    def problems(self) -> tuple[str, ...]:
        """The tools and skills that cannot be used, one line each."""
        return self._kit.problems

    @property
    def is_busy(self) -> bool:
        """Whether a turn is under way."""
        return self._run is not None

    async def send(
        self, text: str, images: tuple[Image, ...] = (), *, most_output_tokens: int | None = None
    ) -> AsyncGenerator[Update]:
        """Begin a turn and yield its updates to the end; raises where it cannot begin.

        Closing the generator cancels the turn.
        """
        if self._run is not None:
            raise InputError("a turn is under way", hint="cancel it, or wait for its end")
        self._apply_swap()
        await self._notice_repeat(text)
        in_force = self._services.opened.files.in_force()
        scope = TurnScope(self.id, self._services.opened.ids.new_id(), self.workspace)
        state = SessionState(
            self._history, self.sticky_model, self._row.privacy, self._granted, self._prompts
        )
        preparer = TurnPreparer(self._services, self._kit, in_force)
        message = TurnInput(text, tuple(images), most_output_tokens=most_output_tokens)
        prepared = preparer.prepare_user_turn(scope, state, message)
        run = self._run = TurnRun(self._services, self._kit, scope, prepared, state)
        try:
            is_news, self._is_without_tools = (
                prepared.is_without_tools > self._is_without_tools,
                prepared.is_without_tools,
            )
            if is_news:
                yield NO_TOOLS
            # Closed here and now, not when the collector finds it: that is what cancels the turn.
            async with aclosing(run.follow(in_force, self.cost().total_microusd)) as updates:
                async for update in updates:
                    yield update
        finally:
            self._take_end(run)

    def _take_end(self, run: TurnRun) -> None:
        self._run = None
        if run.end is not None:
            self._granted = run.end.granted
            self._history.extend(run.end.messages)
            self._last_turn = self._services.store.turn(run.scope.turn_id) or self._last_turn

    def cancel(self, reason: CancelReason = "user_cancel") -> bool:
        """Cancel the turn under way; return whether there was one."""
        if self._run is None:
            return False
        self._run.cancel(reason)
        return True

    def answer(self, request_id: str, answered: ConfirmationAnswer) -> None:
        """Answer a tool's request by its id."""
        if self._run is None:
            raise NotFound(f"nobody waits for an answer to `{request_id}`")
        self._run.confirmer.answer(request_id, answered)

    def choose_route(self, answer: RouteAnswer) -> None:
        """Take the pattern's choice, or dismiss it; only before the first call of a turn."""
        if self._run is None or not self._run.route.answer(answer):
            raise InputError(
                "there is nothing to choose now",
                hint="a suggestion can be taken before the model is called",
            )

    def allow_egress(self, *, is_allowed: bool) -> None:
        """Answer the confirmation that a policy asked for."""
        if self._run is None or not self._run.egress.answer(is_allowed):
            raise InputError("nobody asks whether this turn may go on")

    async def swap_model(self, name: str | None) -> Notice | None:
        """Bind the session to a model, or to none: at once, or where a turn is under way, next.

        The last of several swaps during one turn counts. Returns the notice of a pending one.
        """
        model = None if name is None else self._resolve_model(name)
        self._pending = (model,)
        # Stored at once: should this process die during the turn, another runs the next one.
        now = self._services.opened.clock.now()
        await asyncio.wrap_future(self._services.store.stick(self.id, model, now))
        await self._notice_swap(model)
        if self._run is None:
            self._apply_swap()
            return None
        text = "Sticky model will be cleared" if model is None else f"Model swap pending: {model}"
        return Notice(SWAP_PENDING, f"{text}. Applies to next turn.")

    def _resolve_model(self, name: str) -> str:
        ready = self._services.opened.files.in_force().ready
        found = ready.aliases.get(name) or ready.aliases.get(model_id(name))
        if found is None:
            raise UnknownModel(
                f"the model `{name}` is not known here", hint=meant(name, ready.aliases)
            )
        return found

    def _apply_swap(self) -> None:
        if self._pending is None:
            return
        (model,), self._pending = self._pending, None
        if model == self.sticky_model:
            return
        opened = self._services.opened
        self._row = replace(self._row, sticky_model=model)
        names = Names(opened.ids.new_id(), self.id, opened.clock.now())
        recorder = opened.decision_recorder.recorder()
        recorder.hand_in(
            pinning_draft(names, Pinning(self.id, model, "")), BlockingWaiter().expect()
        )

    async def feedback(self, rating: Rating, comment: str = "", turn_id: str = "") -> None:
        """Record the user's rating of a turn; without an id, of the last one."""
        turn = self._services.store.turn(turn_id) if turn_id else self._last_turn
        if turn is None or turn.session_id != self.id:
            raise NotFound("there is no such turn in this session" if turn_id else "no turn yet")
        told = FeedbackExplicit("turn", rating, comment or None, turn.id, self.id)
        event_id = await self._events.record(told, (self.id, turn.id, ""))
        await self._record_score(
            turn, RATING_VERDICTS[rating].score, RATING_VERDICTS[rating].confidence, event_id
        )

    async def _notice_repeat(self, text: str) -> None:
        """Record a signal if a message repeats the question before it."""
        before = self._history.last_asked
        signal = signal_of(before, text) if before else None
        if signal is not None:
            await self._record_signal(signal)

    async def _notice_swap(self, model: str | None) -> None:
        """Record a signal if the user swaps away from the model that answered last."""
        last = self._last_turn
        if model is not None and last is not None and last.model and last.model != model:
            await self._record_signal("manual_swap", model)

    async def _record_signal(self, signal: Signal, context: str = "") -> None:
        turn, verdict = self._last_turn, SIGNAL_VERDICTS[signal]
        if turn is None or turn.status != "completed":
            # Asking again after a cancel or a failure says nothing about the answer.
            return
        told = FeedbackImplicit(signal, billionths_text(verdict.confidence), turn.id, context)
        event_id = await self._events.record(told, (self.id, turn.id, ""))
        await self._record_score(
            turn, verdict.score, verdict.confidence, event_id, is_explicit=False
        )

    async def _record_score(
        self,
        turn: StoredTurn,
        score: int,
        confidence: int,
        event_id: str,
        *,
        is_explicit: bool = True,
    ) -> None:
        if turn.is_score_explicit and not is_explicit:
            return
        store = self._services.store
        await asyncio.wrap_future(
            store.score(turn.id, score, confidence, is_explicit=is_explicit)  # type: ignore[arg-type] # both are billionths
        )
        again = store.turn(turn.id)
        if again is not None and again.is_learned:
            await asyncio.to_thread(
                update_learned_score, self._services.opened.home.patterns, again, event_id
            )

    def cost(self) -> Rollup:
        """Return the cost of the session, its workers included."""
        workers = self._services.store.workers(self.id)
        return Rollup(self.id, self._history.shares, tuple(map(self._share, workers)))

    def _share(self, worker: StoredSession) -> WorkerShare:
        found = self._worker_shares.get(worker.id)
        if found is None:
            messages = read_messages(self._services.store.messages(worker.id))
            found = worker_share(WorkerMessages(worker.id, worker.parent_tool_use_id, messages))
            if worker.ended_at is not None:
                self._worker_shares[worker.id] = found
        return found

    async def end(self, disposition: Disposition = "completed") -> None:
        """Close the session and learn from it; refused while a turn is under way."""
        if self._run is not None:
            raise InputError("a turn is under way", hint="cancel it first")
        services, now = self._services, self._services.opened.clock.now()
        turns = services.store.turns(self.id)
        total, lasted = self.cost().total_microusd, MicroUsd(max(0, now - self._row.started_at))
        ended = SessionEnded(disposition, len(turns), microusd_text(total), microusd_text(lasted))
        event_id = await self._events.record(ended, (self.id, "", ""), self._began_with)
        home = services.opened.home
        for turn, recorded in await asyncio.to_thread(lambda: [*learn_turns(home, turns)]):
            await self._events.record(recorded, (self.id, turn.id, ""), event_id)
            services.store.mark_learned(turn.id)
        await asyncio.wrap_future(services.store.end(self.id, now, now))
        await self.close()

    async def close(self) -> None:
        """Release the resources of the session's tools; it can be resumed later."""
        if self._kit.close is not None:
            await self._kit.close()
