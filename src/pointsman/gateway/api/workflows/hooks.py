"""`POST /hooks/{name}`: webhooks for sensors; one gateway of the home at a time runs targets."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from pointsman.errors import BodyTooLarge, ChainHeld, InputError, NotFound, PointsmanError
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import SECOND, Instant

if TYPE_CHECKING:
    from pointsman.sensors.sensors import SensorService

LONGEST_WAIT_S = 60.0

AGAIN = SECOND // 4
"""When a gateway looks again while its neighbour is at work, which may not have seen its hook."""

WORK = "hooks"
"""The sole right to run the targets of hooks."""

SENSORS = "sensors"
"""The folder, as storage calls it; what reads it is loaded only where there is one."""

_ERRORS: dict[int, type[PointsmanError]] = {404: NotFound, 413: BodyTooLarge}


class HookTaken(Struct, frozen=True):
    """The event a hook became; none where the sensor's filter dropped it."""

    event: str | None
    filtered: bool = False


class HookApi:
    """Takes hooks, and runs their targets when due."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._working: asyncio.Task[None] | None = None
        self._has_more = False
        parts.starting.append(self.work)

    async def take_hook(self, request: ApiRequest) -> object:
        """Take one hook: its event is on disk when it is answered, its targets run after that."""
        # Imported here, as below: a home without sensors does not load their modules.
        from pointsman.sensors.webhooks import receive_hook  # noqa: PLC0415

        name = request.part("name")
        headers = {
            each.decode("latin-1"): value.decode("latin-1")
            for each, value in request.asked.headers.items()
        }
        found = await in_thread(
            lambda: receive_hook(self._service, name, headers, request.asked.body)
        )
        if found.status >= 400:
            raise _ERRORS.get(found.status, InputError)(str(found.value["error"]))
        if found.work is not None:
            self.work()
        return found.value

    def work(self) -> None:
        """Run due targets, and those that become due, in the background."""
        if not (self._parts.pointsman.home.path / SENSORS).exists():
            return
        self._has_more = True
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._run_due())

    @cached_property
    def _service(self) -> SensorService:
        from pointsman.sensors.sensors import SensorService  # noqa: PLC0415

        pointsman = self._parts.pointsman
        return SensorService(
            pointsman.home,
            pointsman.decision_recorder,
            pointsman.branching,
            (pointsman.clock, pointsman.ids),
            lambda: pointsman.files.settings().value.workflow,
        )

    async def _run_due(self) -> None:
        """Go on until nothing is under way: debounces, retries."""
        clock = self._parts.pointsman.clock
        while self._has_more:
            self._has_more = False
            due = await in_thread(self._tick)
            if due is not None:
                wait_s = max((due - clock.now()) / SECOND, 0.0)
                await asyncio.sleep(min(wait_s, LONGEST_WAIT_S))
                self._has_more = True

    def _tick(self) -> Instant | None:
        """Run due targets, unless another gateway of the home does; return when to look again."""
        pointsman = self._parts.pointsman
        try:
            lease = pointsman.home.lease(WORK)
        except ChainHeld:
            return Instant(pointsman.clock.now() + AGAIN)
        try:
            return self._service.tick(hooks=True)
        finally:
            lease.release()
