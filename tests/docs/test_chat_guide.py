"""The guide to the terminal app names every command, option and key there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.binding import Binding

from pointsman.cli.chat import chat
from pointsman.sessions.slash import COMMANDS
from pointsman.tui.app import ChatApp

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "guide" / "chat.md").read_text(encoding="utf-8")
SHORT = {"--include-workers", "--image", "--home", "--json", "--list", "--help"}


@pytest.mark.parametrize("usage", [form.usage for each in COMMANDS for form in each.forms])
def test_every_command_stands_in_the_guide(usage: str) -> None:
    assert f"`{usage}`" in GUIDE


def test_every_option_stands_in_the_guide() -> None:
    options = [name for each in chat.params for name in each.opts]
    assert [name for name in options if name not in SHORT and name not in GUIDE] == []


@pytest.mark.parametrize(
    "key",
    [each.key for each in ChatApp.BINDINGS if isinstance(each, Binding) and each.key[0] == "f"],
)
def test_every_function_key_stands_in_the_guide(key: str) -> None:
    assert f"| {key.upper()} |" in GUIDE


def test_every_picture_of_the_guide_is_there() -> None:
    shown = {part.split(")")[0] for part in GUIDE.split("](../")[1:] if part.startswith("scr")}
    kept = {f"screenshots/{path.name}" for path in (DOCS / "screenshots").glob("chat-*.svg")}
    assert shown == kept
