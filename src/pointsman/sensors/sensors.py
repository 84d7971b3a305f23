"""Sensors: poll, filter, debounce, drop duplicates, decide, run; retries and dead letters.

Every step is recorded before the next: an event that fired, its decision, the results of its
targets. The state is saved before anything acts, so that a crash repeats an action at most, and
never loses or decides an event twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.branches.policy import milliseconds
from pointsman.branches.trace import BranchOutcome
from pointsman.errors import InputError, PointsmanError
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.kernel.record import Names
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.sensors.event import (
    ALERT,
    DISABLED,
    FIRED,
    FIRED_FORM,
    MILLISECOND,
    Observation,
    SensorEvent,
    SensorNotice,
    TargetRun,
    dead_letter_draft,
    fire_time,
    fired_draft,
    forget_old,
    is_duplicate,
    notice_draft,
    passes,
    target_run_draft,
)
from pointsman.sensors.sources import next_poll, read_source
from pointsman.sensors.state import Pending, SensorState, SensorStates, TargetWork, to_stored
from pointsman.storage.home import Home
from pointsman.storage.policies.decision_files import SENSORS, WORKFLOWS
from pointsman.storage.policies.sensor_file import Sensor, SensorTarget, check_sensors
from pointsman.storage.policies.sensor_files import SensorFiles
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.storage.stores.entries import LedgerReader
from pointsman.workflows.actions import ActionResult, ActionRunner
from pointsman.workflows.branch_log import BranchLog
from pointsman.workflows.branching import Branching, EvaluationRequest
from pointsman.workflows.templates import fill
from pointsman.workflows.workflow import WorkflowRunner, WorkflowText

MOST_BACKOFF_MS = 3_600_000
LOCK = "sensor-states"
"""The short right to change the states of sensors; who runs them holds another one all along."""


def _problem_lines(problems: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"`{name}`: {text}" for name, texts in problems.items() for text in texts]


class TargetReport(Struct, frozen=True):
    """The result of one event at one target, for the operator who watches."""

    at: Instant
    sensor_id: str
    event: str
    target: str
    status: str
    message: str


class SensorService:
    """The sensors of one home."""

    def __init__(
        self,
        home: Home,
        decision_recorder: DecisionRecorder,
        branching: Branching,
        sources: tuple[Clock, IdSource],
        settings: Callable[[], WorkflowSettings],
    ) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._branching = branching
        self._clock, self._ids = sources
        self._settings = settings
        self._runner = WorkflowRunner(home, decision_recorder, branching, sources)
        self.files = SensorFiles(home.path)
        self.states = SensorStates(home.path)
        self.on_report: Callable[[TargetReport], None] = lambda _report: None
        """Called with each result of an event."""
        self._busy: set[tuple[str, int, str]] = set()
        self._lock = threading.RLock()
        self._depth = 0
        self._unrunnable: frozenset[str] = frozenset()

    @contextmanager
    def _hold_states(self) -> Iterator[None]:
        """Keep other threads, and other processes of the home, from the states of sensors."""
        with self._lock:
            self._depth += 1
            lease = self._home.lease(LOCK, waits=True) if self._depth == 1 else None
            try:
                yield
            finally:
                self._depth -= 1
                if lease is not None:
                    lease.release()

    def check(self, names: Sequence[str] = ()) -> list[str]:
        """Return the problems of sensors that cannot run what their decisions choose.

        Such a sensor does not run, the others do. Raise where all that are meant, or one that is
        named, cannot run.
        """
        sensors = self.files.current().sensors
        meant = [each for each in sensors if not names or each.id in names]
        problems = check_sensors(meant, self._branching.in_force().decisions)
        self._unrunnable = frozenset(problems)
        if problems and (names or len(problems) == len(meant)):
            raise InputError("; ".join(_problem_lines(problems)), where=SENSORS)
        return _problem_lines(problems)

    @property
    def home(self) -> Path:
        """The home folder."""
        return self._home.path

    def tick(self, names: Sequence[str] = (), *, hooks: bool = False) -> Instant | None:
        """Poll every sensor once and do the work that is due; return when work is due next.

        Hooks belong to the process that receives them: only that one asks for them, and for
        nothing else.
        """
        times: list[Instant] = []
        for sensor in self.files.current().sensors:
            is_meant = (sensor.type == "webhook") == hooks and (not names or sensor.id in names)
            if not is_meant or not self._is_active(sensor):
                continue
            scheduled = self._poll(sensor)
            due = self.work(sensor)
            times += [each for each in (due, scheduled) if each is not None]
        return min(times, default=None)

    def offer(self, sensor: Sensor, happened: Observation) -> SensorEvent | None:
        """Accept an observation of a webhook or a person; return its event unless filtered."""
        if not self._is_active(sensor):
            raise InputError(f"the sensor `{sensor.id}` is not active")
        with self._hold_states():
            state = self.states.load(sensor.id)
            event = self._number_event(sensor, state, happened)
            self.states.save(sensor.id, state)
        return event

    def work(self, sensor: Sensor) -> Instant | None:
        """Do the due work of one sensor, without reading its source; return when more is due."""
        while True:
            with self._hold_states():
                state = self.states.load(sensor.id)
                self._fire(sensor, state)
                self._decide(sensor, state)
                item = self._next_item(state)
                if item is None:
                    return None if state.status == "disabled" else state.next_due()
                self._busy.add(_key(item))
            try:
                # Not under the lock: an action may take minutes, and a hook must not wait for it.
                done = self._run_or_fail(sensor, item)
                with self._hold_states():
                    self._record_result(sensor, item, done)
            finally:
                self._busy.discard(_key(item))

    def _is_active(self, sensor: Sensor) -> bool:
        if sensor.id in self._unrunnable:
            return False
        return sensor.enabled and self.states.load(sensor.id).status != "disabled"

    def _next_item(self, state: SensorState) -> TargetWork | None:
        now = self._clock.now()
        due = [each for each in state.work if each.due <= now and _key(each) not in self._busy]
        return due[0] if due and state.status != "disabled" else None

    def _poll(self, sensor: Sensor) -> Instant | None:
        with self._hold_states():
            state = self.states.load(sensor.id)
            self._read_source(sensor, state)
            return next_poll(sensor, state.cursor_value())

    def _read_source(self, sensor: Sensor, state: SensorState) -> None:
        now = self._clock.now()
        try:
            home = self._home
            found = read_source(sensor, state.cursor_value(), home.path, now, home.database)
        except PointsmanError as error:
            if state.message != str(error):
                state.status, state.message = "error", str(error)
                state.error_count += 1
                self.states.save(sensor.id, state)
            return
        cursor = canonical_json(found.cursor)
        if not found.happened and cursor == bytes(state.cursor) and state.status == "active":
            return
        state.cursor, state.last_evaluated = Raw(cursor), now
        state.status, state.message = "active", ""
        for each in found.happened:
            self._number_event(sensor, state, each)
        self.states.save(sensor.id, state)

    def _number_event(
        self, sensor: Sensor, state: SensorState, happened: Observation
    ) -> SensorEvent | None:
        """Number an observation; an event that passes the filter waits for its debounce."""
        state.seq = (state.seq or self._last_seq(sensor)) + 1
        now = self._clock.now()
        event = SensorEvent(
            sensor.id, sensor.type, happened.event_type, state.seq, now, happened.data
        )  # fmt: skip
        if not passes(sensor, event):
            return None
        key = happened.key or f"#{state.seq}"
        state.pending = [each for each in state.pending if each.key != key]
        until = fire_time(sensor, event)
        state.pending.append(Pending(key, until, to_stored(event)))
        return event

    def _last_seq(self, sensor: Sensor) -> int:
        """Return the number of the last recorded event: names never come twice."""
        if not self._home.database.exists():
            return 0
        with closing(LedgerReader(self._home.database)) as ledger:
            fired = [FIRED_FORM.decode(each.entry.payload) for each in ledger.of_kind(FIRED)]
        names = [each.event for each in fired if each.sensor_id == sensor.id]
        return max((int(each.rpartition("-")[2]) for each in names), default=0)

    def _fire(self, sensor: Sensor, state: SensorState) -> None:
        """Record the events whose debounce has passed and that are no duplicates."""
        now = self._clock.now()
        due = [each for each in state.pending if each.until <= now]
        if not due:
            return
        state.pending = [each for each in state.pending if each.until > now]
        state.fired = forget_old(sensor, state.fired, now)
        for each in due:
            event = each.event.to_event()
            if is_duplicate(sensor, event, state.fired, now):
                continue
            self._append(fired_draft(self._names(event.name), event))
            state.fired[event.fingerprint] = now
            state.undecided.append(each.event)
            state.trigger_count += 1
            state.last_triggered = now
        self.states.save(sensor.id, state)

    def _decide(self, sensor: Sensor, state: SensorState) -> None:
        """Let the sensor's decision choose the targets; a recorded decision is not made again."""
        while state.undecided:
            kept = state.undecided[0]
            event, now = kept.to_event(), self._clock.now()
            name, targets = self._targets(sensor, event)
            state.undecided = state.undecided[1:]
            state.work += [TargetWork(kept, each, name, 0, now) for each in targets]
            self.states.save(sensor.id, state)

    def _targets(self, sensor: Sensor, event: SensorEvent) -> tuple[str, tuple[str, ...]]:
        if sensor.decision is None:
            return "", (sensor.id,)
        name, outcome = self._decide_or_recall(sensor, event)
        if outcome.approval_required:
            waits = ", ".join(outcome.approval_required)
            acted = TargetRun(sensor.id, event.name, waits, name, 0, "waiting", "needs approval")
            self._report(acted)
            return name, ()
        if not outcome.selected_targets:
            self._report(TargetRun(sensor.id, event.name, "", name, 0, "blocked", "by a guardrail"))
        return name, outcome.selected_targets

    def _decide_or_recall(self, sensor: Sensor, event: SensorEvent) -> tuple[str, BranchOutcome]:
        with closing(LedgerReader(self._home.database)) as ledger:
            found = [
                each
                for each in BranchLog(ledger).about(event.name)
                if each.about.stage_id == sensor.id and not each.about.step
            ]
        if found:
            return found[-1].id, found[-1].outcome
        asked = EvaluationRequest(event.name, sensor.id)
        made = self._branching.evaluate(sensor.decision or "", event.context, asked)
        return made.evaluation_id, made.outcome

    def _record_result(self, sensor: Sensor, work: TargetWork, done: ActionResult) -> None:
        """Record the result of a target; a failure is retried later, and abandoned in the end."""
        state = self.states.load(sensor.id)
        number, status = work.attempt + 1, "done" if done.is_done else "failed"
        event = work.event.to_event()
        acted = TargetRun(
            sensor.id, event.name, work.target, work.evaluation_id, number, status, done.message
        )
        state.work = [each for each in state.work if _key(each) != _key(work)]
        self._report(acted)
        if done.is_done:
            state.consecutive_failures = 0
        else:
            self._handle_failure(sensor, state, replace(work, attempt=number), acted)
        self.states.save(sensor.id, state)

    def _handle_failure(
        self, sensor: Sensor, state: SensorState, work: TargetWork, acted: TargetRun
    ) -> None:
        handling, event = sensor.error_handling, work.event.to_event()
        state.error_count += 1
        state.consecutive_failures += 1
        failures = state.consecutive_failures
        if handling.on_failure == "alert" and failures == handling.alert_after:
            told = SensorNotice(sensor.id, failures, acted.message)
            self._append(notice_draft(ALERT, self._names(event.name), told))
        if work.attempt <= handling.max_retries:
            pause = milliseconds(handling.backoff) << min(work.attempt - 1, 20)
            due = self._clock.now() + min(pause, MOST_BACKOFF_MS) * MILLISECOND
            state.work.append(replace(work, due=due))
            return
        self._append(dead_letter_draft(self._names(event.name), acted, event))
        if handling.on_failure == "disable":
            state.status, state.message = "disabled", acted.message
            told = SensorNotice(sensor.id, failures, acted.message)
            self._append(notice_draft(DISABLED, self._names(event.name), told))

    def _run_or_fail(self, sensor: Sensor, work: TargetWork) -> ActionResult:
        target = sensor.every_target.get(work.target)
        if target is None:
            return ActionResult(
                is_done=False, output=None, message=f"nothing runs for `{work.target}`"
            )
        try:
            return self._run(target, work.event.to_event(), work.target, work.attempt + 1)
        except PointsmanError as error:
            return ActionResult(is_done=False, output=None, message=str(error))

    def _run(
        self, target: SensorTarget, event: SensorEvent, name: str, attempt: int
    ) -> ActionResult:
        context = event.context
        context |= {key: fill(each, event.context) for key, each in target.inputs.items()}
        if target.workflow is not None:
            return self._run_workflow(target.workflow, f"{event.name}.{name}", context)
        if target.run is None:
            return ActionResult(is_done=True, output=None)
        names = {
            "POINTSMAN_EVENT": event.name,
            "POINTSMAN_SENSOR": event.sensor_id,
            "POINTSMAN_ATTEMPT": str(attempt),
        }
        folder = self._home.path / WORKFLOWS
        acting = ActionRunner(
            self._settings(), folder if folder.is_dir() else self._home.path, names
        )
        return acting.perform(target.run, context)

    def _run_workflow(self, file: str, run_id: str, inputs: dict[str, Value]) -> ActionResult:
        path = self._home.path / WORKFLOWS / file
        try:
            given = WorkflowText(path.read_bytes(), str(path), path.parent)
        except OSError as error:
            message = f"{file}: cannot be read: {error.strerror}"
            return ActionResult(is_done=False, output=None, message=message)
        report = self._runner.run(given, self._settings(), run_id, inputs)
        why = "; ".join(each.message for each in report.steps if each.message)
        # A run that waits for a person has done all it can.
        is_done = report.status in {"done", "waiting"}
        message = f"run {run_id} {report.status}"
        return ActionResult(is_done, None, f"{message}: {why}" if why else message)

    def _report(self, acted: TargetRun) -> None:
        names = self._names(acted.event)
        self._append(target_run_draft(names, acted))
        self.on_report(
            TargetReport(
                names.at, acted.sensor_id, acted.event, acted.target, acted.status, acted.message
            )
        )

    def _append(self, draft: Draft) -> None:
        self._decision_recorder.recorder().record(draft)

    def _names(self, ref: str) -> Names:
        return Names(self._ids.new_id(), ref, self._clock.now())


def _key(work: TargetWork) -> tuple[str, int, str]:
    return (work.event.sensor_id, work.event.seq, work.target)
