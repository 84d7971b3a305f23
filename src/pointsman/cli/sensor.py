"""`sensor`: watch triggers, and let decisions say what runs."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import msgspec

from pointsman.app import Pointsman, SystemClock
from pointsman.cli.decision_terms import read_context
from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command, count_text
from pointsman.errors import ChainHeld, InputError
from pointsman.expressions.values import Value
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import SECOND, Instant, instant_text
from pointsman.sensors.event import Observation
from pointsman.sensors.sensors import SensorService, TargetReport
from pointsman.sensors.state import SensorStates
from pointsman.storage.policies.sensor_file import Sensor
from pointsman.storage.policies.sensor_files import SensorFiles
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.writer.chain_rows import HeldLease

LOOK_S = 1.0
MOST_WAIT_S = 3600
"""How long `--once` waits for debounces and retries before it gives up waiting."""


@click.group(cls=CommandGroup)
def sensor() -> None:
    """Watch files, commits, schedules and assets; let decisions say what runs."""


@sensor.command("list")
@command
def list_(session: Session) -> None:
    """List the sensors, how they are, and what they did."""
    found = SensorFiles(session.home, is_kept=False).current()
    session.warn(found.problems)
    states = SensorStates(session.home)
    values = []
    for each in found.sensors:
        state = states.load(each.id)
        values.append(
            {
                "id": each.id,
                "name": each.name or each.id,
                "type": each.type,
                "enabled": each.enabled,
                "state": state.status if each.enabled else "paused",
                "message": state.message,
                "decision": each.decision,
                "targets": list(each.every_target),
                "trigger_count": state.trigger_count,
                "error_count": state.error_count,
                "consecutive_failures": state.consecutive_failures,
                "last_triggered": _time(state.last_triggered),
                "last_evaluated": _time(state.last_evaluated),
            }
        )
    columns = ("id", "type", "state", "decision", "trigger_count", "error_count", "last_triggered")
    rows = [[str(each[name] or "-") for name in columns] for each in values]
    head = ("SENSOR", "TYPE", "STATE", "DECISION", "FIRED", "ERRORS", "LAST")
    text = table([head, *rows]) if rows else "there are no sensors; write one in sensors/"
    session.show(text, values)


@sensor.command()
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--once", is_flag=True, help="Look once, do what follows, and end.")
@click.option("--event", metavar="JSON|@FILE|-", help="Fire the one manual sensor named.")
@command
def run(session: Session, names: tuple[str, ...], once: bool, event: str | None) -> None:  # noqa: FBT001 - click passes flags so
    """Run the sensors, or those named, until interrupted."""
    given = None if event is None else read_context(event)
    reports: list[TargetReport] = []
    with session.open(create=True) as pointsman, ExitStack() as held:
        service = service_of(pointsman)
        try:
            lease = held.enter_context(_sensors_lease(pointsman))
        except ChainHeld:
            # Events are left in the home's folder: a runner on another machine would not see one.
            if given is None or not isinstance(pointsman.home.store, SqliteFolder):
                raise
            _leave_offer(session, pointsman, service, names, given)
            return
        session.warn((*service.files.current().problems, *pointsman.branching.in_force().problems))
        session.warn(service.check(names))
        found = [service.files.current().sensor(name) for name in names]
        service.on_report = lambda each: _report(session, each, reports)
        if given is not None:
            _offer(service, found, Observation("manual", given))
        if once or given is not None:
            _run_once(service, names, lease)
        else:
            _run_until_interrupted(service, names, pointsman.home.path, lease)
    failed = [each for each in reports if each.status == "failed"]
    text = f"{count_text(len(reports), 'target')} run, {len(failed)} failed"
    session.show(text, {"acted": [_value(each) for each in reports], "failed": len(failed)})


def service_of(pointsman: Pointsman) -> SensorService:
    """Return the sensors of an open home."""
    return SensorService(
        pointsman.home,
        pointsman.decision_recorder,
        pointsman.branching,
        (pointsman.clock, pointsman.ids),
        lambda: pointsman.files.settings().value.workflow,
    )


def _offer(service: SensorService, found: list[Sensor], happened: Observation) -> None:
    service.offer(_manual_sensor(found), happened)


def _leave_offer(
    session: Session,
    pointsman: Pointsman,
    service: SensorService,
    names: tuple[str, ...],
    data: dict[str, Value],
) -> None:
    """Hand a manual event to the process that runs the sensors of the home."""
    found = [service.files.current().sensor(name) for name in names]
    chosen = _manual_sensor(found)
    if not chosen.enabled:
        raise InputError(f"the sensor `{chosen.id}` is not active")
    service.states.leave_offer(chosen.id, pointsman.ids.new_id(), data)
    text = f"{chosen.id}: left for the process that runs the sensors of this home"
    session.show(text, {"acted": [], "failed": 0, "left_for_runner": True})


def _manual_sensor(found: list[Sensor]) -> Sensor:
    if len(found) != 1 or found[0].type != "manual":
        raise InputError("--event needs the id of one manual sensor")
    return found[0]


def _run_once(service: SensorService, names: tuple[str, ...], lease: HeldLease) -> None:
    """Look once, then only wait for the work under way."""
    clock, waits = SystemClock(), threading.Event()
    service.tick(names)
    end = clock.now() + MOST_WAIT_S * SECOND
    while (due := _under_way(service, names)) is not None and clock.now() < end:
        waits.wait(max((due - clock.now()) / SECOND, 0.0))
        for each in _own(service, names):
            lease.fence()
            service.work(each)


def _under_way(service: SensorService, names: tuple[str, ...]) -> Instant | None:
    states = [service.states.load(each.id) for each in _own(service, names)]
    times = [each.next_due() for each in states if each.status != "disabled"]
    return min((each for each in times if each is not None), default=None)


def _own(service: SensorService, names: tuple[str, ...]) -> list[Sensor]:
    """Return the sensors this process works for: all but those of the process that takes hooks."""
    return [
        each
        for each in service.files.current().sensors
        if each.enabled and each.type != "webhook" and (not names or each.id in names)
    ]


def _run_until_interrupted(
    service: SensorService, names: tuple[str, ...], home: Path, lease: HeldLease
) -> None:
    clock, woken = SystemClock(), threading.Event()
    with _watching_files(service, home, woken), _sigterm_as_interrupt():
        try:
            while True:
                # Sensors that another process took over are not run here as well.
                lease.fence()
                due = service.tick(names)
                left = LOOK_S if due is None else (due - clock.now()) / SECOND
                woken.wait(min(max(left, 0.01), LOOK_S))
                woken.clear()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM like Ctrl+C: work under way is on record, and the lease is released."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _watching_files(service: SensorService, home: Path, woken: threading.Event) -> Iterator[None]:
    """Wake the loop as soon as a file changes; the next look finds the change."""
    paths = [
        path
        for each in service.files.current().sensors
        if each.type == "file_change"
        for path in (home / Path(name).expanduser() for name in each.trigger.paths)
        if path.exists()
    ]
    if not paths:
        yield
        return
    import watchfiles  # noqa: PLC0415 - only file sensors need it

    stop = threading.Event()

    def watch() -> None:
        for _changes in watchfiles.watch(
            *paths, stop_event=stop, debounce=50, raise_interrupt=False
        ):
            woken.set()

    thread = threading.Thread(target=watch, name="watchfiles", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)


@contextmanager
def _sensors_lease(pointsman: Pointsman) -> Iterator[HeldLease]:
    """Let one process at a time run the sensors of a home."""
    try:
        lease = pointsman.home.lease("sensors")
    except ChainHeld:
        raise ChainHeld("another process runs the sensors of this home") from None
    try:
        yield lease
    finally:
        lease.release()


def _report(session: Session, report: TargetReport, kept: list[TargetReport]) -> None:
    kept.append(report)
    if not session.as_json:
        message = f": {report.message}" if report.message else ""
        line = (
            f"{report.sensor_id}  {report.event}  {report.target or '-'}  {report.status}{message}"
        )
        click.echo(printable(line))


def _value(report: TargetReport) -> dict[str, object]:
    return {**msgspec.structs.asdict(report), "at": instant_text(report.at)}


def _time(at: int) -> str | None:
    return instant_text(Instant(at)) if at else None
