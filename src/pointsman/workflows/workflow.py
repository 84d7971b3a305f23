"""Runs a workflow: stages joined by decisions, every step recorded before the next begins.

An interrupted run continues where its record ends: recorded decisions and outputs of stages are
recalled. A stage that had begun and not ended is begun again, so its action must be idempotent; it
is told its run and step for that.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.branches.facts import read_facts
from pointsman.branches.trace import BranchOutcome
from pointsman.errors import ChainHeld, DocumentError, InputError
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import canonical_json, content_id
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource
from pointsman.kernel.record import Names
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.storage.home import Home
from pointsman.storage.policies.decision_files import WORKFLOWS
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.storage.policies.workflow_file import Stage, Workflow, check_targets, read_workflow
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import HeldLease
from pointsman.workflows.actions import ActionResult, ActionRunner, check_allowed
from pointsman.workflows.branching import Branching, EvaluationRequest
from pointsman.workflows.record import (
    ENDED,
    ENDED_FORM,
    MATERIALIZED,
    MATERIALIZED_FORM,
    STAGE_ENDED,
    STAGE_ENDED_FORM,
    STAGE_STARTED,
    STAGE_STARTED_FORM,
    FinishedStage,
    Materialized,
    RunEnded,
    RunRecord,
    RunStarted,
    RunStatus,
    StageDecision,
    StageEnded,
    StageStarted,
    ended_draft,
    started_draft,
)
from pointsman.workflows.templates import fill

MOST_NESTED = 12


class RunStep(Struct, frozen=True):
    """One visit to one stage, as it is reported; `targets` are the stages it led to."""

    number: int
    stage_id: str
    status: str
    message: str = ""
    is_recalled: bool = False
    evaluation_id: str = ""
    labels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


class RunReport(Struct, frozen=True):
    """The result of a run. `waiting_for` are targets that need approval first."""

    run_id: str
    workflow: str
    status: RunStatus
    is_resumed: bool
    steps: tuple[RunStep, ...]
    context: dict[str, Value]
    waiting_for: tuple[str, ...] = ()


class WorkflowText(Struct, frozen=True):
    """The text of a workflow file, and the folder its actions run in."""

    text: bytes
    source: str
    folder: Path


class RunLog(Struct, frozen=True):
    """Appends the entries of one run, as long as this process holds its lease."""

    decision_recorder: DecisionRecorder
    lease: HeldLease
    run_id: str
    clock: Clock
    ids: IdSource

    def append(self, kind: str, payload: bytes) -> None:
        """Record a payload about the run; it is durable when this returns."""
        names = self.names()
        self.append_draft(Draft(kind, names.id, names.ref, names.at, payload))

    def append_draft(self, draft: Draft) -> None:
        """Record an entry of the run; it is durable when this returns."""
        self.decision_recorder.recorder().record_under(self.lease, draft)

    def names(self) -> Names:
        """Make the names of an entry about the run."""
        return Names(self.ids.new_id(), self.run_id, self.clock.now())


class WorkflowRunner:
    """Runs workflows of one home."""

    def __init__(
        self,
        home: Home,
        decision_recorder: DecisionRecorder,
        branching: Branching,
        sources: tuple[Clock, IdSource],
    ) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._branching = branching
        self._clock, self._ids = sources

    def run(
        self,
        given: WorkflowText,
        settings: WorkflowSettings,
        run_id: str = "",
        inputs: Mapping[str, Value] | None = None,
        approved: tuple[str, ...] = (),
    ) -> RunReport:
        """Run a workflow, or resume a run; one process at a time holds a run."""
        workflow = read_workflow(given.text, given.source)
        in_force = self._branching.in_force()
        others = [each.id for each in in_force.workflows]
        check_targets(given.text, given.source, in_force.decisions, others)
        for stage in workflow.stages:
            if stage.run is not None:
                check_allowed(stage.run, settings)
        name = run_id or self._ids.new_id()
        lease = _lease(self._home, name)
        try:
            record = self._record(name)
            log = RunLog(self._decision_recorder, lease, name, self._clock, self._ids)
            self._begin(log, record, given, workflow, inputs)
            acting = ActionRunner(settings, given.folder, {})
            return _Run(self, log, workflow, record, acting, approved).run()
        finally:
            lease.release()

    def find_workflow(self, name: str) -> WorkflowText | None:
        """Find a workflow of the home by its id."""
        for path in sorted((self._home.path / WORKFLOWS).glob("*.y*ml")):
            with suppress(DocumentError, OSError):
                text = path.read_bytes()
                if read_workflow(text, str(path)).id == name:
                    return WorkflowText(text, str(path), path.parent)
        return None

    def decide(
        self, decision_id: str, context: Mapping[str, Value], request: EvaluationRequest
    ) -> tuple[str, BranchOutcome]:
        """Evaluate a decision for a run."""
        made = self._branching.evaluate(decision_id, context, request)
        return made.evaluation_id, made.outcome

    def has_changed(self, decided: StageDecision, approved: Sequence[str]) -> bool:
        """Tell whether a decision that waits for approval may have it by now."""
        waits_for = set(decided.outcome.approval_required)
        return waits_for <= set(approved) or self._branching.has_changed(decided.evaluation_id)

    def _record(self, run_id: str) -> RunRecord:
        if not self._home.database.exists():
            return RunRecord(None, run_id)
        with closing(LedgerReader(self._home.database)) as ledger:
            return RunRecord(ledger, run_id)

    def _begin(
        self,
        log: RunLog,
        record: RunRecord,
        given: WorkflowText,
        workflow: Workflow,
        inputs: Mapping[str, Value] | None,
    ) -> None:
        """Record the start of a run, or check that file and inputs are those it began with."""
        definition_id = content_id(given.text)
        if record.started is None:
            record.inputs = dict(read_facts("", inputs or {}).context)
            started = RunStarted(workflow.id, definition_id)
            log.append_draft(started_draft(log.names(), started, given.text, record.inputs))
            return
        hint = "give another --id to begin another run"
        if record.started.definition_id != definition_id:
            message = f"the file is not the one that the run `{log.run_id}` began with"
            raise InputError(message, where=given.source, hint=hint)
        if inputs is not None and canonical_json(dict(inputs)) != canonical_json(record.inputs):
            raise InputError(f"the run `{log.run_id}` began with other inputs", hint=hint)


class _Run:
    """One run: the same course whether a step is done now or recalled."""

    def __init__(
        self,
        runner: WorkflowRunner,
        log: RunLog,
        workflow: Workflow,
        record: RunRecord,
        acting: ActionRunner,
        approved: tuple[str, ...],
    ) -> None:
        self._runner = runner
        self._log = log
        self._workflow = workflow
        self._id = log.run_id
        self._record = record
        self._acting = acting
        self._approved = approved
        self._is_resumed = bool(record.attempts or record.finished or record.decided)
        self._is_blocked = False
        self._steps: list[RunStep] = []
        self._stages: dict[str, Value] = {}
        self._set: dict[str, Value] = {}

    @property
    def context(self) -> dict[str, Value]:
        """The context of decisions and actions: inputs, names set by stages, results of stages."""
        about: dict[str, Value] = {"id": self._id, "workflow": self._workflow.id}
        own: dict[str, Value] = {"inputs": self._record.inputs, "stages": self._stages}
        return {**self._record.inputs, **self._set, **own, "run": about}

    def run(self) -> RunReport:
        """Take step after step until all paths end, or one must stop."""
        waiting: deque[tuple[str, str]] = deque([(self._workflow.first, "")])
        held: deque[tuple[Stage, int]] = deque()
        while waiting or held:
            if waiting:
                if (ended := self._take_step(waiting, held)) is not None:
                    return ended
                continue
            # The ways round a held choice have ended: it goes on once it is approved.
            outcome = self._decide(*held[0], is_again=True)
            if outcome.approval_required:
                return self._report("waiting", outcome.approval_required)
            waiting += self._follow(outcome, held.popleft()[1])
        return self._end("blocked" if self._is_blocked else "done")

    def _take_step(
        self, waiting: deque[tuple[str, str]], held: deque[tuple[Stage, int]]
    ) -> RunReport | None:
        """Run the next stage or workflow and queue its successors; a report where the run stops."""
        target, chosen_by = waiting.popleft()
        number = len(self._steps) + 1
        if number > self._workflow.max_steps:
            return self._end("failed", f"more than {self._workflow.max_steps} steps")
        stage = self._workflow.stage(target)
        if stage is None:
            inner = self._run_nested(target, number)
            return None if inner.status == "done" else self._report(inner.status, inner.waiting_for)
        if not self._run_stage(stage, number, chosen_by).is_done:
            return self._report("failed")
        if stage.decision is None:
            waiting += [(stage.next, "")] if stage.next is not None else []
            return None
        outcome = self._decide(stage, number)
        if outcome.approval_required:
            if not outcome.selected_targets:
                return self._report("waiting", outcome.approval_required)
            held.append((stage, number))
        waiting += self._follow(outcome, number)
        return None

    def _follow(self, outcome: BranchOutcome, number: int) -> list[tuple[str, str]]:
        """Return the stages that a decision leads to, each with the evaluation that chose it."""
        self._is_blocked = self._is_blocked or not outcome.selected_targets
        by = self._steps[number - 1].evaluation_id
        return [(target, by) for target in outcome.selected_targets]

    def _run_nested(self, name: str, number: int) -> RunReport:
        """Run another workflow as one step; its own record says how far it has come."""
        given = self._runner.find_workflow(name)
        run_id = f"{self._id}.{number}"
        if given is None or run_id.count(".") > MOST_NESTED:
            why = "there is no such workflow" if given is None else "nested too deep"
            self._steps.append(RunStep(number, name, "failed", why))
            return self._report("failed")
        inputs = {**self._record.inputs, **self._set}
        settings = self._acting.settings
        report = self._runner.run(given, settings, run_id, inputs, self._approved)
        self._steps.append(RunStep(number, name, report.status, f"run {run_id} {report.status}"))
        self._stages[name] = {"status": report.status, "output": report.context}
        return report

    def _run_stage(self, stage: Stage, number: int, chosen_by: str) -> ActionResult:
        """Run a stage, or recall its recorded result."""
        recalled = self._record.finished.get(number)
        if recalled is not None:
            self._add_result(stage.id, recalled)
            self._steps.append(RunStep(number, stage.id, recalled.status, is_recalled=True))
            return ActionResult(is_done=True, output=recalled.output)
        attempt = self._record.attempts.get(number, 0) + 1
        started = StageStarted(number, stage.id, attempt, chosen_by)
        self._log.append(STAGE_STARTED, STAGE_STARTED_FORM.encode(started))
        done, finished = self._perform(stage, number, attempt)
        status = finished.status if finished is not None else "failed"
        self._steps.append(RunStep(number, stage.id, status, done.message))
        ended = StageEnded(number, stage.id, attempt, status, done.message)
        if finished is None:
            self._log.append(STAGE_ENDED, STAGE_ENDED_FORM.encode(ended))
            return done
        self._add_result(stage.id, finished)
        self._materialize(stage, number)
        self._log.append_draft(ended_draft(self._log.names(), ended, finished.output, finished.set))
        return ActionResult(is_done=True, output=finished.output)

    def _perform(
        self, stage: Stage, number: int, attempt: int
    ) -> tuple[ActionResult, FinishedStage | None]:
        """Return how the action ended, and its result where the run may continue."""
        names = {
            "POINTSMAN_RUN": self._id,
            "POINTSMAN_STAGE": stage.id,
            "POINTSMAN_STEP": str(number),
            "POINTSMAN_ATTEMPT": str(attempt),
        }
        acting = ActionRunner(self._acting.settings, self._acting.folder, names)
        done = ActionResult(is_done=True, output=None)
        if stage.run is not None:
            done = acting.perform(stage.run, self.context)
        if not done.is_done:
            is_kept = stage.allow_failure
            return done, FinishedStage(stage.id, "failed", None, {}) if is_kept else None
        try:
            scope = {**self.context, "output": done.output}
            set_ = {name: fill(each, scope) for name, each in stage.set.items()}
            canonical_json(set_)
            if stage.asset is not None:
                fill(stage.asset.values, {**scope, **set_})
        except InputError as error:
            return ActionResult(is_done=False, output=None, message=f"set: {error}"), None
        return done, FinishedStage(stage.id, "done", done.output, set_)

    def _add_result(self, stage_id: str, finished: FinishedStage) -> None:
        self._stages[stage_id] = {"status": finished.status, "output": finished.output}
        self._set |= finished.set

    def _materialize(self, stage: Stage, number: int) -> None:
        # Before the stage counts as ended: recorded twice after a crash, but never not at all.
        if stage.asset is None:
            return
        output = self._stages[stage.id]
        scope = {**self.context, "output": output["output"] if isinstance(output, dict) else None}
        values = fill(stage.asset.values, scope)
        made = Materialized(stage.asset.id, number, Raw(canonical_json(values)))
        self._log.append(MATERIALIZED, MATERIALIZED_FORM.encode(made))

    def _decide(self, stage: Stage, number: int, *, is_again: bool = False) -> BranchOutcome:
        """Return the outcome of the stage's decision; a recorded one is recalled.

        Only where it waits for an approval that has come since is it decided anew, on new facts.
        The way round a held choice is taken once, by the first decision; `is_again` asks whether
        the choice itself may go on.
        """
        recorded = self._record.decided.setdefault(number, [])
        rounds = [] if is_again else [each for each in recorded if _goes_round(each)]
        if rounds:
            return self._add_decision(number, rounds[0])
        newest = recorded[-1] if recorded else None
        if newest is None or (
            newest.outcome.approval_required and self._runner.has_changed(newest, self._approved)
        ):
            # A run that another process has taken over decides nothing more.
            self._log.lease.fence()
            request = EvaluationRequest(self._id, stage.id, number, self._approved)
            newest = StageDecision(*self._runner.decide(str(stage.decision), self.context, request))
            recorded.append(newest)
        return self._add_decision(number, newest)

    def _add_decision(self, number: int, decided: StageDecision) -> BranchOutcome:
        outcome = decided.outcome
        labels, targets = outcome.selected_labels, outcome.selected_targets
        step = self._steps[number - 1]
        self._steps[number - 1] = replace(
            step, evaluation_id=decided.evaluation_id, labels=labels, targets=targets
        )
        return outcome

    def _end(self, status: RunStatus, message: str = "") -> RunReport:
        if self._record.ended is None:
            ended = RunEnded(status, len(self._steps))
            self._log.append(ENDED, ENDED_FORM.encode(ended))
        if message:
            self._steps.append(RunStep(len(self._steps) + 1, "", "failed", message))
        return self._report(status)

    def _report(self, status: RunStatus, waiting_for: tuple[str, ...] = ()) -> RunReport:
        return RunReport(
            self._id,
            self._workflow.id,
            status,
            self._is_resumed,
            tuple(self._steps),
            self.context,
            waiting_for,
        )


def _goes_round(decided: StageDecision) -> bool:
    """Tell whether an escalation target stands in the place of a choice that needs approval."""
    return bool(decided.outcome.approval_required and decided.outcome.selected_targets)


def _lease(home: Home, run_id: str) -> HeldLease:
    name = "run-" + hashlib.sha256(run_id.encode()).hexdigest()[:32]
    try:
        return home.lease(name)
    except ChainHeld:
        raise ChainHeld(f"another process has the run `{run_id}`") from None
