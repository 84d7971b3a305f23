"""One turn on the screen: the question, the model and why, the answers and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from pointsman.kernel.document import printable
from pointsman.providers.messages import Image, Text, ToolResult, ToolUse
from pointsman.sessions.message import RoutingRecord, SessionMessage
from pointsman.sessions.update import RouteUpdate, ToolProgress, ToolState, TurnOver, WorkerState
from pointsman.tui.blocks import Fold, StreamedMarkdown, ToolBlock, WorkerBlock
from pointsman.tui.plain import plain, usd_text

_STATES = {
    "completed": "",
    "cancelled": "cancelled",
    "failed": "failed",
    "no_model": "no model",
    "refused": "refused",
}


_PROGRESS: dict[str, ToolProgress] = {
    "started": "running",
    "completed": "done",
    "failed": "failed",
}


class RouteLabel(Static):
    """The line with the model of the turn; a click asks why."""

    class WhyRequested(Message):
        """The user asked why."""

        def __init__(self, turn_id: str) -> None:
            self.turn_id = turn_id
            super().__init__()

    def __init__(self) -> None:
        super().__init__("", classes="route", markup=False)
        self.turn_id = ""

    def on_click(self) -> None:
        """Ask why."""
        if self.turn_id:
            self.post_message(self.WhyRequested(self.turn_id))


class TurnView(Vertical):
    """One turn."""

    def __init__(self, question: str, pictures: int = 0) -> None:
        self._asked = Static(_question(question, pictures), classes="question")
        self._route = RouteLabel()
        super().__init__(self._asked, self._route, classes="turn")
        self.route_line = RouteLine(state="deciding")
        self._answer: StreamedMarkdown | None = None
        self._thinking: StreamedMarkdown | None = None
        self._tools: dict[str, ToolBlock] = {}
        self._workers: dict[str, WorkerBlock] = {}
        self._draw_route()

    @property
    def turn_id(self) -> str:
        """The turn's id, once it is decided."""
        return self._route.turn_id

    @property
    def tools(self) -> tuple[ToolBlock, ...]:
        """The tools it called."""
        return tuple(self._tools.values())

    def show_route(self, update: RouteUpdate) -> None:
        """Show the model that takes the turn."""
        self._route.turn_id = update.turn_id
        self._update_route(model=update.model, why=reason_text(update), state="")

    async def say(self, text: str) -> None:
        """Show more of the answer."""
        if self._answer is None:
            self._answer = StreamedMarkdown(classes="answer")
            await self._place(self._answer)
        self._answer.write(text)

    async def think(self, text: str) -> None:
        """Show more of the reasoning, behind a line."""
        if self._thinking is None:
            self._thinking = StreamedMarkdown(classes="thinking")
            fold = Fold(self._thinking, classes="thought")
            fold.tell("thinking")
            await self._place(fold)
        self._thinking.write(text)

    async def tool(self, tool_use_id: str, name: str) -> ToolBlock:
        """Show a call; later answers stand below it."""
        found = self._tools.get(tool_use_id)
        if found is None:
            await self._settle()
            found = self._tools[tool_use_id] = ToolBlock(tool_use_id, name)
            await self._place(found)
        return found

    async def tool_stands(self, update: ToolState) -> None:
        """Show the state of a call; a worker's call stands with the worker."""
        if update.worker_session_id:
            for worker in self._workers.values():
                if worker.worker_session_id == update.worker_session_id:
                    worker.step(update)
            return
        block = await self.tool(update.tool_use_id, update.name)
        block.stand(update.state, update.detail, update.latency_ms)

    async def worker_stands(self, update: WorkerState) -> None:
        """Show the state of a worker."""
        found = self._workers.get(update.tool_use_id)
        if found is None:
            await self._settle()
            found = self._workers[update.tool_use_id] = WorkerBlock(update.tool_use_id)
            await self._place(found)
        found.stand(update)
        if update.tool_use_id in self._tools:
            state = _PROGRESS[update.state]
            self._tools[update.tool_use_id].stand(state, update.detail)

    async def note(self, text: str, kind: str = "note") -> None:
        """Show a line of our own."""
        await self._settle()
        await self._place(Static(Content(plain(text)), classes=f"line -{kind}"))

    def results(self, messages: Sequence[SessionMessage]) -> None:
        """Show the inputs and results of tools."""
        for message in messages:
            for use in message.tool_uses:
                self.tool_asked(use)
            for block in message.content:
                if isinstance(block, ToolResult):
                    self.tool_answered(block)

    def tool_asked(self, use: ToolUse) -> None:
        """Show the input of one tool."""
        if use.id in self._tools:
            self._tools[use.id].give(bytes(use.input).decode("utf-8", "replace"))

    def tool_answered(self, result: ToolResult) -> None:
        """Show the result of one tool."""
        if result.tool_use_id in self._tools:
            self._tools[result.tool_use_id].answer(_result_text(result))

    async def over(self, update: TurnOver, took: str) -> None:
        """Show how the turn ended."""
        await self.finish()
        state, cost = _STATES[update.status], usd_text(update.cost_usd)
        if not self._route.turn_id:
            self._route.turn_id = update.turn_id
        self._update_route(cost=cost if update.model else "", took=took, state=state)
        if update.error:
            await self.note(update.error, "problem")

    async def show_failure(self, line: str) -> None:
        """Show why the turn failed, or never began."""
        await self.finish()
        self._update_route(state="" if not self.turn_id else "failed")
        await self.note(line, "problem")

    async def finish(self) -> None:
        """Draw the rest of the answers."""
        for each in (self._answer, self._thinking):
            if each is not None:
                await each.finish()

    def set_route(self, line: RouteLine, turn_id: str) -> None:
        """Show the route line of a past turn."""
        self._route.turn_id, self.route_line = turn_id, line
        self._draw_route()

    async def _place(self, widget: Widget) -> None:
        if self.is_attached:
            await self.mount(widget)

    async def _settle(self) -> None:
        await self.finish()
        self._answer = self._thinking = None

    def _update_route(self, **parts: str) -> None:
        self.route_line = replace(self.route_line, **parts)
        self._draw_route()

    def _draw_route(self) -> None:
        line = str(self.route_line)
        # A line that stays a line moves nothing: the screen need not be laid out again.
        is_same = 0 < cell_len(line) < self.size.width - 4 and self._route.size.height == 1
        self._route.update(Content(line), layout=not is_same)
        if self._route.display != bool(line):
            self._route.display = bool(line)


