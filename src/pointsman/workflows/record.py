"""The ledger entries of a run, and the record they form when they are read back.

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


class RunStarted(Struct, frozen=True, forbid_unknown_fields=True):
    """A run began: its workflow and file. The file's text and the inputs are attached."""

    workflow: str
    definition_id: str


class StageStarted(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage began; `evaluation_id` is the decision that chose it, empty where none did."""

    step: int
    stage_id: str
    attempt: int
    evaluation_id: str


class StageEnded(Struct, frozen=True, forbid_unknown_fields=True):
    """A stage ended; its output and the names it set are attached where it is done."""

    step: int
    stage_id: str
    attempt: int
    status: StageStatus
    message: str


class RunEnded(Struct, frozen=True, forbid_unknown_fields=True):
    """A run ended for good."""

    status: RunStatus
    steps: int


class StageOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """The output of a stage, and the names of the context it set."""

    output: Raw
    set: Raw


class Materialized(Struct, frozen=True, forbid_unknown_fields=True):
    """An asset came into being."""

    asset_id: str
    step: int
    values: Raw


STARTED_FORM = Form(RunStarted)
STAGE_STARTED_FORM = Form(StageStarted)
STAGE_ENDED_FORM = Form(StageEnded)
ENDED_FORM = Form(RunEnded)
STAGE_OUTPUT_FORM = Form(StageOutput)
MATERIALIZED_FORM = Form(Materialized)


class StageDecision(Struct, frozen=True):
    """A decision that was made after a step."""

    evaluation_id: str
    outcome: BranchOutcome


class FinishedStage(Struct, frozen=True):
    """A step that need not be done again."""

    stage_id: str
    status: StageStatus
    output: Value
    set: dict[str, Value]


class RunRecord:
    """The record of one run, by step."""

    def __init__(self, ledger: LedgerReader | None, run_id: str) -> None:
        self.started: RunStarted | None = None
        self.inputs: dict[str, Value] = {}
        self.ended: RunEnded | None = None
        self.attempts: dict[int, int] = {}
        self.finished: dict[int, FinishedStage] = {}
        self.failed: dict[int, StageEnded] = {}
        self.decided: dict[int, list[StageDecision]] = {}
        """By step, in their order: a choice that waits for approval is decided more than once."""
        if ledger is not None:
            self._read(ledger, ledger.with_ref(run_id))

    def _read(self, ledger: LedgerReader, entries: Iterable[Stored]) -> None:
        for each in entries:
            payload, attached = each.entry.payload, ledger.attachments(each)
            match each.entry.kind:
                case "workflow.started":
                    self.started = STARTED_FORM.decode(payload)
                    self.inputs = read_mapping(attached[1])
                case "workflow.stage_started":
                    begun = STAGE_STARTED_FORM.decode(payload)
                    self.attempts[begun.step] = begun.attempt
                case "workflow.stage_ended":
                    self._add_stage_end(STAGE_ENDED_FORM.decode(payload), attached)
                case "workflow.ended":
                    self.ended = ENDED_FORM.decode(payload)
                case kind if kind.startswith(DECISION):
                    self._add_decision(each, attached)

    def _add_stage_end(self, ended: StageEnded, attached: list[bytes]) -> None:
        if not attached:
            self.failed[ended.step] = ended
            return
        given = STAGE_OUTPUT_FORM.decode(attached[0])
        self.finished[ended.step] = FinishedStage(
            ended.stage_id,
            ended.status,
            read_value(given.output),
            read_mapping(bytes(given.set)),
        )

    def _add_decision(self, stored: Stored, attached: list[bytes]) -> None:
        if len(attached) < 2:
            return
        about = ABOUT_FORM.decode(attached[1])
        _, record, _ = read_recorded(stored.entry.payload)
        if about.step:
            outcome = OUTCOME_FORM.decode(bytes(record.outcome))
            decided = self.decided.setdefault(about.step, [])
            decided.append(StageDecision(stored.entry.id, outcome))


def read_value(canonical: bytes | Raw) -> Value:
    """Read a recorded value."""
    return untag(msgspec.json.decode(canonical))


def read_mapping(canonical: bytes) -> dict[str, Value]:
    """Read a recorded mapping."""
    found = read_value(canonical)
    if not isinstance(found, dict):
        raise IntegrityFailure("what is recorded of a run is not what was written")
    return found


def started_draft(
    names: Names, started: RunStarted, text: bytes, inputs: dict[str, Value]
) -> Draft:
    """Make the first entry of a run."""
    attached = (text, canonical_json(inputs))
    return Draft(STARTED, names.id, names.ref, names.at, STARTED_FORM.encode(started), attached)


def ended_draft(names: Names, ended: StageEnded, output: Value, set_: dict[str, Value]) -> Draft:
    """Make the entry of a stage that need not be done again."""
    given = StageOutput(Raw(canonical_json(output)), Raw(canonical_json(set_)))
    payload = STAGE_ENDED_FORM.encode(ended)
    attached = (STAGE_OUTPUT_FORM.encode(given),)
    return Draft(STAGE_ENDED, names.id, names.ref, names.at, payload, attached)
