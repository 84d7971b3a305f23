"""The conversations of a home: started, resumed after whatever happened, listed, added up."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.book import OpenBook, opened_book
from pointsman.access.budgets import Budgets
from pointsman.calls.services import CallServices, deadlines_of
from pointsman.conversations.conversation import Conversation, Opening
from pointsman.conversations.conversation_house import Equip, Ground, House, Kit, bare
from pointsman.conversations.event_stream import Event, events_of
from pointsman.conversations.hiring import session_created, workspace_hash
from pointsman.conversations.kept_messages import kept_messages
from pointsman.conversations.reopening import Reopening
from pointsman.conversations.telling import Telling
from pointsman.errors import NotFound
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import microusd_text
from pointsman.providers.embedded.provider import EmbeddedProvider
from pointsman.providers.http_provider import Surroundings
from pointsman.providers.live import LiveProviders
from pointsman.recording.health import LiveHealth
from pointsman.recording.transitions import transition_draft
from pointsman.recording.waiting import BlockingWaiter
from pointsman.sessions.events.session import SessionResumed
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.rollup import Rollup, WorkerMessages, rollup
from pointsman.storage.stores.conversations import (
    CONVERSATIONS,
    ConversationStore,
    SessionRow,
)
from pointsman.turns.facts import Privacy
from pointsman.turns.registry.availability import Transition

__all__ = ["Conversation", "Conversations", "Ground", "Kit", "Listed", "open_conversations"]


class Listed(Struct, frozen=True):
    """A session in a list; `workers` are filled in only where they were asked for."""

    id: str
    workspace: str | None
    opening: str
    """The first words of it, as far as they are kept."""
    turns: int
    cost_usd: str
    started_at: Instant
    changed_at: Instant
    is_ended: bool
    parent_tool_use_id: str = ""
    workers: tuple[Listed, ...] = ()


class Conversations:
    """The conversations of one home, in one process."""

    def __init__(self, house: House, book: OpenBook | None, equip: Equip = bare) -> None:
        self.house = house
        self._equip = equip
        self._book = book
        self._telling = Telling(house)
        self._is_open = True

    async def start(
        self,
        workspace: Path | None = None,
        *,
        privacy: Privacy = "auto",
        kit: Kit | None = None,
        is_interactive: bool = False,
    ) -> Conversation:
        """Begin a session; its workspace is fixed from here on.

        `is_interactive` says that somebody answers what the updates ask. Without a `kit` the
        session has the tools, skills and memory of the home.
        """
        ground, place = self.house.ground, None if workspace is None else str(workspace.absolute())
        now, name = ground.clock.now(), ground.ids.new_id()
        row = SessionRow(name, "", "", place, privacy, None, now, now, None)
        await asyncio.wrap_future(self.house.store.begin(row))
        created = session_created(place, None, ground.files.in_force().policy_id)
        began_with = await self._telling.tell(created, (name, "", ""))
        used = await self._kit(row, kit, is_interactive=is_interactive)
        return await self._opened(row, (), began_with, used)

    async def resume(
        self, session_id: str, *, kit: Kit | None = None, is_interactive: bool = False
    ) -> Conversation:
        """Open a session again; a turn that was left open is closed, and never gone on with."""
        row, store = self._row(session_id), self.house.store
        if row.parent_session_id:
            raise NotFound(f"`{session_id}` is a worker's session", hint="resume its planner's")
        before = self.events(session_id) if self.house.ground.home.database.exists() else []
        last = before[-1].id if before else None
        resumed = SessionResumed(workspace_hash(row.workspace), last)
        began_with = await self._telling.tell(resumed, (session_id, "", ""), last or "")
        await Reopening(self.house).closed(row, before)
        if row.ended_at is not None:
            now = self.house.ground.clock.now()
            await asyncio.wrap_future(store.end(session_id, None, now))
        used = await self._kit(row, kit, is_interactive=is_interactive)
        return await self._opened(row, self.messages(session_id), began_with, used)

    async def _opened(
        self,
        row: SessionRow,
        history: tuple[SessionMessage, ...],
        began_with: str,
        kit: Kit,
    ) -> Conversation:
        prompts = []
        for part in (kit.memory.prompt(), kit.skills.prompt()):
            prompts.append(part.text)
            for each in part.events:
                await self._telling.tell(each, (row.id, "", ""), began_with)
        return Conversation(self.house, kit, row, Opening(history, began_with, tuple(prompts)))

    async def _kit(self, row: SessionRow, kit: Kit | None, *, is_interactive: bool) -> Kit:
        if kit is not None:
            return kit
        found = await self._equip(self.house.ground, row.workspace)
        return replace(found, is_interactive=is_interactive)

    def listed(self, most: int = 100, *, include_workers: bool = False) -> tuple[Listed, ...]:
        """Give the sessions of users, the latest first; workers nested where they are wanted."""
        rows = self.house.store.sessions(most)
        return tuple(
            self._listed(each, include_workers=include_workers)
            for each in rows
            if not self._is_empty(each)
        )

    def messages(self, session_id: str) -> tuple[SessionMessage, ...]:
        """Give what is kept of a session's messages."""
        return kept_messages(self.house.store.messages(session_id))

    def events(self, session_id: str, *, words: bool = False) -> list[Event]:
        """Give the events of a session, its decisions among them, in their order."""
        return events_of(self.house.ground.home, session_id, words=words)

    def cost(self, session_id: str) -> Rollup:
        """Give what a session cost, its workers included."""
        self._row(session_id)
        workers = [
            WorkerMessages(each.id, each.parent_tool_use_id, self.messages(each.id))
            for each in self.house.store.workers(session_id)
        ]
        return rollup(session_id, self.messages(session_id), workers)

    def erase(self, session_id: str) -> int:
        """Forget the words of a session and of its workers for good; what was decided stays."""
        self._row(session_id)
        names = [session_id, *(each.id for each in self.house.store.workers(session_id))]
        return sum(self.house.store.erase(name) for name in names)

    async def close(self) -> None:
        """Let go of every connection and process, then of the home."""
        if self._is_open and self._book is not None:
            await self.house.calls.providers.close()
        self.let_go()

    def let_go(self) -> None:
        """Write what was handed in and let go of the home."""
        if self._is_open:
            self._is_open = False
            self.house.store.close()
            if self._book is not None:
                self._book.close()

    def _row(self, session_id: str) -> SessionRow:
        row = self.house.store.session(session_id)
        if row is None:
            raise NotFound(f"there is no session `{session_id}`")
        return row

    def _is_empty(self, row: SessionRow) -> bool:
        """Tell whether a session was left before anything was said or handed on in it."""
        store = self.house.store
        return row.ended_at is not None and not store.turns(row.id) and not store.workers(row.id)

    def _listed(self, row: SessionRow, *, include_workers: bool) -> Listed:
        messages = self.messages(row.id)
        said = [each.text for each in messages if each.role == "user"]
        workers: tuple[Listed, ...] = ()
        if include_workers:
            found = self.house.store.workers(row.id)
            workers = tuple(self._listed(each, include_workers=False) for each in found)
        return Listed(
            id=row.id,
            workspace=row.workspace,
            opening=said[0] if said else "",
            turns=len(self.house.store.turns(row.id)),
            cost_usd=microusd_text(self.cost(row.id).total_microusd),
            started_at=row.started_at,
            changed_at=row.changed_at,
            is_ended=row.ended_at is not None,
            parent_tool_use_id=row.parent_tool_use_id,
            workers=workers,
        )


