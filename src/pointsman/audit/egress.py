"""Turns that left this machine, by which rule: read from the ledger, and only as good as it.

A decision that chose a model in the cloud counts as a departure, whether or not the end of its call
is on record; each further call under it is one more. A preview calls no model, and a call that was
refused before it was sent did not leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct

from pointsman.audit.proof_of_progress import read_progress
from pointsman.audit.recorded_turns import TURN, order_of
from pointsman.audit.turn_story import PLACEMENT, read_calls, read_placement
from pointsman.audit.verify import LedgerReport, verify_ledger
from pointsman.errors import ReplayError
from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import EPOCH, Instant, instant_text
from pointsman.kernel.record import read_recorded
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.turns.facts import FACTS_FORM, TurnFacts
from pointsman.turns.policy import POLICY_FORM, TurnPolicy
from pointsman.turns.registry.models import lies_within
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.version import VERSION

MOST_ROWS: Final = 10_000


class Egress(Struct, frozen=True):
    """One decision under which a turn left, or was about to: to which model, by which rule.

    `calls` are its departures. `is_advice` marks a placement rule that let nothing leave: the table
    only said where it would have gone.
    """

    at: Instant
    turn_id: str
    decision_id: str
    session_id: str
    model: str
    slot: str
    rule: str
    placement_rule: str
    gate: str
    characters: int
    tokens: int
    call: Literal["ended", "not on record"]
    calls: int = 1
    is_advice: bool = False

    is_outside: bool = False
    """Whether the model lies outside of the zones that the turn had to stay within."""

    @property
    def is_violation(self) -> bool:
        """Whether it should have stayed, or left for a model outside of its zones."""
        return self.is_outside or self.gate in {"local", "closed"}


class EgressReport(Struct, frozen=True):
    """The turns that left since an instant, and whether the ledger that says so is intact.

    `left` counts the turns that left, `departures` the calls that took them. `unreadable` counts
    decisions of which it can no longer be told whether their turns left.
    """

    since: Instant
    turns: int
    previews: int
    unreadable: int
    left: int
    departures: int
    rows: tuple[Egress, ...]
    violations: tuple[Egress, ...]
    ledger: LedgerReport

    @property
    def is_clean(self) -> bool:
        """Whether the ledger is intact and nothing left that had to stay."""
        return self.is_proved and not self.violations

    @property
    def is_proved(self) -> bool:
        """Whether the ledger is intact, and tells about every turn."""
        return self.ledger.is_intact and not self.unreadable


def egress(
    home: Home, since: Instant = EPOCH, progress: Callable[[int], None] | None = None
) -> EgressReport:
    """Report the turns that left since an instant; the ledger is verified first.

    Where it was proved before, up to a checkpoint, only later entries are read.
    """
    proved = read_progress(home, "verified", VERSION)
    verified = verify_ledger(
        home, progress, proved=proved.checkpoints, is_continued=bool(proved.checkpoints)
    )
    with closing(home.reader()) as ledger:
        return _report(_Audit(ledger), since, verified)


def egress_value(report: EgressReport) -> dict[str, object]:
    """Return a report as JSON shows it."""
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


def _report(audit: _Audit, since: Instant, verified: LedgerReport) -> EgressReport:
    turns = previews = unreadable = left = departures = 0
    rows: list[Egress] = []
    violations: list[Egress] = []
    for stored in audit.decisions(since):
        earlier = audit.earlier_decisions(stored, since)
        turns += not earlier
        try:
            is_preview, row = audit.look_at(stored)
        except ReplayError:
            unreadable += 1
            continue
        previews += is_preview
        if row is None:
            continue
        left += not any(map(audit.has_left, earlier))
        departures += row.calls
        if row.is_violation:
            violations.append(row)
        if len(rows) < MOST_ROWS:
            rows.append(row)
    counts = (turns, previews, unreadable, left, departures)
    return EgressReport(since, *counts, tuple(rows), tuple(violations), verified)


class _Audit:
    """Looks through one ledger, reading each policy once."""

    def __init__(self, ledger: LedgerReader) -> None:
        self._ledger = ledger
        self._policies: dict[str, TurnPolicy] = {}

    def decisions(self, since: Instant) -> Iterator[Stored]:
        """Return every decision about a turn: its first, fallbacks, shadow runs, judges."""
        return self._ledger.of_kind(TURN, since)

    def earlier_decisions(self, stored: Stored, since: Instant) -> list[Stored]:
        """Return the decisions about the same turn that were counted before this one.

        They are looked up, not remembered: a ledger may hold millions of turns.
        """
        if stored.entry.kind == TURN:
            return []
        return [
            each
            for each in self._ledger.with_ref(stored.entry.ref)
            if each.entry.kind.startswith(TURN)
            and each.entry.at >= since
            and order_of(each) < order_of(stored)
        ]

    def has_left(self, stored: Stored) -> bool:
        """Tell whether a turn left under a decision, as far as it can be read."""
        try:
            return self.look_at(stored)[1] is not None
        except ReplayError:
            return False

    def look_at(self, stored: Stored) -> tuple[bool, Egress | None]:
        """Tell whether a decision was a preview, and return its row if the turn left under it."""
        entry = stored.entry
        _, record, aside = read_recorded(entry.payload)
        outcome = OUTCOME_FORM.decode(bytes(record.outcome))
        if aside.is_preview or not outcome.chosen_model:
            return aside.is_preview, None
        model = self._policy(record.policy_id).models.get(outcome.chosen_model)
        # A model that its policy does not know counts as one in the cloud.
        if model is not None and model.location == "local":
            return False, None
        calls = [*read_calls(self._ledger, stored, "turn")]
        sent = [call for call in calls if call.outcome != "refused"]
        if calls and not sent:
            return False, None
        winner = TRACE_FORM.decode(bytes(record.trace)).chain[outcome.winner_index]
        facts = FACTS_FORM.decode(self._ledger.attachment(stored, record.facts_id))
        placed, zones = facts.placement, _zones(facts)
        return False, Egress(
            entry.at,
            entry.ref,
            entry.id,
            aside.session_id,
            outcome.chosen_model,
            winner.policy,
            winner.rule_name or "",
            "" if placed is None else placed.rule_id,
            _gate(facts),
            _characters(facts),
            facts.tokens_for(outcome.chosen_model),
            "ended" if sent else "not on record",
            max(1, len(sent)),
            self._is_advice(stored, facts),
            bool(zones) and (model is None or not lies_within(model, zones)),
        )

    def _is_advice(self, stored: Stored, facts: TurnFacts) -> bool:
        """Tell whether a turn was placed by the table of `auto`, which leaves everything open.

        A placement without an entry of its own was made by the table alone (ADR 0011).
        """
        if facts.placement is None or _gate(facts) != "open" or facts.privacy_level != "auto":
            return False
        about = self._ledger.with_ref(stored.entry.ref)
        placed = [each for each in about if each.entry.kind == PLACEMENT]
        before = [each for each in placed if order_of(each) < order_of(stored)]
        return not before or read_placement(before[-1])[1].terminated_at == "autoModeLogic"

    def _policy(self, name: str) -> TurnPolicy:
        found = self._policies.get(name)
        if found is None:
            found = POLICY_FORM.form.decode(self._ledger.snapshot(name).body)
            self._policies[name] = found
        return found


def _zones(facts: TurnFacts) -> tuple[str, ...]:
    placed = facts.placement
    return () if placed is None or placed.zones is UNSET else placed.zones


def _gate(facts: TurnFacts) -> str:
    if facts.privacy_level == "local":
        return "local"
    return "open" if facts.placement is None else facts.placement.gate


def _characters(facts: TurnFacts) -> int:
    message = facts.message
    return message.chars if isinstance(message, Sealed) else len(message)
