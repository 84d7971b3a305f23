"""The message editor: several lines, a history of sent messages, completion of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option

from pointsman.sessions.slash import COMMANDS, completions
from pointsman.tui.plain import plain

MOST: Final = 8
_HELP: Final = {
    **{f"/{each.name}": each.forms[0].help for each in COMMANDS if len(each.forms) == 1},
    **{
        f"/{each.name}": ", ".join(form.word for form in each.forms if form.word)
        for each in COMMANDS
        if len(each.forms) > 1
    },
    **{f"/{c.name} {form.word}": form.help for c in COMMANDS for form in c.forms if form.word},
}

Offer = Callable[[str], tuple[str, ...]]
"""Returns the completions of a line."""


class Suggestions(OptionList, can_focus=False):
    """The list of completions."""

    class Taken(Message):
        """A completion was clicked."""

        def __init__(self, line: str) -> None:
            self.line = line
            super().__init__()

    def __init__(self, offer: Offer) -> None:
        super().__init__(id="suggestions", compact=True)
        self._offer = offer
        self._found: tuple[str, ...] = ()
        self.display = False

    @property
    def is_open(self) -> bool:
        """Whether the list is shown."""
        return bool(self.display)

    @property
    def chosen(self) -> str | None:
        """The completion that the arrows chose."""
        index = self.highlighted
        return self._found[index] if self.is_open and index is not None else None

    def offer(self, line: str) -> None:
        """Show the completions of a line; hide the list where there are none."""
        found = tuple(each for each in self._offer(line) if each != line)
        if found == self._found and self.is_open == bool(found):
            return
        self._found = found
        self.clear_options()
        width = max(map(len, found), default=0)
        self.add_options([Option(_option(each, width)) for each in found])
        self.highlighted = None
        self.display = bool(found)

    def complete(self, line: str) -> str | None:
        """Return the line completed as far as it is unambiguous; None without completions."""
        if not self.is_open:
            return None
        if self.chosen is not None:
            return self.chosen
        if len(self._found) == 1:
            return self._found[0]
        common = _common_prefix(self._found)
        if len(common) > len(line):
            return common
        self.move(1)
        return line

    def move(self, step: int) -> None:
        """Choose the next or the previous completion."""
        count = len(self._found)
        start = -1 if step > 0 else count
        at = start if self.highlighted is None else self.highlighted
        self.highlighted = (at + step) % count

    def close(self) -> bool:
        """Hide the list; return whether it was shown."""
        was_open, self.display = self.is_open, False
        self._found = ()
        return was_open

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Report the clicked completion."""
        event.stop()
        if event.option_index < len(self._found):
            self.post_message(self.Taken(self._found[event.option_index]))


def _common_prefix(lines: tuple[str, ...]) -> str:
    """Return the common prefix: the least and the greatest line decide it for all."""
    first, last = min(lines), max(lines)
    same = next((n for n, letter in enumerate(first) if last[n : n + 1] != letter), len(first))
    return first[:same]


def _option(line: str, width: int) -> Content:
    told = _HELP.get(line, "")
    text = Content(plain(f"{line:<{width}}"))
    return text if not told else Content.assemble(text, "  ", Content(told).stylize("dim"))


def slash_offer(
    aliases: Callable[[], tuple[str, ...]], files: Callable[[str], tuple[str, ...]]
) -> Offer:
    """Return the completer of commands, models, files, and `@alias` before a message."""

    def offer(line: str) -> tuple[str, ...]:
        if line.startswith("@") and " " not in line and "\n" not in line:
            return tuple(f"@{name} " for name in aliases() if name.startswith(line[1:]))
        begun = line.removeprefix("/image ")
        near = files(begun.lstrip()) if begun != line else ()
        return completions(line, aliases() if line.startswith("/model ") else (), near)

    return offer


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
