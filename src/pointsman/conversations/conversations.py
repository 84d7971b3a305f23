"""The conversations of a home: started, resumed after a crash, listed, added up."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.book import HomeBook, OpenBook, opened_book
from pointsman.access.budgets import BudgetPort, Budgets
from pointsman.access.home_budgets import HomeBudgets
from pointsman.calls.services import CallServices, deadlines_of, pool_of
from pointsman.conversations.conversation import Conversation, Opening
from pointsman.conversations.recovery import SessionRecovery
from pointsman.conversations.services import (
    ConversationServices,
    Equip,
    Kit,
    OpenHome,
    equip_nothing,
)
from pointsman.conversations.session_events import (
    Event,
    SessionEventRecorder,
    read_session_events,
    session_created,
    workspace_hash,
)
from pointsman.conversations.stored_messages import read_messages
from pointsman.errors import NotFound
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import microusd_text
from pointsman.providers.embedded.provider import EmbeddedProvider
from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.providers.registry.providers import LiveProviders
from pointsman.recording.health import LiveHealth, transition_draft
from pointsman.sessions.events.session import SessionResumed
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.rollup import Rollup, WorkerMessages, rollup
from pointsman.storage.stores.conversations import (
    CONVERSATIONS,
    ConversationStore,
    StoredSession,
)
from pointsman.turns.facts import Privacy
from pointsman.turns.registry.availability import Transition

__all__ = [
    "Conversation",
    "Conversations",
    "Kit",
    "OpenHome",
    "SessionSummary",
    "open_conversations",
]


class SessionSummary(Struct, frozen=True):
    """A session in a list; `workers` are filled in only where they were asked for."""

    id: str
    workspace: str | None
    opening: str
    """Its first message, where that is stored."""
    turns: int
    cost_usd: str
    started_at: Instant
    changed_at: Instant
    is_ended: bool
    parent_tool_use_id: str = ""
    workers: tuple[SessionSummary, ...] = ()


class Conversations:
    """The conversations of one home, in one process."""

    def __init__(
        self, services: ConversationServices, book: OpenBook | None, equip: Equip = equip_nothing
    ) -> None:
        self.services = services
        self._equip = equip
        self._book = book
        self._events = SessionEventRecorder(services)
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

        `is_interactive` says that a reader answers the updates' questions. Without a `kit` the
        session has the tools, skills and memory of the home.
        """
        opened, place = (
            self.services.opened,
            None if workspace is None else str(workspace.absolute()),
        )
        now, name = opened.clock.now(), opened.ids.new_id()
        row = StoredSession(name, "", "", place, privacy, None, now, now, None)
        await asyncio.wrap_future(self.services.store.begin(row))
        created = session_created(place, None, opened.files.in_force().policy_id)
        began_with = await self._events.record(created, (name, "", ""))
        used = await self._kit(row, kit, is_interactive=is_interactive)
        return await self._open(row, (), began_with, used)

    async def resume(
        self, session_id: str, *, kit: Kit | None = None, is_interactive: bool = False
    ) -> Conversation:
        """Open a session again; a turn that was left open is closed, never continued."""
        row, store = self._row(session_id), self.services.store
        if row.parent_session_id:
            raise NotFound(f"`{session_id}` is a worker's session", hint="resume its planner's")
        before = self.events(session_id) if self.services.opened.home.database.exists() else []
        last = before[-1].id if before else None
        resumed = SessionResumed(workspace_hash(row.workspace), last)
        began_with = await self._events.record(resumed, (session_id, "", ""), last or "")
        await SessionRecovery(self.services).close_left_open(row, before)
        if row.ended_at is not None:
            now = self.services.opened.clock.now()
            await asyncio.wrap_future(store.end(session_id, None, now))
        used = await self._kit(row, kit, is_interactive=is_interactive)
        return await self._open(row, self.messages(session_id), began_with, used)

    async def _open(
        self,
        row: StoredSession,
        history: tuple[SessionMessage, ...],
        began_with: str,
        kit: Kit,
    ) -> Conversation:
        prompts = []
        for part in (kit.memory.prompt(), kit.skills.prompt()):
            prompts.append(part.text)
            for each in part.events:
                await self._events.record(each, (row.id, "", ""), began_with)
        return Conversation(self.services, kit, row, Opening(history, began_with, tuple(prompts)))

    async def _kit(self, row: StoredSession, kit: Kit | None, *, is_interactive: bool) -> Kit:
        if kit is not None:
            return kit
        found = await self._equip(self.services.opened, row.workspace)
        return replace(found, is_interactive=is_interactive)

    def list_sessions(
        self, most: int = 100, *, include_workers: bool = False
    ) -> tuple[SessionSummary, ...]:
        """Return the sessions of users, the latest first; with their workers where asked."""
        rows = self.services.store.sessions(most)
        return tuple(
            self._summarise(each, include_workers=include_workers)
            for each in rows
            if not self._is_empty(each)
        )

    def messages(self, session_id: str) -> tuple[SessionMessage, ...]:
        """Return the stored messages of a session."""
        return read_messages(self.services.store.messages(session_id))

    def events(self, session_id: str, *, words: bool = False) -> list[Event]:
        """Return the events of a session, its decisions among them, in their order."""
        return read_session_events(self.services.opened.home, session_id, words=words)

    def cost(self, session_id: str) -> Rollup:
        """Return the cost of a session, its workers included."""
        self._row(session_id)
        workers = [
            WorkerMessages(each.id, each.parent_tool_use_id, self.messages(each.id))
            for each in self.services.store.workers(session_id)
        ]
        return rollup(session_id, self.messages(session_id), workers)

    def erase(self, session_id: str) -> int:
        """Erase the words of a session and of its workers for good; its decisions stay."""
        self._row(session_id)
        names = [session_id, *(each.id for each in self.services.store.workers(session_id))]
        return sum(self.services.store.erase(name) for name in names)

    async def close(self) -> None:
        """Close every connection and process, then release the home."""
        if self._is_open and self._book is not None:
            await self.services.calls.providers.close()
        self.release()

    def release(self) -> None:
        """Write the pending rows and release the home."""
        if self._is_open:
            self._is_open = False
            self.services.store.close()
            if self._book is not None:
                self._book.close()

    def _row(self, session_id: str) -> StoredSession:
        row = self.services.store.session(session_id)
        if row is None:
            raise NotFound(f"there is no session `{session_id}`")
        return row

    def _is_empty(self, row: StoredSession) -> bool:
        """Return whether a session ended without a turn or a worker."""
        store = self.services.store
        return row.ended_at is not None and not store.turns(row.id) and not store.workers(row.id)

    def _summarise(self, row: StoredSession, *, include_workers: bool) -> SessionSummary:
        messages = self.messages(row.id)
        said = [each.text for each in messages if each.role == "user"]
        workers: tuple[SessionSummary, ...] = ()
        if include_workers:
            found = self.services.store.workers(row.id)
            workers = tuple(self._summarise(each, include_workers=False) for each in found)
        return SessionSummary(
            id=row.id,
            workspace=row.workspace,
            opening=said[0] if said else "",
            turns=len(self.services.store.turns(row.id)),
            cost_usd=microusd_text(self.cost(row.id).total_microusd),
            started_at=row.started_at,
            changed_at=row.changed_at,
            is_ended=row.ended_at is not None,
            parent_tool_use_id=row.parent_tool_use_id,
            workers=workers,
        )


