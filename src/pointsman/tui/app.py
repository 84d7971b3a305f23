"""The terminal app: one conversation on a screen, for the keyboard and the mouse."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace
from rich.console import RenderableType
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.theme import Theme
from textual.widgets import Footer
from textual.worker import Worker

from pointsman.app import Pointsman
from pointsman.conversations.conversation import SWAP_PENDING, Conversation
from pointsman.conversations.conversations import Conversations
from pointsman.conversations.services import Kit
from pointsman.errors import PointsmanError
from pointsman.kernel.columns import WIDTH
from pointsman.kernel.instant import Instant
from pointsman.providers.messages import Image
from pointsman.sessions.events.session import CancelReason, Disposition
from pointsman.sessions.slash import (
    SlashCommand,
    SlashProblem,
    message_text,
    parse_line,
    rule_words,
)
from pointsman.tui.commands import ChatCommands
from pointsman.tui.composer import Composer, Suggestions, slash_offer
from pointsman.tui.pictures import near_files, read_picture
from pointsman.tui.plain import problem_line, span_text, usd_text
from pointsman.tui.question import QuestionPanel
from pointsman.tui.shutdown import Shutdown
from pointsman.tui.top_line import BannerStrip, TopLine, place_text
from pointsman.tui.transcript import EarlierTurns, Transcript, split_turns, welcome_text
from pointsman.tui.turn_follower import TurnFollower
from pointsman.tui.turn_view import RouteLabel

REFRESH_S: Final = 1.0
"""How often the app checks for outages that cleared and files that were edited."""


class AppOptions(Struct, frozen=True):
    """The options of the app: a new session in a workspace, or one to resume."""

    workspace: Path | None = None
    resume: str = ""
    theme: str = ""
    kit: Kit | None = None
    grace_s: float = 0.4
    """How long a question is on the screen before a key can answer it."""


class ChatApp(App[int]):
    """A conversation."""

    CSS_PATH = "styles.tcss"
    TITLE = "pointsman"
    # At 80 columns a why-screen needs all of them: no room for a scrollbar.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (81, "-wide")]  # noqa: RUF012 - textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Help"),
        Binding("f2", "why", "Why"),
        Binding("f3", "workers", "Workers"),
        Binding("f4", "look", "Light/dark"),
        Binding("f5", "answer", "Answer", show=False),
        Binding("escape", "cancel", "Cancel"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]

    def __init__(
        self, pointsman: Pointsman, options: AppOptions, conversations: Conversations | None = None
    ) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = {"": DARK.name, "dark": DARK.name, "light": LIGHT.name}.get(
            options.theme, options.theme
        )
        self._pointsman = pointsman
        self._options = options
        self._given_conversations = conversations
        self._images: list[Image] = []
        self._began = Instant(0)
        self._opened = asyncio.Event()
        self._waiting_text = ""
        self._running_turn: Worker[None] | None = None
        self._session_end = Shutdown(pointsman)
        self._is_warned = False
        self.conversations: Conversations | None = None
        self.conversation: Conversation | None = None
        self.commands: ChatCommands | None = None
        self.transcript = Transcript()
        self.banners = BannerStrip()
        self.top = TopLine()
        self.panel = QuestionPanel(self._notify_problem, options.grace_s)
        self.suggestions = Suggestions(slash_offer(self._aliases, self._files))
        self.composer = Composer(self.suggestions)

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield self.top
        yield self.banners
        yield self.transcript
        yield self.panel
        yield self.suggestions
        yield self.composer
        yield Footer(show_command_palette=False)

    async def on_mount(self) -> None:
        """Open the session behind the first frame."""
        self.composer.focus()
        if not self.is_headless:
            self._session_end.listen(self._driver, partial(self._start_leaving, "abandoned"))
        self.run_worker(self._open(), group="open", exit_on_error=False)

    # Opening and leaving.

    async def _open(self) -> None:
        options = self._options
        try:
            self.conversations = self._given_conversations or self._pointsman.conversations
            if options.resume:
                opened = await self.conversations.resume(
                    options.resume, kit=options.kit, is_interactive=True
                )
            else:
                opened = await self.conversations.start(
                    options.workspace, kit=options.kit, is_interactive=True
                )
        except (PointsmanError, OSError) as error:
            code = error.exit_code if isinstance(error, PointsmanError) else 1
            self.exit(code, return_code=code, message=f"error: {problem_line(error)}")
            return
        self.conversation = self._session_end.conversation = opened
        self._session_end.owned = self.conversations if self._given_conversations is None else None
        self.commands = ChatCommands(
            self._pointsman, self.conversations, opened, lambda: self._report_width
        )
        await self._greet(opened)
        self._opened.set()
        self.set_interval(REFRESH_S, self._refresh_status)

    async def _greet(self, opened: Conversation) -> None:
        past = split_turns(opened.history)
        if past:
            await self.transcript.restore(past)
            self.composer.remember(*(each[0].text for each in past if each[0].role == "user"))
        else:
            await self.transcript.welcome(welcome_text(self._pointsman))
        for problem in opened.problems:
            await self.transcript.report("this session", problem, "problem")
        last = opened.last_turn
        self._update_top(
            session_id=opened.id,
            workspace=place_text(opened.workspace),
            model=opened.sticky_model or ("" if last is None else last.model),
            mode="sticky" if opened.sticky_model else "auto",
            cost=usd_text(opened.cost().total_microusd),
        )
        await self._refresh_status()

    def panic(self, *renderables: RenderableType) -> None:
        """Report a crash; where the terminal itself is gone, close the session instead."""
        if not self.is_headless and self._session_end.is_hung_up:
            self._session_end.hang_up(self._driver)
        else:
            super().panic(*renderables)

    async def action_quit(self) -> None:
        """End the session and the app."""
        self._start_leaving()

    def _start_leaving(self, disposition: Disposition = "completed") -> None:
        reason: CancelReason = "user_cancel" if disposition == "completed" else "client_disconnect"
        self.run_worker(self.leave(disposition, reason), exit_on_error=False)

    async def leave(self, disposition: Disposition, reason: CancelReason = "user_cancel") -> None:
        """Cancel the turn under way, close the session, and exit with the failure, if any."""
        if self._session_end.has_begun:
            return
        self.composer.border_subtitle = "closing the session"
        message = await self._session_end.close(disposition, reason)
        self.exit(1 if message else 0, return_code=1 if message else 0, message=message)

    # Messages and commands.

    async def on_composer_sent(self, event: Composer.Sent) -> None:
        """Send a message or run a command."""
        self._is_warned = False
        read = parse_line(event.text, self._rule_words())
        if isinstance(read, SlashCommand):
            self.run_worker(self._execute_command(read, event.text.strip()), exit_on_error=False)
        elif isinstance(read, SlashProblem):
            await self.transcript.report(event.text.strip(), str(read), "problem")
        else:
            await self._send_text(message_text(event.text))

    async def _send_text(self, text: str) -> None:
        if not self._opened.is_set() and not self._waiting_text:
            self._waiting_text = text
            self.run_worker(self._send_once_open(), exit_on_error=False)
            return
        if self.conversation is None or self.conversation.is_busy:
            self.composer.set_text(text)
            wait = "still opening" if self.conversation is None else "a turn is under way"
            self.notify(f"{wait}: send it afterwards", timeout=3)
            return
        images, self._images = tuple(self._images), []
        await self.banners.remove_banners(SWAP_PENDING)
        self._running_turn = self.run_worker(self._follow_turn(text, images), exit_on_error=False)
        self._session_end.wait_drawn = self._running_turn.wait

    async def _send_once_open(self) -> None:
        self.composer.border_subtitle = "opening the session · your message goes out after it"
        await self._opened.wait()
        text, self._waiting_text = self._waiting_text, ""
        self._show_activity()
        await self._send_text(text)

    async def _follow_turn(self, text: str, images: tuple[Image, ...]) -> None:
        """Follow a turn to its end. A failure becomes a line of the turn."""
        conversation, clock = self.conversation, self._pointsman.clock
        if conversation is None:
            return
        self._began = clock.now()
        view = await self.transcript.begin(text, len(images))
        follower = TurnFollower(self, view, conversation)
        try:
            async with aclosing(conversation.send(text, images)) as updates:
                async for update in updates:
                    await follower.take(update)
        except Exception as error:  # noqa: BLE001 - the outermost edge: a line, never a traceback
            await view.show_failure(problem_line(error))
            if not view.turn_id and not self.composer.text:
                self.composer.set_text(text)
        await self._turn_ended(follower)

    async def _turn_ended(self, follower: TurnFollower) -> None:
        conversation = self.conversation
        if conversation is not None:
            self._update_top(cost=usd_text(conversation.cost().total_microusd))
        if follower.view.turn_id:
            self.set_last_turn(follower.view.turn_id)
        await self.panel.withdraw()
        if self.focused is None or not self.focused.is_attached:
            self.composer.focus()
        await self._refresh_status()

    def elapsed_text(self) -> str:
        """Return how long the turn has taken."""
        return span_text(self._pointsman.clock.now() - self._began)

    @property
    def now(self) -> Instant:
        """The present instant."""
        return self._pointsman.clock.now()

    async def _execute_command(self, command: SlashCommand, line: str) -> None:
        try:
            await self._dispatch_command(command, line)
        except Exception as error:  # noqa: BLE001 - the outermost edge: a line, never a traceback
            await self.transcript.report(line, problem_line(error), "problem")

    async def _dispatch_command(self, command: SlashCommand, line: str) -> None:
        own: dict[str, Callable[[str], str]] = {
            "image": self._attach_picture,
            "theme": self._switch_theme,
        }
        if command.name == "quit":
            await self.leave("completed")
        elif command.name in own:
            await self.transcript.report(line, own[command.name](command.argument), "done")
        else:
            await self._opened.wait()
            await self._carry_out(command, line)

    async def _carry_out(self, command: SlashCommand, line: str) -> None:
        if self.commands is not None:
            output = await self.commands.carry_out(command)
            await self.transcript.report(line, output.text, output.kind)
            if output.notice is not None:
                await self.banners.show_banner(output.notice.code, output.notice.text)
            if command.name == "route":
                await self.panel.withdraw("route")
            await self._refresh_status()

    def _attach_picture(self, argument: str) -> str:
        path = Path(argument).expanduser()
        self._images.append(read_picture(path if path.is_absolute() else self._folder / path))
        count = len(self._images)
        return f"{count} picture{'' if count == 1 else 's'} will go with the next message"

    def _switch_theme(self, argument: str) -> str:
        self.theme = (LIGHT if argument == "light" else DARK).name
        return f"{argument} it is"

    def action_cancel(self) -> None:
        """Cancel the turn under way; else go back to the message."""
        if self.conversation is not None and self.conversation.cancel():
            self._show_activity()
        else:
            self.composer.focus()

    def action_interrupt(self) -> None:
        """Copy the selection, else cancel; a second time in a row, quit."""
        if selected := self.screen.get_selected_text() or self.composer.selected_text:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        elif self._is_warned:
            self._start_leaving()
        else:
            self._is_warned = True
            is_cut = self.conversation is not None and self.conversation.cancel()
            told = "cancelled" if is_cut else "nothing to cancel"
            self.notify(f"{told}: Ctrl+C again quits", timeout=3)

    async def action_help(self) -> None:
        """Print the help."""
        await self._execute_command(SlashCommand("help"), "/help")

    async def action_why(self) -> None:
        """Print why the last turn went where it did."""
        await self._execute_command(SlashCommand("model", "show"), "/model show")

    @property
    def _report_width(self) -> int:
        """The columns of a report: above 80 the scrollbar takes one of them."""
        return self.size.width - (self.size.width > WIDTH)

    def action_workers(self) -> None:
        """Show or hide the blocks of workers."""
        self.transcript.toggle_class("-workers")

    def action_look(self) -> None:
        """Switch between light and dark."""
        self.theme = (LIGHT if self.current_theme.dark else DARK).name

    def action_answer(self) -> None:
        """Go to the question that waits."""
        self.panel.seize()

    def action_page(self, step: int) -> None:
        """Scroll the conversation by a page."""
        (self.transcript.scroll_page_up if step < 0 else self.transcript.scroll_page_down)()

    async def on_route_label_why_requested(self, event: RouteLabel.WhyRequested) -> None:
        """Print why a turn went where it did."""
        if self.commands is not None:
            try:
                await self.transcript.report("why", self.commands.why(event.turn_id))
            except PointsmanError as error:
                await self.transcript.report("why", problem_line(error), "problem")

    def on_suggestions_taken(self, event: Suggestions.Taken) -> None:
        """Put the clicked line into the message."""
        self.composer.take(event.line)

    async def on_earlier_turns_show_requested(self, _event: EarlierTurns.ShowRequested) -> None:
        """Draw earlier turns."""
        if self.conversation is not None:
            await self.transcript.show_earlier(split_turns(self.conversation.history))

    # State that changes by itself.

    async def _refresh_status(self) -> None:
        """Refresh outages, policy problems and the state of the session."""
        if self.conversations is None or self.conversation is None or self._session_end.has_begun:
            return
        services, in_force = self.conversations.services, self._pointsman.in_force()
        reports = services.health.reports(in_force.ready.models)
        await self.banners.refresh_state(reports, self.now)
        await self.banners.show_policy(in_force.invalid)
        self._show_activity()

    def _show_activity(self) -> None:
        conversation = self.conversation
        is_busy = conversation is not None and conversation.is_busy
        self.composer.border_subtitle = (
            f"working {self.elapsed_text()} · Esc cancels" if is_busy else ""
        )
        if conversation is not None:
            pending = conversation.pending_model
            self._update_top(
                mode="sticky" if conversation.sticky_model else "auto",
                pending="" if pending is None else pending[0] or "rules",
            )

    def set_last_turn(self, turn_id: str) -> None:
        """Set the turn that `/model show` explains."""
        if self.commands is not None:
            self.commands.last_turn_id = turn_id

    def set_model(self, model: str) -> None:
        """Show the model that takes the turn."""
        self._update_top(model=model)
        self._show_activity()

    def set_cost(self, cost_usd: str) -> None:
        """Show the cost of the session so far."""
        self._update_top(cost=usd_text(cost_usd))

    def _update_top(self, **parts: str) -> None:
        self.top.show_status(replace(self.top.status, **parts))

    def _notify_problem(self, error: PointsmanError) -> None:
        self.notify(problem_line(error), severity="error", timeout=5)

    @property
    def _folder(self) -> Path:
        workspace = None if self.conversation is None else self.conversation.workspace
        return Path.cwd() if workspace is None else Path(workspace)

    def _files(self, begun: str) -> tuple[str, ...]:
        return near_files(self._folder, begun)

    def _rule_words(self) -> frozenset[str]:
        with contextlib.suppress(PointsmanError):
            return rule_words(self._pointsman.in_force().ready.policy)
        return frozenset()

    def _aliases(self) -> tuple[str, ...]:
        with contextlib.suppress(PointsmanError):
            return tuple(self._pointsman.in_force().ready.aliases)
        return ()


DARK: Final = Theme(
    name="pointsman-dark",
    primary="#7aa2c8",
    secondary="#9a8fc4",
    accent="#d0a45c",
    warning="#d9a441",
    error="#e07a6e",
    success="#7fb685",
    foreground="#d6d9dd",
    background="#15181c",
    surface="#1b1f24",
    panel="#23282e",
    dark=True,
)
LIGHT: Final = Theme(
    name="pointsman-light",
    primary="#2f5f8a",
    secondary="#5b4f91",
    accent="#8a5a00",
    warning="#8a5a00",
    error="#a8321f",
    success="#2c6e3f",
    foreground="#22262b",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e8e5de",
    dark=False,
)
