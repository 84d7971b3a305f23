"""The conversation on the screen: the latest turns, and reports that were asked for.

Only so many turns are kept drawn: a session of thousands costs no more than one of fifty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from pointsman.app import Pointsman
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Text, Thinking, ToolUse
from pointsman.sessions.message import SessionMessage
from pointsman.tui.plain import plain, span_text, usd_text
from pointsman.tui.turn_view import RouteLine, TurnView, pictures_in, recorded_reason
from pointsman.turns.registry.models import EMBEDDED_PROVIDER, provider_of

PastTurn = tuple[SessionMessage, ...]
"""The messages of one turn."""


def split_turns(history: Sequence[SessionMessage]) -> list[PastTurn]:
    """Split a history into its turns."""
    found: dict[str, list[SessionMessage]] = {}
    for message in history:
        found.setdefault(message.turn_id, []).append(message)
    return [tuple(messages) for messages in found.values()]


def past_turn_view(past: PastTurn) -> TurnView:
    """Return the view of a past turn; `draw_turn` fills it once it is on the screen."""
    first = past[0]
    view = TurnView(first.text if first.role == "user" else "", pictures_in(first))
    view.set_route(_line(past), first.turn_id)
    return view


async def draw_turn(view: TurnView, past: PastTurn) -> None:
    """Fill a view with the answers and tools of its turn."""
    for message in past:
        if message.role != "assistant":
            continue
        for block in message.content:
            match block:
                case Text():
                    await view.say(block.text)
                case Thinking():
                    await view.think(block.text)
                case ToolUse():
                    tool = await view.tool(block.id, block.name)
                    tool.stand("done" if _is_answered(past, block.id) else "cancelled")
                case _:
                    pass
        if message.metadata.status != "complete":
            await view.note(f"this answer was not finished: {message.metadata.status}")
    view.results(past)
    await view.finish()


def _line(past: PastTurn) -> RouteLine:
    said = [each.metadata for each in past if each.metadata.model]
    if not said:
        return RouteLine(state="no answer")
    last, usages = said[-1], [each.usage for each in said if each.usage is not None]
    cost = MicroUsd(sum(each.cost_microusd for each in usages))
    took = sum(each.latency_ms for each in usages) * 1000
    return RouteLine(
        model=last.model or "",
        why="" if last.routing is None else recorded_reason(last.routing),
        cost=usd_text(cost),
        took=span_text(took),
        state="" if last.status == "complete" else last.status,
    )


def _is_answered(past: PastTurn, tool_use_id: str) -> bool:
    return any(
        getattr(block, "tool_use_id", "") == tool_use_id and not getattr(block, "is_error", True)
        for message in past
        for block in message.content
    )


MOST_DRAWN: Final = 20
STEP: Final = 10


class ReportView(Vertical):
    """The output of a command, under its name."""

    def __init__(self, title: str, text: str, kind: str = "report") -> None:
        body = Static(Content(plain(text)), classes="report-text")
        super().__init__(
            Static(Content(plain(title)), classes="report-title"),
            Horizontal(body, classes="report-body"),
            classes=f"report -{kind}",
        )
        self.title = title
        self.text = text


class EarlierTurns(Static, can_focus=True):
    """Stands for the turns that are not drawn; a click or Enter draws some of them."""

    class ShowRequested(Message):
        """The user asked for earlier turns."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "want", "show earlier turns")]

    def on_click(self) -> None:
        """Ask for earlier turns."""
        self.post_message(self.ShowRequested())

    def action_want(self) -> None:
        """Ask for earlier turns."""
        self.post_message(self.ShowRequested())


