"""The line at the top: the session's workspace, model and cost."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.widget import Widget

from pointsman.tui.plain import plain


class SessionStatus(Struct, frozen=True):
    """The content of the line."""

    session_id: str = ""
    workspace: str = ""
    model: str = ""
    mode: str = "auto"
    pending: str = ""
    cost: str = "$0.00"

    @property
    def left_text(self) -> str:
        """The part that may be cut."""
        return f" {self.workspace or 'no workspace'}"

    @property
    def right_text(self) -> str:
        """The part that is always shown."""
        model = f"{self.mode} · {self.model}" if self.model else self.mode
        if self.pending:
            model += f" ⇢ {self.pending}"
        session = f"…{self.session_id[-6:]}" if self.session_id else "opening"
        return f"{model}   {self.cost}   {session} "


class TopLine(Widget):
    """The line at the top."""

    def __init__(self) -> None:
        super().__init__(id="top")
        self.status = SessionStatus()

    def show_status(self, status: SessionStatus) -> None:
        """Show another status."""
        self.status = status
        self.refresh()

    def render(self) -> Content:
        """Draw the line: the right part whole, the left part in the remaining width."""
        width, right = self.size.width, plain(self.status.right_text)
        room = max(0, width - cell_len(right))
        left = plain(self.status.left_text)
        if cell_len(left) > room - 2:
            left = f" …{_tail(left, room - 4)}" if room > 8 else ""
        return Content.assemble(set_cell_size(left, room), Content(right).stylize("bold"))


def _tail(text: str, width: int) -> str:
    while cell_len(text) > max(0, width):
        text = text[1:]
    return text


def place_text(workspace: str | None) -> str:
    """Return a folder with `~` for the user's home."""
    if workspace is None:
        return ""
    home = str(Path.home())
    return f"~{workspace.removeprefix(home)}" if workspace.startswith(f"{home}/") else workspace
