"""Agents' jobs over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ACTING, AUDITING, READING
from pointsman.gateway.serving.route import LIMIT, Route, declare

ROUTES: Final = declare(
    "jobs",
    "handlers.JobApi",
    Route(
        "POST",
        "/jobs",
        "act",
        ACTING,
        "run a job to its end: decide, call, judge, tick, and again where an agent fails",
        handler="run_job",
        answer="JobAnswer",
        body="pointsman.jobs.request.JobRequest",
        errors=(404, 409),
        call_name="jobs.run",
        is_long=True,
    ),
    Route(
        "GET",
        "/jobs",
        "read",
        READING,
        "list the latest jobs",
        handler="list_jobs",
        answer="JobsAnswer",
        parameters=(LIMIT,),
        call_name="jobs.list",
    ),
    Route(
        "GET",
        "/jobs/{id}",
        "read",
        READING,
        "tell how a job ended, by its log's id or its own",
        handler="show_job",
        answer="JobAnswer",
        call_name="jobs.get",
    ),
    Route(
        "POST",
        "/jobs/{id}/replay",
        "act",
        AUDITING,
        "run a job again from its record and compare; a verdict, never what was said",
        handler="replay_job",
        answer="ReplayedJob",
        call_name="jobs.replay",
        is_long=True,
    ),
    types="handlers",
)