class Transcript(VerticalScroll, can_focus=False):
    """The turns and reports of a session, the latest at the bottom."""

    def __init__(self) -> None:
        self._earlier = EarlierTurns("", classes="earlier")
        # As high as the screen at least: an anchored page would sink to its bottom.
        self._page = Vertical(self._earlier, id="page")
        super().__init__(self._page, id="transcript")
        self._earlier.display = False
        self.hidden = 0
        """How many resumed turns are not drawn."""
        self._unseen = 0

    def on_mount(self) -> None:
        """Stay at the bottom until the user scrolls up."""
        self.anchor()

    @property
    def turns(self) -> list[TurnView]:
        """The turns that are drawn."""
        return [each for each in self._page.children if isinstance(each, TurnView)]

    @property
    def reports(self) -> list[ReportView]:
        """The reports that are drawn."""
        return [each for each in self._page.children if isinstance(each, ReportView)]

    async def begin(self, question: str, pictures: int = 0) -> TurnView:
        """Draw a turn that begins."""
        view = TurnView(question, pictures)
        await self._add(view)
        return view

    async def report(self, title: str, text: str, kind: str = "report") -> None:
        """Draw the output of a command."""
        await self._add(ReportView(title, text, kind))

    async def restore(self, turns: Sequence[PastTurn]) -> None:
        """Draw the latest turns of a session that is resumed."""
        self.hidden = max(0, len(turns) - STEP)
        for past in turns[-STEP:]:
            view = past_turn_view(past)
            await self._page.mount(view)
            await draw_turn(view, past)
        self._count()
        self.anchor()

    async def show_earlier(self, known: Sequence[PastTurn]) -> None:
        """Draw some of the turns that are not drawn."""
        drawn_ids = {each.turn_id for each in self.turns}
        first = next(
            (n for n, past in enumerate(known) if past[0].turn_id in drawn_ids), len(known)
        )
        wanted = known[max(0, first - STEP) : first]
        for past in reversed(wanted):
            view = past_turn_view(past)
            await self._page.mount(view, after=self._earlier)
            await draw_turn(view, past)
        self.hidden = max(0, first - STEP)
        self._unseen = 0
        self._count()

    async def welcome(self, text: str) -> None:
        """Show a text on the empty screen; the first turn or report replaces it."""
        await self._page.mount(Welcome(text))

    async def _add(self, widget: Widget) -> None:
        await self._page.remove_children(Welcome)
        await self._page.mount(widget)
        await self._trim()
        self.anchor()

    async def _trim(self) -> None:
        """Remove the widgets far above."""
        shown = [each for each in self._page.children if each is not self._earlier]
        far = shown[: max(0, len(shown) - MOST_DRAWN)]
        if far:
            self._unseen += sum(isinstance(each, TurnView) for each in far)
            await self._page.remove_children(far)
            self._count()

    def _count(self) -> None:
        count = self.hidden + self._unseen
        self._earlier.display = count > 0
        self._earlier.update(
            f"{count} earlier turn{'' if count == 1 else 's'}: click or press Enter"
        )


MOST_NAMED = 2
HINTS = (
    "Each message goes to the model that fits it; F2 tells why.",
    "@name before a message picks a model, /model binds the session to one.",
    "F1 lists every command; Ctrl+Q ends the session.",
)
ONLY_EMBEDDED = (
    "Only the small model on this machine is set up: it needs no key and no",
    "network, and knows little. `pointsman init` shows how to set up others.",
)


class Welcome(Static):
    """The text of the empty screen; the first turn takes its place."""

    def __init__(self, text: str) -> None:
        super().__init__(Content(plain(text)), classes="welcome")
        self.text = text


def welcome_text(pointsman: Pointsman) -> str:
    """Return the welcome: the models of the home, and how to begin."""
    names = pointsman.gathering.configured_models(pointsman.in_force())
    lines = [_ready(names), *HINTS]
    if all(provider_of(name) == EMBEDDED_PROVIDER for name in names):
        lines += ["", *ONLY_EMBEDDED]
    return "\n".join(lines)


def _ready(names: Sequence[str]) -> str:
    if not names:
        return "No model can answer yet: `pointsman doctor` tells why."
    more = len(names) - MOST_NAMED
    named = ", ".join(names[:MOST_NAMED])
    return f"Ready: {named}{f' and {more} more' if more > 0 else ''}"
