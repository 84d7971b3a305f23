"""Bulk work over HTTP: which jobs there are, how far each is, and what came of it."""

from __future__ import annotations

from typing import Final

from pointsman.bulk.jobs import PLACE, list_jobs, read_job
from pointsman.bulk.view import BulkAnswer, bulk_row, job_answer
from pointsman.gateway.access import check_reader
from pointsman.gateway.asgi import named_parts
from pointsman.gateway.http import Asked, Handler, Receive, Send, answer_value, in_thread
from pointsman.gateway.parts import Parts

_JOB: Final = "/api/bulk/{id}"


class BulkApi:
    """Serves the progress of bulk work; it is begun and done on the command line."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {("GET", "/api/bulk"): self.jobs, ("GET", _JOB): self.job}

    async def jobs(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """List jobs, the newest first."""
        check_reader(self._parts, asked)
        place = self._parts.pointsman.home.place(PLACE)
        found = await in_thread(lambda: list_jobs(place))
        await answer_value(send, BulkAnswer(tuple(bulk_row(each) for each in found)))

    async def job(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell how far a job is, and what came of it."""
        check_reader(self._parts, asked)
        place, name = self._parts.pointsman.home.place(PLACE), named_parts(_JOB, asked.path)["id"]
        await answer_value(send, job_answer(await in_thread(lambda: read_job(place, name))))
