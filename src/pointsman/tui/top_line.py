"""The lines above the conversation: workspace, model and cost; and banners until outdated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from pointsman.kernel.instant import DAY, EPOCH, Instant
from pointsman.storage.policies.policies import InvalidFile
from pointsman.tui.plain import plain
from pointsman.turns.registry.availability import Report

OUTAGES: Final = ("turns.provider_unavailable", "turns.model_unavailable")
POLICY: Final = "routing.policy_invalid"
BUDGET: Final = "turns.budget_breaker"


class BannerLine(Static):
    """One banner."""

    def __init__(self, code: str, text: str, day: int) -> None:
        super().__init__(Content(plain(text)), classes="banner")
        self.code = code
        self.text = text
        self.day = day


class BannerStrip(Vertical):
    """The banners now in force."""

    def __init__(self) -> None:
        super().__init__(id="banners")

    @property
    def texts(self) -> list[str]:
        """The texts of the banners."""
        return [each.text for each in self.query(BannerLine)]

    async def show_banner(self, code: str, text: str, now: Instant = EPOCH) -> None:
        """Show a banner; except for outages, it replaces an earlier one of its code."""
        if text in self.texts:
            return
        if code not in OUTAGES:
            await self.remove_banners(code)
        await self.mount(BannerLine(code, text, now // DAY))

    async def show_policy(self, invalid: Sequence[InvalidFile]) -> None:
        """Show which file cannot be used and its replacement; nothing where all can."""
        broken = [each for each in invalid if each.problems]
        if not broken:
            await self.remove_banners(POLICY)
            return
        which = "last good version is" if broken[0].using_last_known_good else "defaults are"
        text = f"{broken[0].name} cannot be used: its {which} in force. See /rules check."
        await self.show_banner(POLICY, text)

    async def remove_banners(self, *codes: str) -> None:
        """Remove banners by their codes."""
        await self._remove_lines(each for each in self.query(BannerLine) if each.code in codes)

    async def refresh_state(self, reports: Iterable[Report], now: Instant) -> None:
        """Remove outdated banners: cleared outages, and yesterday's budget."""
        out = {
            each.model or each.provider for each in reports if each.clears_at is not None
        }  # the first word of an outage's banner
        await self._remove_lines(
            each
            for each in self.query(BannerLine)
            if (each.code in OUTAGES and each.text.split()[0] not in out)
            or (each.code == BUDGET and each.day != now // DAY)
        )

    async def _remove_lines(self, banners: Iterable[BannerLine]) -> None:
        gone = list(banners)
        if gone:
            await self.remove_children(gone)


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
