"""Bulk work over HTTP: its jobs, their progress, their results."""

from __future__ import annotations

from pointsman.bulk.jobs import PLACE, list_jobs, read_job
from pointsman.bulk.view import BulkAnswer, bulk_row, job_answer
from pointsman.errors import NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices


class BulkApi:
    """Serves the progress of bulk work; it is begun and done on the command line."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def list_jobs(self, request: ApiRequest) -> object:
        """List jobs, the newest first; they are the operator's, and no tenant's."""
        if request.caller.reach is not None:
            return BulkAnswer(())
        place = self._parts.pointsman.home.place(PLACE)
        found = await in_thread(lambda: list_jobs(place))
        return BulkAnswer(tuple(bulk_row(each) for each in found))

    async def show_job(self, request: ApiRequest) -> object:
        """Return the progress of a job, and its result."""
        place, name = self._parts.pointsman.home.place(PLACE), request.part("id")
        if request.caller.reach is not None:
            raise NotFound(f"there is no bulk job `{name[:100]}`")
        return job_answer(await in_thread(lambda: read_job(place, name)))
