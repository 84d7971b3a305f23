"""Follows a turn: shows each update in its place on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointsman.conversations.conversation import NO_TOOLS, Conversation
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.calls import ToolConfirmationResolved
from pointsman.sessions.update import (
    ChooseRoute,
    Confirm,
    ConfirmEgress,
    EventUpdate,
    Notice,
    RouteUpdate,
    TextDelta,
    ThinkingDelta,
    ToolAnswered,
    ToolAsked,
    ToolState,
    ToolUseBegun,
    TurnOver,
    Update,
    UsageUpdate,
    WorkerState,
)
from pointsman.tui.question import (
    UserQuestion,
    egress_question,
    route_question,
    tool_question,
)
from pointsman.tui.turn_view import TurnView

if TYPE_CHECKING:
    from pointsman.tui.app import ChatApp

INLINE = ("turns.no_model", NO_TOOLS.code)
"""Notices that belong to one turn, and not above all of them."""
ASKED = ("turns.pattern_disagreement",)
"""Notices that a question already shows."""


class TurnFollower:
    """Shows the updates of one turn."""

    def __init__(self, app: ChatApp, view: TurnView, conversation: Conversation) -> None:
        self._app = app
        self.view = view
        self._conversation = conversation

    async def take(self, update: Update) -> None:  # noqa: C901, PLR0912 - one line for each kind
        """Show one update."""
        view = self.view
        match update:
            case RouteUpdate():
                await self._show_route(update)
            case Notice():
                await self._show_notice(update)
            case TextDelta():
                await view.say(update.text)
            case ThinkingDelta():
                await view.think(update.text)
            case ToolUseBegun():
                await view.tool(update.tool_use_id, update.name)
            case ToolState():
                await view.tool_stands(update)
            case ToolAsked():
                view.tool_asked(update.use)
            case ToolAnswered():
                view.tool_answered(update.result)
            case WorkerState():
                await view.worker_stands(update)
            case Confirm():
                await self._ask(tool_question(update, self._conversation))
            case ChooseRoute():
                await self._ask(route_question(update, self._conversation))
            case ConfirmEgress():
                await self._ask(egress_question(update, self._conversation))
            case UsageUpdate():
                self._app.set_cost(update.session_cost_usd)
            case EventUpdate():
                await self._handle_event(update.event)
            case TurnOver():
                await view.over(update, self._app.elapsed_text())
            case _:
                pass

    async def _show_route(self, update: RouteUpdate) -> None:
        if update.kind == "turn":
            # Banners of the last turn are outdated; this turn shows its own.
            await self._app.banners.remove_banners("turns.choice_rejected", "turns.budget_breaker")
        self.view.show_route(update)
        self._app.set_last_turn(update.turn_id)
        self._app.set_model(update.model)
        await self._app.panel.withdraw("route")

    async def _show_notice(self, update: Notice) -> None:
        if update.code in INLINE:
            await self.view.note(update.text, "warning")
        elif update.code not in ASKED:
            await self._app.banners.show_banner(update.code, update.text, self._app.now)

    async def _ask(self, question: UserQuestion) -> None:
        # The composer keeps the focus: a letter typed as text must never be an answer. F5 leads
        # to the question.
        await self._app.panel.ask(question)

    async def _handle_event(self, event: Envelope) -> None:
        payload = event.payload
        if isinstance(payload, ToolConfirmationResolved):
            await self._app.panel.withdraw(payload.confirmation_request_id)
