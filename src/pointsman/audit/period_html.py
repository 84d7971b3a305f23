"""The report of a period as one HTML page that can be printed: no scripts, no network."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pointsman.audit.period_report import PeriodReport, ReportNumber, WitnessGap
from pointsman.audit.witnessed import TOLD, ShownProof
from pointsman.version import VERSION

_STYLE = """
@page { size: A4; margin: 18mm 16mm }
body { font: 10.5pt/1.45 system-ui, sans-serif; color: #1b1f24; max-width: 178mm; margin: 8mm auto }
h1 { font-size: 19pt; margin: 0 0 2mm } h2 { font-size: 13pt; margin: 8mm 0 2mm }
table { border-collapse: collapse; width: 100%; table-layout: fixed }
th, td { text-align: left; vertical-align: top; padding: 1.6mm 2mm;
  border-bottom: .2mm solid #d5dae0; overflow-wrap: anywhere }
th { font-weight: 600 } td.n, th.n { text-align: right; width: 24mm;
  font-variant-numeric: tabular-nums }
tr { break-inside: avoid } h2 { break-after: avoid }
code { font: 8pt/1.35 ui-monospace, monospace; color: #57606a; display: block; margin-top: .8mm }
.group { color: #57606a } .good { color: #14632f } .bad { color: #a3180f; font-weight: 600 }
dl { display: grid; grid-template-columns: 34mm 1fr; gap: 1mm 3mm; margin: 3mm 0 }
dt { color: #57606a } dd { margin: 0; overflow-wrap: anywhere }
footer { margin-top: 8mm; color: #57606a; font-size: 9pt }
"""


def period_html(report: PeriodReport) -> str:
    """Write the page."""
    return "".join(_parts(report))


def _parts(report: PeriodReport) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield "<title>Record of a period</title>"
    yield f"<style>{_STYLE}</style></head><body>\n<h1>Record of a period</h1>\n"
    yield from _head(report)
    for section in report.sections:
        yield f"<h2>{escape(section.title)}</h2>\n<table>"
        for number in section.numbers:
            yield from _rows(number)
        yield "</table>\n"
    yield from _gaps(report.gaps)
    yield from _proofs(report.proofs)
    yield (
        f"<footer>Made {escape(report.made_at)} by Pointsman {escape(VERSION)}. Each number is"
        " followed by the command that gives it again from the same ledger. The report says what"
        " was recorded, not that it satisfies any law or standard.</footer></body></html>\n"
    )


def _head(report: PeriodReport) -> Iterator[str]:
    state = '<span class="good">intact</span>'
    if not report.intact:
        state = f'<span class="bad">NOT INTACT: {escape(report.fault)}</span>'
    whole = f"{report.entries:,} entries, {state}<code>pointsman verify --json</code>"
    rows = [
        ("Period", f"{escape(report.start)} up to {escape(report.end)}"),
        ("Tenant", "all" if report.tenant is None else escape(report.tenant)),
        ("Ledger", escape(report.ledger)),
        ("Signed by", escape(report.key)),
        ("Whole ledger", whole),
    ]
    yield "<dl>" + "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in rows) + "</dl>\n"


def _rows(number: ReportNumber) -> Iterator[str]:
    yield (
        f"<tr><td>{escape(number.title)}<code>{escape(number.command)}</code></td>"
        f'<td class="n">{number.value:,}</td></tr>'
    )
    for name, value in number.groups.items():
        yield (
            f'<tr class="group"><td>&emsp;{escape(name) or "(none)"}</td>'
            f'<td class="n">{value:,}</td></tr>'
        )


def _gaps(gaps: tuple[WitnessGap, ...]) -> Iterator[str]:
    if not gaps:
        return
    yield "<h2>Gaps in witnessing</h2>\n<table><tr><th>witness</th><th>from</th><th>to</th>"
    yield "<th>cause</th></tr>"
    for gap in gaps:
        until = "not back" if gap.until is None else f"{gap.until[:19]}Z"
        cells = (gap.witness, f"{gap.since[:19]}Z", until, gap.cause)
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table>\n"


def _proofs(proofs: tuple[ShownProof, ...]) -> Iterator[str]:
    yield "<h2>Proven, and against whom</h2>\n<table><tr><th>chain</th><th>entries</th>"
    yield "<th>proven</th></tr>"
    for each in proofs:
        for part in each.ranges:
            cells = (each.chain, f"{part.first} to {part.end - 1}", TOLD[part.against])
            yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table>\n"
