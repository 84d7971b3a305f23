"""What a run leaves in the ledger, and what it amounts to when it is read back.

Every entry of a run has the run's id as its `ref`. A step is one visit to one stage; steps count
from 1 in the order they are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from pointsman.branches.trace import OUTCOME_FORM, BranchOutcome
from pointsman.errors import IntegrityFailure
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import Form, canonical_json, untag
from pointsman.kernel.entry import Draft
from pointsman.kernel.record import DECISION, Names, read_recorded
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.workflows.branching import ABOUT_FORM

STARTED = "workflow.started"
STAGE_STARTED = "workflow.stage_started"
STAGE_ENDED = "workflow.stage_ended"
ENDED = "workflow.ended"
MATERIALIZED = "event.asset.materialized"

StageStatus = Literal["done", "failed"]
RunStatus = Literal["done", "failed", "blocked", "waiting"]


class Started(Struct, frozen=True, forbid_unknown_fields=True):
    """A run began: of which workflow, by which file. The file and the inputs are attached."""

    workflow: str
    definition_id: str


class StageStarted(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage began; `evaluation_id` is the decision that chose it, empty where none did."""

    step: int
    stage_id: str
    attempt: int
    evaluation_id: str


class StageEnded(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage ended; `output` and what it set are attached where it is done."""

    step: int
    stage_id: str
    attempt: int
    status: StageStatus
    message: str


class RunEnded(Struct, frozen=True, forbid_unknown_fields=True):
    """A run ended for good."""

    status: RunStatus
    steps: int


class Given(Struct, frozen=True, forbid_unknown_fields=True):
    """What a stage gave: its output, and the names of the context it set."""

    output: Raw
    set: Raw


class Materialized(Struct, frozen=True, forbid_unknown_fields=True):
    """An asset came into being."""

    asset_id: str
    step: int
    values: Raw


STARTED_FORM = Form(Started)
STAGE_STARTED_FORM = Form(StageStarted)
STAGE_ENDED_FORM = Form(StageEnded)
ENDED_FORM = Form(RunEnded)
GIVEN_FORM = Form(Given)
MATERIALIZED_FORM = Form(Materialized)


class Decided(Struct, frozen=True):
    """A decision that was made after a step."""

    evaluation_id: str
    outcome: BranchOutcome


class Finished(Struct, frozen=True):
    """A step that need not be done again."""

    stage_id: str
    status: StageStatus
    output: Value
    set: dict[str, Value]


class RunRecord:
    """What is recorded of one run, by step."""

    def __init__(self, ledger: LedgerReader | None, run_id: str) -> None:
        self.started: Started | None = None
        self.inputs: dict[str, Value] = {}
        self.ended: RunEnded | None = None
        self.attempts: dict[int, int] = {}
        self.finished: dict[int, Finished] = {}
        self.failed: dict[int, StageEnded] = {}
        self.decided: dict[int, Decided] = {}
        if ledger is not None:
            self._read(ledger, ledger.with_ref(run_id))

    def _read(self, ledger: LedgerReader, entries: Iterable[Stored]) -> None:
        for each in entries:
            payload, attached = each.entry.payload, ledger.attachments(each)
            match each.entry.kind:
                case "workflow.started":
                    self.started = STARTED_FORM.decode(payload)
                    self.inputs = mapping(attached[1])
                case "workflow.stage_started":
                    begun = STAGE_STARTED_FORM.decode(payload)
                    self.attempts[begun.step] = begun.attempt
                case "workflow.stage_ended":
                    self._stage_ended(STAGE_ENDED_FORM.decode(payload), attached)
                case "workflow.ended":
                    self.ended = ENDED_FORM.decode(payload)
                case kind if kind.startswith(DECISION):
                    self._evaluated(each, attached)

    def _stage_ended(self, ended: StageEnded, attached: list[bytes]) -> None:
        if not attached:
            self.failed[ended.step] = ended
            return
        given = GIVEN_FORM.decode(attached[0])
        self.finished[ended.step] = Finished(
            ended.stage_id,
            ended.status,
            read_back(given.output),
            mapping(bytes(given.set)),
        )

    def _evaluated(self, stored: Stored, attached: list[bytes]) -> None:
        if len(attached) < 2:
            return
        about = ABOUT_FORM.decode(attached[1])
        _, record, _ = read_recorded(stored.entry.payload)
        if about.step:
            outcome = OUTCOME_FORM.decode(bytes(record.outcome))
            self.decided[about.step] = Decided(stored.entry.id, outcome)


def read_back(canonical: bytes | Raw) -> Value:
    """Read a recorded value."""
    return untag(msgspec.json.decode(canonical))


def mapping(canonical: bytes) -> dict[str, Value]:
    """Read a recorded mapping."""
    found = read_back(canonical)
    if not isinstance(found, dict):
        raise IntegrityFailure("what is recorded of a run is not what was written")
    return found


def started_draft(names: Names, started: Started, text: bytes, inputs: dict[str, Value]) -> Draft:
    """Make the first entry of a run."""
    attached = (text, canonical_json(inputs))
    return Draft(STARTED, names.id, names.ref, names.at, STARTED_FORM.encode(started), attached)


def ended_draft(names: Names, ended: StageEnded, output: Value, set_: dict[str, Value]) -> Draft:
    """Make the entry of a stage that need not be done again."""
    given = Given(Raw(canonical_json(output)), Raw(canonical_json(set_)))
    payload = STAGE_ENDED_FORM.encode(ended)
    attached = (GIVEN_FORM.encode(given),)
    return Draft(STAGE_ENDED, names.id, names.ref, names.at, payload, attached)
