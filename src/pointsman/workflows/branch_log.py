"""The decision log: evaluations read back from the ledger. A view; the ledger holds all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from pointsman.branches.policy import POLICY_FORM, Decision
from pointsman.branches.trace import OUTCOME_FORM, TRACE_FORM, BranchOutcome, BranchTrace
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.record import DECISION, read_recorded
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.workflows.branching import ABOUT_FORM, CACHED, About

BRANCH = DECISION + "branch"

_NOTHING = About("", "", 0, "", 0, ())


class LogEntry(Struct, frozen=True):
    """One recorded evaluation."""

    id: str
    at: Instant
    seq: int
    is_cached: bool
    about: About
    decision: Decision
    outcome: BranchOutcome
    trace: BranchTrace

    @property
    def evaluated_at(self) -> Instant:
        """When the answer was decided: earlier than `at` where it came from the cache."""
        return Instant(self.about.evaluated_at) if self.is_cached else self.at


class Distribution(Struct, frozen=True):
    """How often each label of a decision was selected, in how many evaluations."""

    decision_id: str
    total: int
    labels: dict[str, int]


class BranchLog:
    """The evaluations of one ledger, in the order they happened."""

    def __init__(self, ledger: LedgerReader) -> None:
        self._ledger = ledger
        self._policies: dict[tuple[str, str], Decision] = {}

    def every(self, since: Instant = EPOCH) -> Iterator[LogEntry]:
        """Yield every evaluation from an instant on, that instant included (D-003-12)."""
        # DETERMINISM: ordered by instant, chain and place in the chain, never by text.
        return (self._entry(each) for each in self._ledger.of_kind(BRANCH, since))

    def about(self, workflow_id: str) -> Iterator[LogEntry]:
        """Yield the evaluations of one workflow."""
        found = self._ledger.with_ref(workflow_id)
        return (self._entry(each) for each in found if each.entry.kind.startswith(BRANCH))

    def query(
        self,
        decision_id: str | None = None,
        workflow_id: str | None = None,
        since: Instant = EPOCH,
    ) -> Iterator[LogEntry]:
        """Yield the evaluations the log shows; a decision may keep its own out of it."""
        for each in self.every(since):
            is_wanted = decision_id is None or each.outcome.decision_id == decision_id
            is_meant = workflow_id is None or each.about.workflow_id == workflow_id
            if is_wanted and is_meant and each.decision.logging.log_decision:
                yield each

    def distribution(self, decision_id: str) -> Distribution:
        """Count the labels of a decision, also where the log does not show it (D-003-18)."""
        labels: Counter[str] = Counter()
        total = 0
        for each in self.every():
            if each.outcome.decision_id == decision_id:
                total += 1
                labels.update(each.outcome.selected_labels)
        return Distribution(decision_id, total, dict(sorted(labels.items())))

    def _entry(self, stored: Stored) -> LogEntry:
        entry = stored.entry
        _, record, _ = read_recorded(entry.payload)
        outcome = OUTCOME_FORM.decode(bytes(record.outcome))
        _, *rest = self._ledger.attachments(stored) or [b""]
        about = ABOUT_FORM.decode(rest[0]) if rest else _NOTHING
        return LogEntry(
            entry.id,
            entry.at,
            entry.seq,
            entry.kind.endswith(f".{CACHED}"),
            about,
            self._decision(record.policy_id, outcome.decision_id),
            outcome,
            TRACE_FORM.decode(bytes(record.trace)),
        )

    def _decision(self, policy_id: str, decision_id: str) -> Decision:
        found = self._policies.get((policy_id, decision_id))
        if found is None:
            policy = POLICY_FORM.form.decode(self._ledger.snapshot(policy_id).body)
            found = next(each for each in policy.decisions if each.id == decision_id)
            self._policies[policy_id, decision_id] = found
        return found