def _question(text: str, pictures: int) -> Content:
    more = f"  [{pictures} picture{'' if pictures == 1 else 's'}]" if pictures else ""
    return Content(plain(f"{text}{more}"))


def _result_text(result: ToolResult) -> str:
    parts = [each.text if isinstance(each, Text) else "[picture]" for each in result.content]
    return ("failed: " if result.is_error else "") + "\n".join(parts)


def pictures_in(message: SessionMessage) -> int:
    """Count the pictures of a message."""
    return sum(isinstance(each, Image) for each in message.content)


_SLOTS: Final = {
    "per_message_override": "@ override",
    "manual_sticky": "sticky model",
    "rule": "rule",
    "pattern": "pattern",
    "delegate_request": "delegation",
    "workspace_default": "workspace default",
    "global_default": "global default",
    "override": "@ override",
    "manual": "sticky model",
    "delegate": "delegation",
    "default": "default",
}
_KINDS: Final = {
    "turn": "",
    "fallback": "took over",
    "override": "your choice",
    "opinion": "second opinion",
}


class RouteLine(Struct, frozen=True):
    """The route line: model · slot or rule · cost · time; unknown parts are left out."""

    model: str = ""
    why: str = ""
    cost: str = ""
    took: str = ""
    state: str = ""

    def __str__(self) -> str:
        parts = (self.model, self.why, self.cost, self.took, self.state)
        return " · ".join(printable(part) for part in parts if part)


def reason_text(routed: RouteUpdate) -> str:
    """Return why a model takes a turn, in a few words."""
    kind = _KINDS[routed.kind]
    slot = slot_text(routed.policy, routed.rule_name)
    return f"{slot}, {kind}" if kind else slot


def recorded_reason(record: RoutingRecord) -> str:
    """Return why a model took a past turn."""
    return slot_text(record.mode, record.rule_name)


def slot_text(slot: str, rule_name: str | None) -> str:
    """Return the name of a slot, or of its rule."""
    return f'rule "{rule_name}"' if rule_name else _SLOTS.get(slot, slot)
