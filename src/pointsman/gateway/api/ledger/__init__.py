"""The ledger over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ADMINS, ALL, AUDITING
from pointsman.gateway.serving.route import (
    BEFORE,
    EVENTS,
    LIMIT,
    LINES,
    SINCE,
    Parameter,
    Route,
    declare,
    instant,
)

_UNTIL: Final = instant("until", "only before this instant (RFC 3339)")
_ROOM: Final = Parameter(
    "kind",
    "only decisions of this room",
    {"type": "string", "enum": ["turn", "placement", "agent", "branch"]},
)

ROUTES: Final = (
    *declare(
        "ledger",
        "records.RecordApi",
        Route(
            "GET",
            "/api/decisions",
            "read",
            ALL,
            "list the latest decisions of any kind",
            handler="list_decisions",
            answer="DecisionsAnswer",
            parameters=(_ROOM, LIMIT, SINCE, BEFORE),
        ),
        Route(
            "GET",
            "/api/audit/egress",
            "read",
            ALL,
            "tell what left this machine, under which rule",
            handler="show_egress",
            answer="EgressAnswer",
            parameters=(SINCE,),
        ),
        Route(
            "POST",
            "/api/replay",
            "act",
            AUDITING,
            "re-run recorded decisions and compare their bytes",
            handler="replay_all",
            answer="ReplayAnswer",
            parameters=(SINCE,),
        ),
        Route(
            "POST",
            "/api/backtest",
            "act",
            AUDITING,
            "decide recorded turns again under another policy; records nothing",
            handler="backtest",
            answer="BacktestAnswer",
            body="BacktestBody",
            also=EVENTS,
        ),
        Route(
            "POST",
            "/api/verify",
            "act",
            AUDITING,
            "check the whole ledger",
            handler="verify",
            answer="VerifyAnswer",
        ),
        Route(
            "POST",
            "/api/export",
            "admin",
            ADMINS,
            "download the ledger as a signed bundle for another machine",
            handler="export_ledger",
            media=LINES,
            parameters=(SINCE, _UNTIL),
        ),
    ),
    *declare(
        "ledger",
        "erasure.ErasureApi",
        Route(
            "POST",
            "/api/erase",
            "admin",
            ADMINS,
            "erase text of a turn, session, key or tenant, or all before an instant",
            handler="erase",
            answer="pointsman.operations.erasure.erase.ErasureReport",
            body="EraseBody",
        ),
        types="erasure",
    ),
    *declare(
        "ledger",
        "chains.LedgerApi",
        Route(
            "GET",
            "/api/ledger",
            "read",
            ALL,
            "tell which chains the ledger has, and how far they are signed",
            handler="show_ledger",
            answer="LedgerAnswer",
        ),
        types="chains",
    ),
    *declare(
        "ledger",
        "bulk.BulkApi",
        Route(
            "GET",
            "/api/bulk",
            "read",
            ALL,
            "list the jobs of bulk work, and how far each is",
            handler="list_jobs",
            answer="pointsman.bulk.view.BulkAnswer",
        ),
        Route(
            "GET",
            "/api/bulk/{id}",
            "read",
            ALL,
            "tell how far a job of bulk work is, and what came of it",
            handler="show_job",
            answer="pointsman.bulk.view.BulkJobAnswer",
        ),
    ),
)
