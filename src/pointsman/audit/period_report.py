"""The report of a period: decisions, departures, overrides, approvals, changes, faults, gaps.

Each number comes with the query behind it, as a command and as a route, which give it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from pointsman.audit.ledger_query import LedgerQuery, QueryResult, ReportPeriod, run_queries
from pointsman.audit.turn_shapes import InstantText
from pointsman.audit.verify import LedgerReport
from pointsman.audit.witness_entries import BACK, COSIGNED, LOST, REFUSED, STAMPED, TROUBLE_FORM
from pointsman.audit.witnessed import ShownProof, proofs_value
from pointsman.errors import InputError
from pointsman.kernel.instant import EPOCH, LATEST, Instant, instant_text
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader

MOST_GAPS: Final = 1000
_TURN: Final = "decision.turn"
_CALLED: Final = ("aside.is_preview=false",)
_CHOSE: Final = "decision.trace.chain[verdict=chose].policy"
_REJECTED: Final = "decision.trace.chain[verdict=rejected].policy"


class Question(Struct, frozen=True):
    """A number of the report: its name, its title, and the query.

    `is_own` where a tenant's share of it can be told: it counts decisions, or their calls.
    """

    name: str
    title: str
    query: LedgerQuery
    is_own: bool = False


def _own(name: str, title: str, kind: str, *where: str, by: str = "", total: str = "") -> Question:
    return Question(name, title, LedgerQuery(kind, where, by, total), is_own=True)


def _home(name: str, title: str, kind: str, by: str = "") -> Question:
    return Question(name, title, LedgerQuery(kind, by=by))


_MODEL: Final = "decision.outcome.chosen_model"
SECTIONS: Final[dict[str, tuple[Question, ...]]] = {
    "Decisions": (
        _own("turns", "turns decided, by model", _TURN, *_CALLED, by=_MODEL),
        _own("previews", "previews, which called no model", _TURN, "aside.is_preview=true"),
        _own("fallbacks", "another model took over, by model", "decision.turn.fallback", by=_MODEL),
        _own("placements", "placements decided, by gate", "decision.placement",
             by="decision.outcome.gate"),
        _own("agents", "agents chosen", "decision.agent"),
        _own("branches", "branches of workflows chosen", "decision.branch"),
    ),
    "What left this machine": (
        _own("cloud_calls", "calls to models in the cloud, by model", "outcome",
             "detail.location=cloud", "detail.attempts!=0", by="detail.model"),
        _own("local_calls", "calls to models here, by model", "outcome",
             "detail.location=local", "detail.attempts!=0", by="detail.model"),
        _own("kept_here", "placements that kept a turn here, by rule", "decision.placement",
             "decision.outcome.gate=local", by="decision.outcome.rule_id"),
        _own("privacy_vetoes", "turns with a model rejected for privacy", _TURN, *_CALLED,
             "decision.trace.chain.validation_failure=privacy_blocked"),
        _own("spent_microusd", "spent, in millionths of a dollar, by model", "outcome",
             by="detail.model", total="detail.spent.cost_microusd"),
    ),
    "Overrides": (
        _own("overrides", "turns whose model the user named, by model", _TURN, *_CALLED,
             f"{_CHOSE}=per_message_override", by=_MODEL),
        _own("sticky", "turns that a pin decided, by model", _TURN, *_CALLED,
             f"{_CHOSE}=manual_sticky", by=_MODEL),
        _own("overrides_refused", "overrides that were rejected, by cause", _TURN, *_CALLED,
             f"{_REJECTED}=per_message_override",
             by="decision.trace.chain[policy=per_message_override].validation_failure"),
        _home("pins", "sessions bound to a model", "event.session.pinned"),
        _home("taints_cleared", "sessions let go that had to stay here", "event.placement.cleared"),
    ),
    "Approvals": (
        _home("actions", "steps of actions that need approval, by kind", "event.action.*", "@kind"),
        _home("votes", "votes of the council", "event.council.vote"),
    ),
    "Policy and keys": (
        _home("snapshots", "new contents of policies and modules, by sort", "snapshot", "@ref"),
        _home("published", "publications", "event.policy.published"),
        _home("invalid", "policy files that could not be read", "event.routing.policy_invalid"),
        _home("refused_policies", "publications not followed", "event.policy.refused"),
        _home("rotations", "signing keys replaced", "key.rotated"),
        _home("erasures", "erasures of text", "event.content.erasure"),
    ),
    "Faults": (
        _own("failed_calls", "calls that failed, by cause", "outcome", "status=failed",
             by="detail.error_class"),
        _home("outages", "providers and models that went out, by provider",
              "event.routing.provider_unavailable", "@ref"),
        _own("absurd", "bills out of all proportion", "event.spend.absurd"),
    ),
    "Witnesses": (
        _home("cosigned", "checkpoints cosigned", COSIGNED),
        _home("stamped", "checkpoints stamped by an authority", STAMPED),
        _home("lost", "witnesses lost", LOST),
        _home("back", "witnesses back", BACK),
        _home("refused", "checkpoints that a witness refused", REFUSED),
    ),
}  # fmt: skip
"""The report's numbers, in their order."""


