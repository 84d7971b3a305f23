"""What left this machine, under which rule: read from the ledger, and only as good as the ledger.

A recorded turn that chose a model in the cloud counts as having left, whether or not the end of
its call is on record. A preview calls nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, Literal

from msgspec import Struct

from pointsman.errors import ReplayError
from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.record import OUTCOME, read_recorded
from pointsman.runs.audit.recorded_turns import TURN
from pointsman.runs.audit.verify import LedgerReport, verify_ledger
from pointsman.storage.home import Home
from pointsman.storage.sqlite.reading import LedgerReader, Stored
from pointsman.turns.facts import FACTS_FORM, TurnFacts
from pointsman.turns.policy import POLICY_FORM, TurnPolicy
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM

MOST_ROWS: Final = 10_000


class Egress(Struct, frozen=True):
    """One turn that left, or was about to: to whom, by which rule, past which placement."""

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

    @property
    def is_violation(self) -> bool:
        """Whether it should have stayed."""
        return self.gate in {"local", "closed"}


class EgressReport(Struct, frozen=True):
    """What left since an instant, and whether the ledger that says so is intact.

    `unreadable` counts turns of which nobody can tell any more whether they left.
    """

    since: Instant
    turns: int
    previews: int
    unreadable: int
    left: int
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
    """Tell what left since an instant; the whole ledger is verified first."""
    verified = verify_ledger(home, progress)
    with closing(LedgerReader(home.database)) as ledger:
        return _report(_Audit(ledger), since, verified)


def _report(audit: _Audit, since: Instant, verified: LedgerReport) -> EgressReport:
    turns = previews = unreadable = left = 0
    rows: list[Egress] = []
    violations: list[Egress] = []
    for stored in audit.turns(since):
        turns += 1
        try:
            is_preview, row = audit.turn(stored)
        except ReplayError:
            unreadable += 1
            continue
        previews += is_preview
        if row is None:
            continue
        left += 1
        if row.is_violation:
            violations.append(row)
        if len(rows) < MOST_ROWS:
            rows.append(row)
    return EgressReport(
        since, turns, previews, unreadable, left, tuple(rows), tuple(violations), verified
    )


class _Audit:
    """Looks through one ledger, reading each policy once."""

    def __init__(self, ledger: LedgerReader) -> None:
        self._ledger = ledger
        self._policies: dict[str, TurnPolicy] = {}

    def turns(self, since: Instant) -> Iterator[Stored]:
        """Give every recorded turn."""
        return self._ledger.of_kind(TURN, since)

    def turn(self, stored: Stored) -> tuple[bool, Egress | None]:
        """Tell whether a turn was a preview, and give its row if it left."""
        entry = stored.entry
        _, record, aside = read_recorded(entry.payload)
        outcome = OUTCOME_FORM.decode(bytes(record.outcome))
        if aside.is_preview or not outcome.chosen_model:
            return aside.is_preview, None
        model = self._policy(record.policy_id).models.get(outcome.chosen_model)
        # A model that its policy does not know counts as one in the cloud.
        if model is not None and model.location == "local":
            return False, None
        winner = TRACE_FORM.decode(bytes(record.trace)).chain[outcome.winner_index]
        facts = FACTS_FORM.decode(self._ledger.attachment(stored, record.facts_id))
        placed = facts.placement
        ends = [each for each in self._ledger.with_ref(entry.id) if each.entry.kind == OUTCOME]
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
            "ended" if ends else "not on record",
        )

    def _policy(self, name: str) -> TurnPolicy:
        found = self._policies.get(name)
        if found is None:
            found = POLICY_FORM.form.decode(self._ledger.snapshot(name).body)
            self._policies[name] = found
        return found


def _gate(facts: TurnFacts) -> str:
    if facts.privacy_level == "local":
        return "local"
    return "open" if facts.placement is None else facts.placement.gate


def _characters(facts: TurnFacts) -> int:
    message = facts.message
    return message.chars if isinstance(message, Sealed) else len(message)
