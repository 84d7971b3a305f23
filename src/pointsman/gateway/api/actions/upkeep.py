"""Upkeep of action requests: resume execution after a crash, and expire old ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pointsman.errors import LedgerUnavailable, PointsmanError
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.governance.state import REQUESTED

EXPIRED_EVERY_S: Final = 60.0


class ActionUpkeep:
    """Runs from the first moment of serving until the event loop ends."""

    def __init__(self, parts: GatewayServices) -> None:
        self._pointsman = parts.pointsman
        self._log = parts.log
        self._keeping: asyncio.Task[None] | None = None
        parts.starting.append(self.begin)

    def begin(self) -> None:
        """Begin, in the event loop."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        await self._try(self._carry_on)
        while True:
            await asyncio.sleep(EXPIRED_EVERY_S)
            await self._try(self._expire)

    def _carry_on(self) -> None:
        if self._has_requests():
            self._pointsman.approvals.resume_all()

    def _expire(self) -> None:
        if self._has_requests():
            self._pointsman.approvals.expire()

    def _has_requests(self) -> bool:
        """Look before approvals are loaded: most homes have none."""
        return self._pointsman.has_recorded(REQUESTED)

    async def _try(self, work: Callable[[], object]) -> None:
        """Do it; what fails is told in the log and tried again the next time."""
        try:
            await in_thread(work)
        except LedgerUnavailable:
            return  # readiness and every refused request tell of it
        except PointsmanError as error:
            self._log.unforeseen(error)
