"""What left this machine as a value, for the command line and the HTTP API."""

from __future__ import annotations

import msgspec

from pointsman.audit.egress import Egress, EgressReport
from pointsman.kernel.instant import instant_text


def egress_value(report: EgressReport) -> dict[str, object]:
    """Give a report as JSON shows it."""
    fault = report.ledger.fault
    return {
        "since": instant_text(report.since),
        "turns": report.turns,
        "previews": report.previews,
        "left": report.left,
        "departures": report.departures,
        "rows": [_row_value(each) for each in report.rows],
        "violations": [_row_value(each) for each in report.violations],
        "proved": report.is_proved,
        "unreadable": report.unreadable,
        "ledger_entries": report.ledger.entries,
        "fault": None if fault is None else {"code": fault.code, "message": fault.message},
    }


def _row_value(row: Egress) -> dict[str, object]:
    return {**msgspec.structs.asdict(row), "at": instant_text(row.at)}
