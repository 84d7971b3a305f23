"""The terminal app in a test: a home with scripted providers, and somebody at the keys."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.acceptance.parlour import ROUTING, Bench, models, opened
from tests.gateway.house import write_home
from textual.pilot import Pilot

from pointsman.app import Pointsman
from pointsman.conversations.conversations import Conversations, open_conversations
from pointsman.conversations.equipment import equip_from_home
from pointsman.conversations.services import Kit, OpenHome
from pointsman.testing import CountedIds, FrozenClock, ScriptedUpstream
from pointsman.tui.app import AppOptions, ChatApp
from pointsman.tui.turn_view import TurnView

SNAPSHOTS = Path(__file__).parent / "snapshots"
SOON = 7500


class Booth:
    """An app that runs, with those it talks to."""

    def __init__(self, app: ChatApp, pilot: Pilot[int], anthropic: ScriptedUpstream) -> None:
        self.app = app
        self.pilot = pilot
        self.anthropic = anthropic

    async def until(self, look: Callable[[], object]) -> None:
        """Wait until something is so."""
        for _ in range(SOON):
            if look():
                return
            await asyncio.sleep(0.004)
        raise AssertionError("never came true")

    async def types(self, text: str) -> None:
        """Write a message and send it."""
        self.app.composer.set_text(text)
        self.app.composer.focus()
        # As Enter does; the pilot would wait for an idle processor after each key.
        self.app.composer._enter()
        await asyncio.sleep(0)

    async def says(self, text: str) -> TurnView:
        """Send a message and wait for the end of its turn."""
        before = self.app._running_turn
        await self.types(text)
        await self.until(lambda: self.app._running_turn is not before)
        await self.idle()
        return self.last

    async def idle(self) -> None:
        """Wait until the turn is over and drawn."""
        await self.until(lambda: self.is_idle)
        await self.drawn()

    async def command(self, line: str) -> str:
        """Give a command and tell what it printed."""
        before = self.app.transcript.reports[-1:]
        await self.types(line)
        await self.until(lambda: self.app.transcript.reports[-1:] != before)
        await self.drawn()
        return self.app.transcript.reports[-1].text

    async def drawn(self) -> None:
        """Wait until everything that was asked for is on the screen."""
        await self.pilot._wait_for_screen()
        self.app.screen._on_timer_update()

    @property
    def is_idle(self) -> bool:
        worker = self.app._running_turn
        return worker is not None and worker.is_finished

    @property
    def conversation(self) -> Any:
        assert self.app.conversation is not None
        return self.app.conversation

    @property
    def last(self) -> TurnView:
        return self.app.transcript.turns[-1]

    @property
    def events(self) -> list[str]:
        assert self.app.conversations is not None
        return [each.type for each in self.app.conversations.events(self.conversation.id)]

    @property
    def screen(self) -> str:
        """What can be read on the screen."""
        width, height = self.app.size
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.ljust(width) for strip in lines[:height])


@asynccontextmanager
async def a_booth(
    home: Path,
    *replies: Any,
    size: tuple[int, int] = (80, 24),
    kit: Kit | None = None,
    frozen: bool = False,
    equipped: bool = False,
    openai: tuple[Any, ...] = (),
    files: dict[str, Any] | None = None,
    is_awaited: bool = True,
    **visit: Any,
) -> AsyncIterator[Booth]:
    """Open the app on a home; the replies are those of Anthropic's server.

    Unless told otherwise, wait until the session is there.
    """
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(ScriptedUpstream(*replies))
        second = await stack.enter_async_context(ScriptedUpstream(*openai))
        written = {"models": models(first.base_url, second.base_url), "routing": ROUTING}
        write_home(home, **{**written, **(files or {})})
        time: dict[str, Any] = {"clock": FrozenClock(), "ids": CountedIds()} if frozen else {}
        pointsman = stack.enter_context(Pointsman(home, **time))
        conversations = _equipped(pointsman) if equipped else opened(pointsman)
        stack.push_async_callback(conversations.close)
        if kit is None and not equipped:
            kit = Kit(Bench(), is_interactive=True)
        app = ChatApp(pointsman, AppOptions(kit=kit, grace_s=0, **visit), conversations)
        app.animation_level = "none"
        app.composer.cursor_blink = False
        pilot = await stack.enter_async_context(app.run_test(size=size))
        booth = Booth(app, pilot, first)
        if is_awaited:
            await booth.until(lambda: app.commands is not None and app.top.status.session_id)
        yield booth
        if app.conversation is not None and app.conversation.is_busy:
            app.conversation.cancel()
            await booth.idle()


def _equipped(pointsman: Pointsman) -> Conversations:
    parts = (pointsman.home, pointsman.files, pointsman.decision_recorder, pointsman.gathering)
    ground = OpenHome(*parts, pointsman.clock, pointsman.ids, pointsman.gather_placement)
    return open_conversations(ground, equip=equip_from_home, health=pointsman.health)


_FONT = re.compile(r"\n *@font-face \{.*?\}\n", re.DOTALL)
_HASH = re.compile(r"sha256:[0-9a-f]+")
_NAME = re.compile(r"terminal-\d+")


def picture(app: ChatApp) -> str:
    """Draw the screen: no font from elsewhere, no name that another run would change."""
    drawn = _FONT.sub("\n", app.export_screenshot(title="pointsman chat"))
    drawn = _FONT.sub("\n", drawn)
    drawn = _HASH.sub(lambda found: "sha256:" + "0" * (len(found[0]) - 7), drawn)
    return "\n".join(line.rstrip() for line in _NAME.sub("terminal", drawn).splitlines()) + "\n"


async def check_picture(booth: Booth, name: str, *, update: bool) -> None:
    """Compare the screen with the picture that is kept, letter by letter.

    Parts of a screen are drawn one after the other: it is looked at until it is as it should be.
    """
    path = SNAPSHOTS / f"{name}.svg"
    if update:
        await booth.until(lambda: "Quit" in booth.screen)
        path.write_text(picture(booth.app))
        return
    assert path.exists(), f"no picture is kept as {path.name}: run with POINTSMAN_SNAPSHOTS=update"
    kept = path.read_text()
    for _ in range(SOON // 40):
        if picture(booth.app) == kept:
            return
        await booth.drawn()
        await asyncio.sleep(0.04)
    raise AssertionError(f"the screen does not look like {path.name} any more")
