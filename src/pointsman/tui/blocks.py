"""The blocks of a turn on the screen: tool calls, workers, and answers as growing markdown."""

from __future__ import annotations

import asyncio
import time
from typing import Final, Literal

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Collapsible, Markdown, Static

from pointsman.kernel.columns import cut_line
from pointsman.sessions.update import ToolProgress, ToolState, WorkerState
from pointsman.tui.plain import plain, usd_text

MOST_SHOWN: Final = 4000
MOST_BRIEF: Final = 60
MARKS: Final[dict[str, str]] = {
    "asked": "·", "waiting": "?", "running": "…", "done": "✓", "failed": "✗", "cancelled": "-",
}  # fmt: skip


class Fold(Collapsible):
    """A line that opens by a click or Enter and shows its content; closed at first."""

    def __init__(self, *children: Widget, classes: str = "") -> None:
        super().__init__(
            *children,
            title="",
            collapsed_symbol="▸",
            expanded_symbol="▾",
            classes=f"fold {classes}".strip(),
        )
        self.line = ""

    def tell(self, line: str) -> None:
        """Replace the line; words of tools and models are never markup."""
        self.line = plain(line)
        self._title.label = Content(self.line)


class ToolBlock(Fold):
    """A call of a tool."""

    def __init__(self, tool_use_id: str, name: str) -> None:
        self._given = Static("", classes="tool-input", markup=False)
        self._result = Static("", classes="tool-result", markup=False)
        super().__init__(self._given, self._result, classes="tool")
        self.tool_use_id = tool_use_id
        self.state: ToolProgress | str = "asked"
        self._tool = name
        self._brief = ""
        self._detail = ""
        self._refresh_line()

    def give(self, text: str) -> None:
        """Show the tool's input."""
        self._given.update(Content(plain(_shorten(text))))
        self._brief = _one_line(text)
        self._refresh_line()

    def stand(self, state: ToolProgress, detail: str = "", latency_ms: int = 0) -> None:
        """Show the state of the call."""
        self.state = state
        took = f"{latency_ms} ms" if state == "done" and latency_ms else ""
        self._detail = took or ("" if state == "waiting" else _one_line(detail))
        self._refresh_line()

    def answer(self, text: str) -> None:
        """Show the tool's result."""
        self._result.update(Content(plain(_shorten(text))))

    def _refresh_line(self) -> None:
        parts = (f"{MARKS[self.state]} {self._tool}", self._brief, self._detail)
        self.tell("  ".join(part for part in parts if part))
        for name in MARKS:
            self.set_class(name == self.state, f"-{name}")


def _shorten(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN]}\n… {len(text) - MOST_SHOWN} more characters"


def _one_line(text: str) -> str:
    """Return a text on one short line, without the braces of a JSON object."""
    line = " ".join(text.strip().removeprefix("{").removesuffix("}").split())
    return cut_line(line, MOST_BRIEF)


_MARKS: Final = {"started": "…", "completed": "✓", "failed": "✗"}


class WorkerBlock(Fold):
    """A worker's work, nested in its planner's turn; hidden until workers are asked for."""

    def __init__(self, tool_use_id: str) -> None:
        self._lines = Static("", classes="worker-lines", markup=False)
        super().__init__(self._lines, classes="worker")
        self.tool_use_id = tool_use_id
        self.worker_session_id = ""
        self.state: Literal["started", "completed", "failed"] = "started"
        self._model = ""
        self._steps: dict[str, str] = {}

    def stand(self, update: WorkerState) -> None:
        """Show the state of the worker."""
        self.state = update.state
        self._model = update.model or self._model
        self.worker_session_id = update.worker_session_id or self.worker_session_id
        cost = "" if update.state == "started" else usd_text(update.cost_usd)
        detail = update.detail.partition("\n")[0][:60]
        head = f"{_MARKS[update.state]} worker → {self._model or 'no model'}"
        self.tell("  ".join(part for part in (head, cost, detail) if part))
        for name in _MARKS:
            self.set_class(name == self.state, f"-{name}")

    def step(self, update: ToolState) -> None:
        """Show a tool that the worker uses."""
        took = f"{update.latency_ms} ms" if update.state == "done" else update.detail
        self._steps[update.tool_use_id] = f"{MARKS[update.state]} {update.name}  {took}".rstrip()
        self._lines.update(Content(plain("\n".join(self._steps.values()))))


FRAME_S: Final = 0.05
REST: Final = 3
"""Of each stretch of time at most a quarter is spent on drawing, however long the answer is."""


class StreamedMarkdown(Markdown):
    """Growing markdown; text that arrives faster than it can be drawn is drawn together."""

    def __init__(self, text: str = "", classes: str = "") -> None:
        super().__init__(plain(text) or None, classes=classes, open_links=False)
        self._waiting: list[str] = []
        self._drawing: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def write(self, text: str) -> None:
        """Add text."""
        self._waiting.append(text)
        if self._drawing is None:
            self._drawing = asyncio.get_running_loop().create_task(self._draw())

    async def finish(self) -> None:
        """Draw the rest at once."""
        self._hurry.set()
        if self._drawing is not None:
            await self._drawing

    async def _draw(self) -> None:
        while self._waiting and self.is_attached:
            text = plain("".join(self._waiting))
            self._waiting.clear()
            started = time.perf_counter()
            await self.append(text)
            await self._rest((time.perf_counter() - started) * REST)
        self._drawing = None

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(FRAME_S, seconds)):
                await self._hurry.wait()
        except TimeoutError:
            return
