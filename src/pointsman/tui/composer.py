"""The message editor: several lines, a history of sent messages, completion of commands."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from pointsman.tui.suggestions import Suggestions

PLACEHOLDER: Final = "Message, or / for commands.  Enter sends, Ctrl+J begins a line."
MOST_REMEMBERED: Final = 200
_NEW_LINE: Final = ("ctrl+j", "shift+enter", "alt+enter")


class Composer(TextArea):
    """The editor of the next message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "app.page(-1)", "page up", show=False),
        Binding("pagedown", "app.page(1)", "page down", show=False),
    ]

    class Sent(Message):
        """A message was sent off."""

        def __init__(self, text: str) -> None:
            self.text = text
            super().__init__()

    def __init__(self, suggestions: Suggestions) -> None:
        super().__init__(
            id="composer",
            soft_wrap=True,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder=PLACEHOLDER,
        )
        self._suggestions = suggestions
        self._sent: list[str] = []
        self._at = 0
        self._draft = ""

    def remember(self, *texts: str) -> None:
        """Add sent texts to the history."""
        self._sent = [*self._sent, *(text for text in texts if text.strip())][-MOST_REMEMBERED:]
        self._at = len(self._sent)

    def set_text(self, text: str) -> None:
        """Replace the text."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def on_text_area_changed(self) -> None:
        """Offer completions of the line."""
        self._suggestions.offer(self.text)

    async def _on_key(self, event: events.Key) -> None:
        if self._handle_key(event.key):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)

    def _handle_key(self, key: str) -> bool:
        if key == "enter":
            self._enter()
        elif key in _NEW_LINE:
            self.insert("\n")
        elif key == "tab":
            return self._complete()
        elif key in ("up", "down"):
            return self._move(-1 if key == "up" else 1)
        elif key == "escape":
            return self._suggestions.close()
        else:
            return False
        return True

    def _enter(self) -> None:
        chosen = self._suggestions.chosen
        if chosen is not None:
            self._accept(chosen)
            return
        text = self.text
        if not text.strip():
            return
        self._suggestions.close()
        self.remember(text)
        self.set_text("")
        self.post_message(self.Sent(text))

    def _complete(self) -> bool:
        """Complete the line as far as it is unambiguous; return whether there was a completion."""
        line = self._suggestions.complete(self.text)
        if line is None:
            return False
        self._accept(line)
        return True

    def _accept(self, line: str) -> None:
        self.set_text(line)
        self._suggestions.offer(line)

    def _move(self, step: int) -> bool:
        if self._suggestions.is_open:
            self._suggestions.move(step)
            return True
        row, last = self.cursor_location[0], self.document.line_count - 1
        if (row != 0 if step < 0 else row != last) or not self._sent:
            return False
        at = self._at + step
        if not 0 <= at <= len(self._sent):
            return True
        if self._at == len(self._sent):
            self._draft = self.text
        self._at = at
        self.set_text(self._draft if at == len(self._sent) else self._sent[at])
        self._suggestions.close()
        return True

    def take(self, line: str) -> None:
        """Replace the text by a clicked line."""
        self._accept(line)
        self.focus()
