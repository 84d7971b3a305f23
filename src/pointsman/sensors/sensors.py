"""Sensors: look, filter, debounce, drop duplicates, decide, run; retries and dead letters.

Every step is on record before the next: an event that fired, its decision, what its targets came
to. What was remembered is saved before anything acts, so that a crash repeats an action at most,
and never loses or decides an event twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
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
    MILLISECOND,
    Event,
    Happened,
    debounced_until,
    is_duplicate,
    passes,
    remembered,
)
from pointsman.sensors.record import (
    ALERT,
    DISABLED,
    FIRED,
    FIRED_FORM,
    Acted,
    Told,
    acted_draft,
    dead_letter_draft,
    fired_draft,
    told_draft,
)
from pointsman.sensors.sources import looked, next_look
from pointsman.sensors.state import Pending, SensorState, SensorStates, Work, kept_event
from pointsman.storage.home import Home
from pointsman.storage.policies.decision_files import SENSORS, WORKFLOWS
from pointsman.storage.policies.sensor_file import Sensor, SensorTarget, check_sensors
from pointsman.storage.policies.sensor_files import SensorFiles
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.storage.stores.entries import LedgerReader
from pointsman.workflows.actions import Acting, Done
from pointsman.workflows.branch_log import BranchLog
from pointsman.workflows.branching import Asked, Branching
from pointsman.workflows.templates import filled
from pointsman.workflows.workflow import WorkflowRunner, WorkflowText

MOST_BACKOFF_MS = 3_600_000


class Heard(Struct, frozen=True):
    """What came of one event at one target, for whoever watches."""

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
        desk: DecisionRecorder,
        branching: Branching,
        sources: tuple[Clock, IdSource],
        settings: Callable[[], WorkflowSettings],
    ) -> None:
        self._home = home
        self._desk = desk
        self._branching = branching
        self._clock, self._ids = sources
        self._settings = settings
        self._runner = WorkflowRunner(home, desk, branching, sources)
        self.files = SensorFiles(home.path)
        self.states = SensorStates(home.path)
        self.told: Callable[[Heard], None] = lambda _told: None
        """Called with whatever came of an event."""
        self._busy: set[tuple[str, int, str]] = set()
        self._lock = threading.RLock()

    def check(self) -> None:
        """Raise where a sensor could not run what its decision chooses."""
        problems = check_sensors(self.files.current().sensors, self._branching.in_force().decisions)
        if problems:
            raise InputError("; ".join(problems), where=SENSORS)

    @property
    def home(self) -> Path:
        """The home folder."""
        return self._home.path

    def tick(self, names: Sequence[str] = (), *, hooks: bool = False) -> Instant | None:
        """Look at every sensor once and do what is due; give when something is due next.

        Hooks belong to the process that takes them: only that one asks for them, and for nothing
        else.
        """
        times: list[Instant] = []
        for sensor in self.files.current().sensors:
            is_meant = (sensor.type == "webhook") == hooks and (not names or sensor.id in names)
            if not is_meant or not self._is_active(sensor):
                continue
            scheduled = self._looked(sensor)
            due = self.work(sensor)
            times += [each for each in (due, scheduled) if each is not None]
        return min(times, default=None)

    def offer(self, sensor: Sensor, happened: Happened) -> Event | None:
        """Take what somebody brings: a webhook, or a person. Gives the event unless filtered."""
        if not self._is_active(sensor):
            raise InputError(f"the sensor `{sensor.id}` is not active")
        with self._lock:
            state = self.states.load(sensor.id)
            event = self._taken(sensor, state, happened)
            self.states.save(sensor.id, state)
        return event

    def work(self, sensor: Sensor) -> Instant | None:
        """Do what is due for one sensor, without looking at its source; give what is due next."""
        while True:
            with self._lock:
                state = self.states.load(sensor.id)
                self._fire(sensor, state)
                self._decide(sensor, state)
                item = self._next_item(state)
                if item is None:
                    return None if state.status == "disabled" else state.next_due()
                self._busy.add(_key(item))
            try:
                # Not under the lock: an action may take minutes, and a hook must not wait for it.
                done = self._ran(sensor, item)
                with self._lock:
                    self._acted(sensor, item, done)
            finally:
                self._busy.discard(_key(item))

    def _is_active(self, sensor: Sensor) -> bool:
        return sensor.enabled and self.states.load(sensor.id).status != "disabled"

    def _next_item(self, state: SensorState) -> Work | None:
        now = self._clock.now()
        due = [each for each in state.work if each.due <= now and _key(each) not in self._busy]
        return due[0] if due and state.status != "disabled" else None

    def _looked(self, sensor: Sensor) -> Instant | None:
        with self._lock:
            state = self.states.load(sensor.id)
            self._look(sensor, state)
            return next_look(sensor, state.cursor_value())

    def _look(self, sensor: Sensor, state: SensorState) -> None:
        now = self._clock.now()
        try:
            home = self._home
            found = looked(sensor, state.cursor_value(), home.path, now, home.database)
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
            self._taken(sensor, state, each)
        self.states.save(sensor.id, state)

    def _taken(self, sensor: Sensor, state: SensorState, happened: Happened) -> Event | None:
        """Number what happened; what passes the filter waits for its debounce."""
        state.seq = (state.seq or self._last_seq(sensor)) + 1
        now = self._clock.now()
        event = Event(
            sensor.id, sensor.type, happened.event_type, state.seq, now, happened.data
        )  # fmt: skip
        if not passes(sensor, event):
            return None
        key = happened.key or f"#{state.seq}"
        state.pending = [each for each in state.pending if each.key != key]
        until = debounced_until(sensor, event)
        state.pending.append(Pending(key, until, kept_event(event)))
        return event

    def _last_seq(self, sensor: Sensor) -> int:
        """Give the number of the last event on record: names never come twice."""
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
        state.fired = remembered(sensor, state.fired, now)
        for each in due:
            event = each.event.opened()
            if is_duplicate(sensor, event, state.fired, now):
                continue
            self._put(fired_draft(self._names(event.name), event))
            state.fired[event.fingerprint] = now
            state.undecided.append(each.event)
            state.trigger_count += 1
            state.last_triggered = now
        self.states.save(sensor.id, state)

    def _decide(self, sensor: Sensor, state: SensorState) -> None:
        """Let the sensor's decision say what runs; a decision on record is not made again."""
        while state.undecided:
            kept = state.undecided[0]
            event, now = kept.opened(), self._clock.now()
            name, targets = self._targets(sensor, event)
            state.undecided = state.undecided[1:]
            state.work += [Work(kept, each, name, 0, now) for each in targets]
            self.states.save(sensor.id, state)

    def _targets(self, sensor: Sensor, event: Event) -> tuple[str, tuple[str, ...]]:
        if sensor.decision is None:
            return "", (sensor.id,)
        name, outcome = self._decided(sensor, event)
        if outcome.approval_required:
            waits = ", ".join(outcome.approval_required)
            acted = Acted(sensor.id, event.name, waits, name, 0, "waiting", "needs approval")
            self._tell(acted)
            return name, ()
        if not outcome.selected_targets:
            self._tell(Acted(sensor.id, event.name, "", name, 0, "blocked", "by a guardrail"))
        return name, outcome.selected_targets

    def _decided(self, sensor: Sensor, event: Event) -> tuple[str, BranchOutcome]:
        with closing(LedgerReader(self._home.database)) as ledger:
            found = [
                each
                for each in BranchLog(ledger).about(event.name)
                if each.about.stage_id == sensor.id and not each.about.step
            ]
        if found:
            return found[-1].id, found[-1].outcome
        asked = Asked(event.name, sensor.id)
        made = self._branching.evaluate(sensor.decision or "", event.context, asked)
        return made.evaluation_id, made.outcome

    def _acted(self, sensor: Sensor, work: Work, done: Done) -> None:
        """Note what a target came to; what failed is tried again later, and given up in the end."""
        state = self.states.load(sensor.id)
        number, status = work.attempt + 1, "done" if done.is_done else "failed"
        event = work.event.opened()
        acted = Acted(
            sensor.id, event.name, work.target, work.evaluation_id, number, status, done.message
        )
        state.work = [each for each in state.work if _key(each) != _key(work)]
        self._tell(acted)
        if done.is_done:
            state.consecutive_failures = 0
        else:
            self._failed(sensor, state, replace(work, attempt=number), acted)
        self.states.save(sensor.id, state)

    def _failed(self, sensor: Sensor, state: SensorState, work: Work, acted: Acted) -> None:
        handling, event = sensor.error_handling, work.event.opened()
        state.error_count += 1
        state.consecutive_failures += 1
        failures = state.consecutive_failures
        if handling.on_failure == "alert" and failures == handling.alert_after:
            told = Told(sensor.id, failures, acted.message)
            self._put(told_draft(ALERT, self._names(event.name), told))
        if work.attempt <= handling.max_retries:
            pause = milliseconds(handling.backoff) << min(work.attempt - 1, 20)
            due = self._clock.now() + min(pause, MOST_BACKOFF_MS) * MILLISECOND
            state.work.append(replace(work, due=due))
            return
        self._put(dead_letter_draft(self._names(event.name), acted, event))
        if handling.on_failure == "disable":
            state.status, state.message = "disabled", acted.message
            told = Told(sensor.id, failures, acted.message)
            self._put(told_draft(DISABLED, self._names(event.name), told))

    def _ran(self, sensor: Sensor, work: Work) -> Done:
        target = sensor.every_target.get(work.target)
        if target is None:
            return Done(is_done=False, output=None, message=f"nothing runs for `{work.target}`")
        try:
            return self._run(target, work.event.opened(), work.target, work.attempt + 1)
        except PointsmanError as error:
            return Done(is_done=False, output=None, message=str(error))

    def _run(self, target: SensorTarget, event: Event, name: str, attempt: int) -> Done:
        context = event.context
        context |= {key: filled(each, event.context) for key, each in target.inputs.items()}
        if target.workflow is not None:
            return self._run_workflow(target.workflow, f"{event.name}.{name}", context)
        if target.run is None:
            return Done(is_done=True, output=None)
        names = {
            "POINTSMAN_EVENT": event.name,
            "POINTSMAN_SENSOR": event.sensor_id,
            "POINTSMAN_ATTEMPT": str(attempt),
        }
        folder = self._home.path / WORKFLOWS
        acting = Acting(self._settings(), folder if folder.is_dir() else self._home.path, names)
        return acting.perform(target.run, context)

    def _run_workflow(self, file: str, run_id: str, inputs: dict[str, Value]) -> Done:
        path = self._home.path / WORKFLOWS / file
        try:
            given = WorkflowText(path.read_bytes(), str(path), path.parent)
        except OSError as error:
            message = f"{file}: cannot be read: {error.strerror}"
            return Done(is_done=False, output=None, message=message)
        report = self._runner.run(given, self._settings(), run_id, inputs)
        why = "; ".join(each.message for each in report.steps if each.message)
        # One that waits for a person has done what it can.
        is_done = report.status in {"done", "waiting"}
        message = f"run {run_id} {report.status}"
        return Done(is_done, None, f"{message}: {why}" if why else message)

    def _tell(self, acted: Acted) -> None:
        names = self._names(acted.event)
        self._put(acted_draft(names, acted))
        self.told(
            Heard(names.at, acted.sensor_id, acted.event, acted.target, acted.status, acted.message)
        )

    def _put(self, draft: Draft) -> None:
        self._desk.recorder().append(draft).result()

    def _names(self, ref: str) -> Names:
        return Names(self._ids.new_id(), ref, self._clock.now())


def _key(work: Work) -> tuple[str, int, str]:
    return (work.event.sensor_id, work.event.seq, work.target)
