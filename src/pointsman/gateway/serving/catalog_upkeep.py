"""Keeping the turns of lists and charts read up to now while nothing else is to be done.

Whoever opens the dashboard would wait for all that was recorded since it was open last. A gateway
at work is never kept from it: what is recorded meanwhile is read once it rests.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from pointsman.audit.turn_catalog import TurnCatalog
from pointsman.errors import PointsmanError
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.telemetry.metrics import GatewayMetrics

RESTED_S: Final = 1.0
"""A gateway rests when no model was asked for so long."""

SLICE_S: Final = 0.02
"""How long a turn that comes meanwhile waits at most, beside one batch of entries."""


class CatalogUpkeep:
    """Reads on while the gateway rests, from the first moment of serving on."""

    def __init__(
        self, catalog: TurnCatalog, metrics: GatewayMetrics, rested_s: float = RESTED_S
    ) -> None:
        self._catalog = catalog
        self._metrics = metrics
        self._rested_s = rested_s
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin, in the event loop."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def end(self) -> None:
        """Read no more, in the event loop."""
        if self._keeping is not None:
            self._keeping.cancel()

    async def _keep(self) -> None:
        while True:
            served = self._served()
            await asyncio.sleep(self._rested_s)
            # A file that cannot be written now is told to who asks for a list.
            with suppress(PointsmanError):
                while self._is_resting(served):
                    if not await in_thread(lambda: self._catalog.keep_up(SLICE_S)):
                        break

    def _served(self) -> int:
        return self._metrics.total("pointsman_requests_total")

    def _is_resting(self, served: int) -> bool:
        return not self._metrics.in_flight and self._served() == served
