"""Banners: news that the user must see, removed once it is outdated. 002 §4.5.4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from textual.containers import Vertical
from textual.content import Content
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
