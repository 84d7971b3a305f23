"""The ledger over HTTP."""

from __future__ import annotations

from typing import Final

from pointsman.access.roles import ADMINS, ALL, AUDITING
from pointsman.gateway.serving.route import (
    BEFORE,
    BYTES,
    EVENTS,
    HTML,
    LIMIT,
    LINES,
    SINCE,
    TEXT,
    Parameter,
    Route,
    declare,
    instant,
)
from pointsman.kernel.schema_tree import Schema

_UNTIL: Final = instant("until", "only before this instant (RFC 3339)")
_ROOM: Final = Parameter(
    "kind",
    "only decisions of this room",
    {"type": "string", "enum": ["turn", "placement", "agent", "branch"]},
)

_TEXT_VALUE: Final[Schema] = {"type": "string"}
_KIND: Final = Parameter("kind", "the kind of entries; with `*` all that begin so", _TEXT_VALUE)
_WHERE: Final = Parameter("where", "`PATH=VALUE`; may stand several times", _TEXT_VALUE)
_BY: Final = Parameter("by", "also count for each value at this path", _TEXT_VALUE)
_SUM: Final = Parameter("sum", "add up the numbers at this path", _TEXT_VALUE)
_TENANT: Final = Parameter("tenant", "only this tenant's decisions and calls", _TEXT_VALUE)
_FORMAT: Final = Parameter("format", "`html` for a page to print", _TEXT_VALUE)
_PERIOD: Final = (
    instant("from", "only from this instant on (RFC 3339)"),
    instant("to", "only before this instant (RFC 3339)"),
    _TENANT,
)
_TILE_PATHS: Final = ("{a}", "{a}/{b}", "{a}/{b}/{c}", "{a}/{b}/{c}/{d}")
"""A tile's index has a part for every three digits, and its width one more."""

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
            "GET",
            "/api/audit/count",
            "read",
            ALL,
            "count entries of the ledger by kind, period and what they hold",
            handler="count_entries",
            answer="pointsman.audit.ledger_query.QueryResult",
            parameters=(_KIND, _WHERE, _BY, _SUM, *_PERIOD),
        ),
        Route(
            "GET",
            "/api/audit/report",
            "read",
            ALL,
            "report a period: decisions, departures, overrides, approvals, changes, faults, gaps",
            handler="report_period",
            answer="pointsman.audit.period_report.PeriodReport",
            also=HTML,
            parameters=(*_PERIOD, _FORMAT),
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
            "/api/bisect",
            "act",
            AUDITING,
            "find the entries that moved turns from one model to another; records nothing",
            handler="bisect",
            answer="BisectAnswer",
            body="BisectBody",
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
        "tlog.TlogApi",
        Route(
            "GET",
            "/tlog/{chain}/checkpoint",
            "read",
            ALL,
            "return a chain's newest checkpoint (C2SP tlog-checkpoint)",
            handler="show_checkpoint",
            media=TEXT,
            errors=(404,),
        ),
        Route(
            "GET",
            "/tlog/{chain}/cosigned",
            "read",
            ALL,
            "return a chain's newest checkpoint that witnesses cosigned, with their signatures",
            handler="show_cosigned",
            media=TEXT,
            errors=(404,),
        ),
        *(
            Route(
                "GET",
                f"/tlog/{{chain}}/tile/{{level}}/{path}",
                "read",
                ALL,
                "return a tile of a chain's tree (C2SP tlog-tiles)",
                handler="show_tile",
                media=BYTES,
                errors=(404,),
            )
            for path in _TILE_PATHS
        ),
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