class ReportNumber(Struct, frozen=True):
    """One number, with what gives it again: `value` is the value of `command` and of `route`."""

    name: str
    title: str
    value: int
    groups: dict[str, int]
    command: str
    route: str


class ReportSection(Struct, frozen=True):
    """Numbers about one matter."""

    title: str
    numbers: tuple[ReportNumber, ...]


class WitnessGap(Struct, frozen=True):
    """A time in which a witness was lost; open where it was not back by the end."""

    witness: str
    since: InstantText
    until: InstantText | None
    cause: str


class PeriodReport(Struct, frozen=True):
    """The report of a period. `entries`, `intact`, `fault` and `proofs` are those of `verify`."""

    ledger: str
    key: str
    start: InstantText
    end: InstantText
    tenant: str | None
    made_at: InstantText
    entries: int
    intact: bool
    fault: str
    proofs: tuple[ShownProof, ...]
    sections: tuple[ReportSection, ...]
    gaps: tuple[WitnessGap, ...]


def period_report(
    home: Home, period: ReportPeriod, verified: LedgerReport, now: Instant
) -> PeriodReport:
    """Report a period of a ledger that was verified."""
    if period.start >= period.end:
        raise InputError("the period ends before it begins", hint="--from T --to LATER")
    asked = [
        (title, question)
        for title, questions in SECTIONS.items()
        for question in questions
        if period.tenant is None or question.is_own
    ]
    reader = home.reader()
    try:
        results = run_queries(home, reader, [each.query for _, each in asked], period)
        gaps = tuple(_gaps(reader, period))
    finally:
        reader.close()
    sections: dict[str, list[ReportNumber]] = {}
    for (title, question), result in zip(asked, results, strict=True):
        sections.setdefault(title, []).append(_number(question, result, period))
    fault = verified.fault
    return PeriodReport(
        ledger=home.identity.ledger,
        key=home.keys[-1].id,
        start=instant_text(period.start),
        end=instant_text(period.end),
        tenant=period.tenant,
        made_at=instant_text(now),
        entries=verified.entries,
        intact=verified.is_intact,
        fault="" if fault is None else f"{fault.chain}/{fault.seq}: {fault.code}: {fault.message}",
        proofs=proofs_value(verified.proofs),
        sections=tuple(ReportSection(title, tuple(rows)) for title, rows in sections.items()),
        gaps=gaps,
    )


def _number(question: Question, result: QueryResult, period: ReportPeriod) -> ReportNumber:
    query = question.query
    pairs = [("kind", query.kind), *(("where", each) for each in query.where)]
    pairs += [(name, value) for name, value in (("by", query.by), ("sum", query.total)) if value]
    if period.start != EPOCH:
        pairs.append(("from", instant_text(period.start)))
    if period.end != LATEST:
        pairs.append(("to", instant_text(period.end)))
    if period.tenant is not None:
        pairs.append(("tenant", period.tenant))
    options = " ".join(f"--{name} {shlex.quote(value)}" for name, value in pairs)
    told = "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs)
    return ReportNumber(
        question.name,
        question.title,
        result.value,
        result.groups,
        f"pointsman audit count {options} --json",
        f"GET /api/audit/count?{told}",
    )


def _gaps(reader: LedgerReader, period: ReportPeriod) -> Iterator[WitnessGap]:
    """Return the losses that touch a period, each up to the return that ended it."""
    open_since: dict[str, tuple[Instant, str]] = {}
    count = 0
    for kind, trouble, at in _witness_events(reader, period.end):
        if kind == LOST:
            since = Instant(trouble[1])
            open_since.setdefault(trouble[0], (since, trouble[2]))
        elif trouble[0] in open_since and count < MOST_GAPS:
            since, cause = open_since.pop(trouble[0])
            if at >= period.start:
                count += 1
                yield WitnessGap(trouble[0], instant_text(since), instant_text(at), cause)
    for witness, (since, cause) in sorted(open_since.items()):
        yield WitnessGap(witness, instant_text(since), None, cause)


def _witness_events(
    reader: LedgerReader, end: Instant
) -> Iterator[tuple[str, tuple[str, int, str], Instant]]:
    stored = [each.entry for kind in (LOST, BACK) for each in reader.of_kind(kind)]
    for entry in sorted(stored, key=lambda each: each.at):
        if entry.at < end:
            found = TROUBLE_FORM.decode(entry.payload)
            cause = f"{found.code}: {found.message}"
            yield entry.kind, (found.witness, found.since_us, cause), entry.at
