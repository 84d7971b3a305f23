"""Running a workflow: stages joined by decisions, every step on record before the next is taken.

A run that was cut short goes on where its record ends: what was decided is not decided again, what
a stage gave is not asked for again. A stage that had begun and not ended is begun again, so its
action must bear being done twice; it is told its run and step for that.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Raw, Struct

from pointsman.branches.facts import branch_facts
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
from pointsman.workflows.actions import Acting, Done, check_allowed
from pointsman.workflows.branching import Asked, Branching
from pointsman.workflows.record import (
    ENDED,
    ENDED_FORM,
    MATERIALIZED,
    MATERIALIZED_FORM,
    STAGE_ENDED,
    STAGE_ENDED_FORM,
    STAGE_STARTED,
    STAGE_STARTED_FORM,
    Decided,
    Finished,
    Materialized,
    RunEnded,
    RunRecord,
    RunStatus,
    StageEnded,
    StageStarted,
    Started,
    ended_draft,
    started_draft,
)
from pointsman.workflows.templates import filled

MOST_NESTED = 12


class Step(Struct, frozen=True):
    """One visit to one stage, as it is told about; `targets` are where it led."""

    number: int
    stage_id: str
    status: str
    message: str = ""
    is_recalled: bool = False
    evaluation_id: str = ""
    labels: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


class RunReport(Struct, frozen=True):
    """How a run went. `waiting_for` are targets that somebody must approve first."""

    run_id: str
    workflow: str
    status: RunStatus
    is_resumed: bool
    steps: tuple[Step, ...]
    context: dict[str, Value]
    waiting_for: tuple[str, ...] = ()


class WorkflowText(Struct, frozen=True):
    """A workflow as it stands in a file, and where its actions are done."""

    text: bytes
    source: str
    folder: Path


class RunLog(Struct, frozen=True):
    """What is recorded of one run, as long as nobody else has taken it over."""

    desk: DecisionRecorder
    lease: HeldLease
    run_id: str
    clock: Clock
    ids: IdSource

    def append(self, kind: str, payload: bytes) -> None:
        """Record something about the run; it is durable when this returns."""
        names = self.names()
        self.put(Draft(kind, names.id, names.ref, names.at, payload))

    def put(self, draft: Draft) -> None:
        """Record an entry of the run; it is durable when this returns."""
        self.desk.recorder().append_under(self.lease, draft)

    def names(self) -> Names:
        """Make the names of an entry about the run."""
        return Names(self.ids.new_id(), self.run_id, self.clock.now())


class WorkflowRunner:
    """Runs workflows of one home."""

    def __init__(
        self,
        home: Home,
        desk: DecisionRecorder,
        branching: Branching,
        sources: tuple[Clock, IdSource],
    ) -> None:
        self._home = home
        self._desk = desk
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
        """Run a workflow, or go on with a run; one process at a time has a run."""
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
            log = RunLog(self._desk, lease, name, self._clock, self._ids)
            self._begin(log, record, given, workflow, inputs)
            acting = Acting(settings, given.folder, {})
            return _Run(self, log, workflow, record, acting, approved).go()
        finally:
            lease.release()

    def nested(self, name: str) -> WorkflowText | None:
        """Give a workflow of the home by its id."""
        for path in sorted((self._home.path / WORKFLOWS).glob("*.y*ml")):
            with suppress(DocumentError, OSError):
                text = path.read_bytes()
                if read_workflow(text, str(path)).id == name:
                    return WorkflowText(text, str(path), path.parent)
        return None

    def decide(
        self, decision_id: str, context: Mapping[str, Value], asked: Asked
    ) -> tuple[str, BranchOutcome]:
        """Evaluate a decision for a run."""
        made = self._branching.evaluate(decision_id, context, asked)
        return made.evaluation_id, made.outcome

    def has_news(self, decided: Decided, approved: Sequence[str]) -> bool:
        """Tell whether a decision that waits for approval may have it by now."""
        waits_for = set(decided.outcome.approval_required)
        return waits_for <= set(approved) or self._branching.has_news(decided.evaluation_id)

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
        """Record that a run begins, or check that it is the run that was begun."""
        definition_id = content_id(given.text)
        if record.started is None:
            record.inputs = dict(branch_facts("", inputs or {}).context)
            started = Started(workflow.id, definition_id)
            log.put(started_draft(log.names(), started, given.text, record.inputs))
            return
        hint = "give another --id to begin another run"
        if record.started.definition_id != definition_id:
            message = f"the file is not the one that the run `{log.run_id}` began with"
            raise InputError(message, where=given.source, hint=hint)
        if inputs is not None and canonical_json(dict(inputs)) != canonical_json(record.inputs):
            raise InputError(f"the run `{log.run_id}` began with other inputs", hint=hint)


class _Run:
    """One run: the same walk whether a step is done now or was done before."""

    def __init__(
        self,
        runner: WorkflowRunner,
        log: RunLog,
        workflow: Workflow,
        record: RunRecord,
        acting: Acting,
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
        self._steps: list[Step] = []
        self._stages: dict[str, Value] = {}
        self._set: dict[str, Value] = {}

    @property
    def context(self) -> dict[str, Value]:
        """What decisions and actions look at: the inputs, what stages set, and how they ended."""
        about: dict[str, Value] = {"id": self._id, "workflow": self._workflow.id}
        own: dict[str, Value] = {"inputs": self._record.inputs, "stages": self._stages}
        return {**self._record.inputs, **self._set, **own, "run": about}

    def go(self) -> RunReport:
        """Take step after step until the paths end, or one must not go on."""
        waiting: deque[tuple[str, str]] = deque([(self._workflow.first, "")])
        is_blocked = False
        while waiting:
            target, chosen_by = waiting.popleft()
            number = len(self._steps) + 1
            if number > self._workflow.max_steps:
                return self._ended("failed", f"more than {self._workflow.max_steps} steps")
            stage = self._workflow.stage(target)
            if stage is None:
                inner = self._nested(target, number)
                if inner.status != "done":
                    return self._report(inner.status, inner.waiting_for)
                continue
            done = self._done(stage, number, chosen_by)
            if not done.is_done:
                return self._report("failed")
            outcome = self._next(stage, number)
            if outcome is None:
                waiting += [(stage.next, "")] if stage.next is not None else []
                continue
            if outcome.approval_required:
                return self._report("waiting", outcome.approval_required)
            is_blocked = is_blocked or not outcome.selected_targets
            by = self._steps[-1].evaluation_id
            waiting += [(each, by) for each in outcome.selected_targets]
        return self._ended("blocked" if is_blocked else "done")

    def _nested(self, name: str, number: int) -> RunReport:
        """Run another workflow as one step; its own record says how far it has come."""
        given = self._runner.nested(name)
        run_id = f"{self._id}.{number}"
        if given is None or run_id.count(".") > MOST_NESTED:
            why = "there is no such workflow" if given is None else "nested too deep"
            self._steps.append(Step(number, name, "failed", why))
            return self._report("failed")
        inputs = {**self._record.inputs, **self._set}
        settings = self._acting.settings
        report = self._runner.run(given, settings, run_id, inputs, self._approved)
        self._steps.append(Step(number, name, report.status, f"run {run_id} {report.status}"))
        self._stages[name] = {"status": report.status, "output": report.context}
        return report

    def _done(self, stage: Stage, number: int, chosen_by: str) -> Done:
        """Do a stage, or recall what it gave when it was done."""
        recalled = self._record.finished.get(number)
        if recalled is not None:
            self._take(stage.id, recalled)
            self._steps.append(Step(number, stage.id, recalled.status, is_recalled=True))
            return Done(is_done=True, output=recalled.output)
        attempt = self._record.attempts.get(number, 0) + 1
        started = StageStarted(number, stage.id, attempt, chosen_by)
        self._log.append(STAGE_STARTED, STAGE_STARTED_FORM.encode(started))
        done, finished = self._performed(stage, number, attempt)
        status = finished.status if finished is not None else "failed"
        self._steps.append(Step(number, stage.id, status, done.message))
        ended = StageEnded(number, stage.id, attempt, status, done.message)
        if finished is None:
            self._log.append(STAGE_ENDED, STAGE_ENDED_FORM.encode(ended))
            return done
        self._take(stage.id, finished)
        self._materialize(stage, number)
        self._log.put(ended_draft(self._log.names(), ended, finished.output, finished.set))
        return Done(is_done=True, output=finished.output)

    def _performed(self, stage: Stage, number: int, attempt: int) -> tuple[Done, Finished | None]:
        """Give how the action ended, and what is kept of it where the run may go on."""
        names = {
            "POINTSMAN_RUN": self._id,
            "POINTSMAN_STAGE": stage.id,
            "POINTSMAN_STEP": str(number),
            "POINTSMAN_ATTEMPT": str(attempt),
        }
        acting = Acting(self._acting.settings, self._acting.folder, names)
        done = Done(is_done=True, output=None)
        if stage.run is not None:
            done = acting.perform(stage.run, self.context)
        if not done.is_done:
            is_kept = stage.allow_failure
            return done, Finished(stage.id, "failed", None, {}) if is_kept else None
        try:
            scope = {**self.context, "output": done.output}
            set_ = {name: filled(each, scope) for name, each in stage.set.items()}
            canonical_json(set_)
            if stage.asset is not None:
                filled(stage.asset.values, {**scope, **set_})
        except InputError as error:
            return Done(is_done=False, output=None, message=f"set: {error}"), None
        return done, Finished(stage.id, "done", done.output, set_)

    def _take(self, stage_id: str, finished: Finished) -> None:
        self._stages[stage_id] = {"status": finished.status, "output": finished.output}
        self._set |= finished.set

    def _materialize(self, stage: Stage, number: int) -> None:
        # Before the stage counts as ended: told twice after a crash, but never not at all.
        if stage.asset is None:
            return
        output = self._stages[stage.id]
        scope = {**self.context, "output": output["output"] if isinstance(output, dict) else None}
        values = filled(stage.asset.values, scope)
        made = Materialized(stage.asset.id, number, Raw(canonical_json(values)))
        self._log.append(MATERIALIZED, MATERIALIZED_FORM.encode(made))

    def _next(self, stage: Stage, number: int) -> BranchOutcome | None:
        """Give where the stage's decision leads; one that was made is not made again.

        Only where it waits for an approval that has come since is it asked anew, on new facts.
        """
        if stage.decision is None:
            return None
        decided = self._record.decided.get(number)
        if decided is not None and not (
            decided.outcome.approval_required and self._runner.has_news(decided, self._approved)
        ):
            name, outcome = decided.evaluation_id, decided.outcome
        else:
            # A run that another has taken over decides nothing more.
            self._log.lease.fence()
            asked = Asked(self._id, stage.id, number, self._approved)
            name, outcome = self._runner.decide(stage.decision, self.context, asked)
        last = self._steps.pop()
        self._steps.append(
            Step(
                last.number,
                last.stage_id,
                last.status,
                last.message,
                last.is_recalled,
                name,
                outcome.selected_labels,
                outcome.selected_targets,
            )
        )
        return outcome

    def _ended(self, status: RunStatus, message: str = "") -> RunReport:
        if self._record.ended is None:
            ended = RunEnded(status, len(self._steps))
            self._log.append(ENDED, ENDED_FORM.encode(ended))
        if message:
            self._steps.append(Step(len(self._steps) + 1, "", "failed", message))
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


def _lease(home: Home, run_id: str) -> HeldLease:
    name = "run-" + hashlib.sha256(run_id.encode()).hexdigest()[:32]
    try:
        return home.lease(name)
    except ChainHeld:
        raise ChainHeld(f"another process has the run `{run_id}`") from None
