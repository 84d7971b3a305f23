"""What is typed while the session is still being opened: nothing of it is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.tui.booth import Booth, a_booth

from pointsman.conversations.conversation import Conversation
from pointsman.conversations.conversations import Conversations
from pointsman.errors import InputError
from pointsman.testing import says

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Hold every session back until the gate is opened, as a slow disk does."""
    held, started = asyncio.Event(), Conversations.start

    async def start(self: Conversations, *parts: Any, **more: Any) -> Conversation:
        await held.wait()
        return await started(self, *parts, **more)

    monkeypatch.setattr(Conversations, "start", start)
    return held


async def open_up(booth: Booth, gate: asyncio.Event) -> None:
    gate.set()
    await booth.until(lambda: booth.app.top.status.session_id)


async def test_a_message_goes_out_when_the_session_is_open(
    tmp_path: Path, gate: asyncio.Event
) -> None:
    async with a_booth(tmp_path, says("Paris."), is_awaited=False) as booth:
        await booth.types("the capital of France?")
        await booth.drawn()
        assert "your message goes out after it" in booth.screen
        await open_up(booth, gate)
        await booth.idle()
        assert len(booth.app.transcript.turns) == 1
        assert "the capital of France?" in booth.screen
        assert "Paris." in booth.screen
        assert booth.app.composer.text == ""
        assert "goes out" not in booth.screen


async def test_a_second_message_stays_where_it_was_written(
    tmp_path: Path, gate: asyncio.Event
) -> None:
    async with a_booth(tmp_path, says("Paris."), is_awaited=False) as booth:
        await booth.types("the capital of France?")
        await booth.types("and of Italy?")
        await booth.until(lambda: booth.app.composer.text == "and of Italy?")
        await open_up(booth, gate)
        await booth.idle()
        assert booth.app.composer.text == "and of Italy?"
        assert len(booth.app.transcript.turns) == 1


async def test_a_command_is_carried_out_when_the_session_is_open(
    tmp_path: Path, gate: asyncio.Event
) -> None:
    async with a_booth(tmp_path, is_awaited=False) as booth:
        await booth.types("/model opus")
        gate.set()
        await booth.until(lambda: booth.app.top.status.mode == "sticky")


async def test_a_session_that_cannot_be_opened_ends_the_app_with_its_reason(
    tmp_path: Path, gate: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> Conversation:
        await gate.wait()
        raise InputError("no room on this machine")

    monkeypatch.setattr(Conversations, "start", refuse)
    async with a_booth(tmp_path, is_awaited=False) as booth:
        await booth.types("hello?")
        await booth.until(lambda: "goes out after it" in str(booth.app.composer.border_subtitle))
        gate.set()
        await booth.until(lambda: booth.app.return_code)
        assert booth.app.return_code == InputError.exit_code