def open_conversations(
    ground: Ground,
    *,
    equip: Equip = bare,
    surroundings: Surroundings = Surroundings(),  # noqa: B008 - it is frozen
    health: LiveHealth | None = None,
    calls: CallServices | None = None,
) -> Conversations:
    """Open what conversations need in a home; `calls` are those of a gateway in this process.

    Without the `health` of the home they know their own calls alone.
    """
    ground.gathering.vectors.begin()
    retain = ground.files.settings().value.retain
    recorder = ground.desk.recorder()
    store = ConversationStore(ground.home.place(CONVERSATIONS), retain)
    if calls is not None:
        # One process spends from one purse and knows one health.
        return Conversations(House(ground, calls, store), None, equip)
    book = opened_book(ground.home, f"chat-{recorder.chain}")
    calls = _open_calls(ground, Budgets(book), surroundings, health or LiveHealth(ground.clock))
    return Conversations(House(ground, calls, store), book, equip)


def _open_calls(
    ground: Ground, budgets: Budgets, surroundings: Surroundings, health: LiveHealth
) -> CallServices:
    models = ground.files.in_force().models
    providers = LiveProviders(ground.home.path, models, EmbeddedProvider(), surroundings)
    health.rates.follow(models)
    providers.listener = health.rates.follow
    health.listener = lambda changes: _record(ground, changes)
    return CallServices(
        desk=ground.desk,
        clock=ground.clock,
        ids=ground.ids,
        price_table_id=ground.files.prices.id,
        providers=providers,
        health=health,
        budgets=budgets,
        deadlines=lambda: deadlines_of(ground.files.settings().value),
    )


def _record(ground: Ground, changes: tuple[Transition, ...]) -> None:
    """Record what went out or came back."""
    recorder = ground.desk.recorder()
    for each in changes:
        recorder.hand_in(transition_draft(ground.ids.new_id(), each), BlockingWaiter().expect())
