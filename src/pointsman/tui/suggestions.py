"""Completions of a line: a list above the message, for Tab, arrows and the mouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
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
