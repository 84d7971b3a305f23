"""A tool call: one line that says how it stands, and behind it what was asked and came back."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widgets import Static

from pointsman.kernel.columns import cut_line
from pointsman.sessions.update import ToolProgress
from pointsman.tui.fold import Fold
from pointsman.tui.plain import plain

MOST_SHOWN: Final = 4000
MOST_BRIEF: Final = 60
MARKS: Final[dict[str, str]] = {
    "asked": "·", "waiting": "?", "running": "…", "done": "✓", "failed": "✗", "cancelled": "-",
}  # fmt: skip


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
        self._told()

    def give(self, text: str) -> None:
        """Show what the tool was asked for."""
        self._given.update(Content(plain(_cut(text))))
        self._brief = _short(text)
        self._told()

    def stand(self, state: ToolProgress, detail: str = "", latency_ms: int = 0) -> None:
        """Show how the call stands."""
        self.state = state
        took = f"{latency_ms} ms" if state == "done" and latency_ms else ""
        self._detail = took or ("" if state == "waiting" else _short(detail))
        self._told()

    def answer(self, text: str) -> None:
        """Show what came back."""
        self._result.update(Content(plain(_cut(text))))

    def _told(self) -> None:
        parts = (f"{MARKS[self.state]} {self._tool}", self._brief, self._detail)
        self.tell("  ".join(part for part in parts if part))
        for name in MARKS:
            self.set_class(name == self.state, f"-{name}")


def _cut(text: str) -> str:
    if len(text) <= MOST_SHOWN:
        return text
    return f"{text[:MOST_SHOWN]}\n… {len(text) - MOST_SHOWN} more characters"


def _short(text: str) -> str:
    """Give a text on one short line; the braces of a JSON object say nothing."""
    line = " ".join(text.strip().removeprefix("{").removesuffix("}").split())
    return cut_line(line, MOST_BRIEF)