def open_conversations(
    opened: OpenHome,
    *,
    equip: Equip = equip_nothing,
    surroundings: ProviderEnvironment = ProviderEnvironment(),  # noqa: B008 - it is frozen
    health: LiveHealth | None = None,
    calls: CallServices | None = None,
) -> Conversations:
    """Open the conversations of a home; `calls` are those of a gateway in this process.

    Without the `health` of the home they know their own calls alone.
    """
    retain = opened.files.settings().value.retain
    recorder = opened.decision_recorder.recorder()
    store = ConversationStore(opened.home.place(CONVERSATIONS), retain)
    if calls is not None:
        # One process has one set of budgets and one view of health.
        return Conversations(ConversationServices(opened, calls, store), None, equip)
    book = opened_book(opened.home, f"chat-{recorder.chain}")
    budgets = HomeBudgets(book, opened.ids) if isinstance(book, HomeBook) else Budgets(book)
    calls = _open_calls(opened, budgets, surroundings, health or LiveHealth(opened.clock))
    return Conversations(ConversationServices(opened, calls, store), book, equip)


def _open_calls(
    opened: OpenHome, budgets: BudgetPort, surroundings: ProviderEnvironment, health: LiveHealth
) -> CallServices:
    models = opened.files.in_force().models
    providers = LiveProviders(
        opened.home.path,
        models,
        EmbeddedProvider(),
        surroundings,
        pool_of(opened.files.settings().value, opened.home.path),
    )
    health.rates.follow(models)
    providers.listener = health.rates.follow
    health.listener = lambda changes: _record(opened, changes)
    return CallServices(
        decision_recorder=opened.decision_recorder,
        clock=opened.clock,
        ids=opened.ids,
        price_table_id=opened.files.prices.id,
        providers=providers,
        health=health,
        budgets=budgets,
        stops=opened.stops,
        deadlines=lambda: deadlines_of(opened.files.settings().value),
    )


def _record(opened: OpenHome, changes: tuple[Transition, ...]) -> None:
    """Record changes of availability."""
    recorder = opened.decision_recorder.recorder()
    for each in changes:
        recorder.append(transition_draft(opened.ids.new_id(), each))
