"""A line that opens: by a click, or by Enter where it has the focus."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Collapsible

from pointsman.tui.plain import plain


class Fold(Collapsible):
    """A line with something behind it. Closed until somebody opens it."""

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
        """Say something else on the line; words of tools and models are never markup."""
        self.line = plain(line)
        self._title.label = Content(self.line)
