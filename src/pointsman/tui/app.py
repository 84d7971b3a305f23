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
from pointsman.tui.banner_strip import BannerStrip
from pointsman.tui.commands import Commands
from pointsman.tui.composer import Composer
from pointsman.tui.farewell import Farewell
from pointsman.tui.following import Following
from pointsman.tui.past import turns_of
from pointsman.tui.pictures import near_files, read_picture
from pointsman.tui.plain import problem_line, span_text, usd_text
from pointsman.tui.question import QuestionPanel
from pointsman.tui.suggestions import Suggestions, slash_offer
from pointsman.tui.themes import DARK, LIGHT
from pointsman.tui.top_line import TopLine, place_text
from pointsman.tui.transcript import Earlier, Transcript
from pointsman.tui.turn_view import RouteLabel
from pointsman.tui.welcome import welcome_text

LOOK_S: Final = 1.0
"""How often what changes by itself is looked at: outages that clear, files that were edited."""


class Visit(Struct, frozen=True):
    """What the app is opened for: a new session in a workspace, or one that is resumed."""

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
        self, pointsman: Pointsman, visit: Visit, conversations: Conversations | None = None
    ) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = {"": DARK.name, "dark": DARK.name, "light": LIGHT.name}.get(
            visit.theme, visit.theme
        )
        self._pointsman = pointsman
        self._visit = visit
        self._given = conversations
        self._images: list[Image] = []
        self._began = Instant(0)
        self._opened = asyncio.Event()
        self._waits = ""
        self._under_way: Worker[None] | None = None
        self._farewell = Farewell(pointsman)
        self._is_warned = False
        self.conversations: Conversations | None = None
        self.conversation: Conversation | None = None
        self.commands: Commands | None = None
        self.transcript = Transcript()
        self.banners = BannerStrip()
        self.top = TopLine()
        self.panel = QuestionPanel(self._tell, visit.grace_s)
        self.suggestions = Suggestions(slash_offer(self._aliases, self._files))
        self.composer = Composer(self.suggestions)

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
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
            self._farewell.listen(self._driver, partial(self._go, "abandoned"))
        self.run_worker(self._open(), group="open", exit_on_error=False)

    # Opening and leaving.

    async def _open(self) -> None:
        visit = self._visit
        try:
            self.conversations = self._given or self._pointsman.conversations
            if visit.resume:
                opened = await self.conversations.resume(
                    visit.resume, kit=visit.kit, is_interactive=True
                )
            else:
                opened = await self.conversations.start(
                    visit.workspace, kit=visit.kit, is_interactive=True
                )
        except (PointsmanError, OSError) as error:
            code = error.exit_code if isinstance(error, PointsmanError) else 1
            self.exit(code, return_code=code, message=f"error: {problem_line(error)}")
            return
        self.conversation = self._farewell.conversation = opened
        self._farewell.owned = self.conversations if self._given is None else None
        self.commands = Commands(
            self._pointsman, self.conversations, opened, lambda: self._report_width
        )
        await self._greet(opened)
        self._opened.set()
        self.set_interval(LOOK_S, self._look)

    async def _greet(self, opened: Conversation) -> None:
        past = turns_of(opened.history)
        if past:
            await self.transcript.restore(past)
            self.composer.remember(*(each[0].text for each in past if each[0].role == "user"))
        else:
            await self.transcript.welcome(welcome_text(self._pointsman))
        for problem in opened.problems:
            await self.transcript.report("this session", problem, "problem")
        last = opened.last_turn
        self._put_top(
            session_id=opened.id,
            workspace=place_text(opened.workspace),
            model=opened.sticky_model or ("" if last is None else last.model),
            mode="sticky" if opened.sticky_model else "auto",
            cost=usd_text(opened.cost().total_microusd),
        )
        await self._look()

    def panic(self, *renderables: RenderableType) -> None:
        """Tell what broke; where the terminal itself is gone, close the session instead."""
        if not self.is_headless and self._farewell.is_hung_up:
            self._farewell.hang_up(self._driver)
        else:
            super().panic(*renderables)

    async def action_quit(self) -> None:
        """End the session and the app."""
        self._go()

    def _go(self, disposition: Disposition = "completed") -> None:
        reason: CancelReason = "user_cancel" if disposition == "completed" else "client_disconnect"
        self.run_worker(self.leave(disposition, reason), exit_on_error=False)

    async def leave(self, disposition: Disposition, reason: CancelReason = "user_cancel") -> None:
        """Cancel the turn under way, close the session, and go; what failed is told at the end."""
        if self._farewell.is_near:
            return
        self.composer.border_subtitle = "closing the session"
        message = await self._farewell.close(disposition, reason)
        self.exit(1 if message else 0, return_code=1 if message else 0, message=message)

    # What is typed.

    async def on_composer_sent(self, event: Composer.Sent) -> None:
        """Take a message or a command."""
        self._is_warned = False
        read = parse_line(event.text, self._rule_words())
        if isinstance(read, SlashCommand):
            self.run_worker(self._obey(read, event.text.strip()), exit_on_error=False)
        elif isinstance(read, SlashProblem):
            await self.transcript.report(event.text.strip(), str(read), "problem")
        else:
            await self._say(message_text(event.text))

    async def _say(self, text: str) -> None:
        if not self._opened.is_set() and not self._waits:
            self._waits = text
            self.run_worker(self._say_once_open(), exit_on_error=False)
            return
        if self.conversation is None or self.conversation.is_busy:
            self.composer.put(text)
            wait = "still opening" if self.conversation is None else "a turn is under way"
            self.notify(f"{wait}: send it afterwards", timeout=3)
            return
        images, self._images = tuple(self._images), []
        await self.banners.take(SWAP_PENDING)
        self._under_way = self.run_worker(self._turn(text, images), exit_on_error=False)
        self._farewell.drawn = self._under_way.wait

    async def _say_once_open(self) -> None:
        self.composer.border_subtitle = "opening the session · your message goes out after it"
        await self._opened.wait()
        text, self._waits = self._waits, ""
        self._working()
        await self._say(text)

    async def _turn(self, text: str, images: tuple[Image, ...]) -> None:
        """Follow a turn to its end. Whatever goes wrong is told in a line of the turn."""
        conversation, clock = self.conversation, self._pointsman.clock
        if conversation is None:
            return
        self._began = clock.now()
        view = await self.transcript.begin(text, len(images))
        following = Following(self, view, conversation)
        try:
            async with aclosing(conversation.send(text, images)) as updates:
                async for update in updates:
                    await following.take(update)
        except Exception as error:  # noqa: BLE001 - the outermost edge: a line, never a traceback
            await view.failed(problem_line(error))
            if not view.turn_id and not self.composer.text:
                self.composer.put(text)
        await self._turn_ended(following)

    async def _turn_ended(self, following: Following) -> None:
        conversation = self.conversation
        if conversation is not None:
            self._put_top(cost=usd_text(conversation.cost().total_microusd))
        if following.view.turn_id:
            self.put_turn(following.view.turn_id)
        await self.panel.withdraw()
        if self.focused is None or not self.focused.is_attached:
            self.composer.focus()
        await self._look()

    def took(self) -> str:
        """Say how long the turn has taken."""
        return span_text(self._pointsman.clock.now() - self._began)

    @property
    def now(self) -> Instant:
        """The present instant."""
        return self._pointsman.clock.now()

    async def _obey(self, command: SlashCommand, line: str) -> None:
        try:
            await self._obeyed(command, line)
        except Exception as error:  # noqa: BLE001 - the outermost edge: a line, never a traceback
            await self.transcript.report(line, problem_line(error), "problem")

    async def _obeyed(self, command: SlashCommand, line: str) -> None:
        own: dict[str, Callable[[str], str]] = {"image": self._picture, "theme": self._themed}
        if command.name == "quit":
            await self.leave("completed")
        elif command.name in own:
            await self.transcript.report(line, own[command.name](command.argument), "done")
        else:
            await self._opened.wait()
            await self._carry_out(command, line)

    async def _carry_out(self, command: SlashCommand, line: str) -> None:
        if self.commands is not None:
            carried = await self.commands.carried_out(command)
            await self.transcript.report(line, carried.text, carried.kind)
            if carried.notice is not None:
                await self.banners.put(carried.notice.code, carried.notice.text)
            if command.name == "route":
                await self.panel.withdraw("route")
            await self._look()

    def _picture(self, argument: str) -> str:
        path = Path(argument).expanduser()
        self._images.append(read_picture(path if path.is_absolute() else self._folder / path))
        count = len(self._images)
        return f"{count} picture{'' if count == 1 else 's'} will go with the next message"

    def _themed(self, argument: str) -> str:
        self.theme = (LIGHT if argument == "light" else DARK).name
        return f"{argument} it is"

    def action_cancel(self) -> None:
        """Cancel the turn under way; else go back to the message."""
        if self.conversation is not None and self.conversation.cancel():
            self._working()
        else:
            self.composer.focus()

    def action_interrupt(self) -> None:
        """Copy what is selected, else cancel; a second time in a row, quit."""
        if selected := self.screen.get_selected_text() or self.composer.selected_text:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        elif self._is_warned:
            self._go()
        else:
            self._is_warned = True
            is_cut = self.conversation is not None and self.conversation.cancel()
            told = "cancelled" if is_cut else "nothing to cancel"
            self.notify(f"{told}: Ctrl+C again quits", timeout=3)

    async def action_help(self) -> None:
        """Print what can be typed."""
        await self._obey(SlashCommand("help"), "/help")

    async def action_why(self) -> None:
        """Print why the last turn went where it did."""
        await self._obey(SlashCommand("model", "show"), "/model show")

    @property
    def _report_width(self) -> int:
        """The columns of a report: above 80 the scrollbar takes one of them."""
        return self.size.width - (self.size.width > WIDTH)

    def action_workers(self) -> None:
        """Show or hide what workers did."""
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

    async def on_route_label_asked(self, event: RouteLabel.Asked) -> None:
        """Print why a turn went where it did."""
        if self.commands is not None:
            try:
                await self.transcript.report("why", self.commands.why(event.turn_id))
            except PointsmanError as error:
                await self.transcript.report("why", problem_line(error), "problem")

    def on_suggestions_taken(self, event: Suggestions.Taken) -> None:
        """Take the line that was clicked."""
        self.composer.take(event.line)

    async def on_earlier_wanted(self, _event: Earlier.Wanted) -> None:
        """Draw earlier turns."""
        if self.conversation is not None:
            await self.transcript.show_earlier(turns_of(self.conversation.history))

    # What changes by itself.

    async def _look(self) -> None:
        """Look at what changes by itself, and say what the session does now."""
        if self.conversations is None or self.conversation is None or self._farewell.is_near:
            return
        house, in_force = self.conversations.services, self._pointsman.in_force()
        reports = house.health.reports(in_force.ready.models)
        await self.banners.refresh_state(reports, self.now)
        await self.banners.put_policy(in_force.invalid)
        self._working()

    def _working(self) -> None:
        conversation = self.conversation
        is_busy = conversation is not None and conversation.is_busy
        self.composer.border_subtitle = f"working {self.took()} · Esc cancels" if is_busy else ""
        if conversation is not None:
            pending = conversation.pending_model
            self._put_top(
                mode="sticky" if conversation.sticky_model else "auto",
                pending="" if pending is None else pending[0] or "rules",
            )

    def put_turn(self, turn_id: str) -> None:
        """Note which turn `/model show` tells about."""
        if self.commands is not None:
            self.commands.last_turn_id = turn_id

    def put_model(self, model: str) -> None:
        """Say which model takes the turn."""
        self._put_top(model=model)
        self._working()

    def put_cost(self, cost_usd: str) -> None:
        """Say what the session has cost so far."""
        self._put_top(cost=usd_text(cost_usd))

    def _put_top(self, **parts: str) -> None:
        self.top.put(replace(self.top.standing, **parts))

    def _tell(self, error: PointsmanError) -> None:
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
