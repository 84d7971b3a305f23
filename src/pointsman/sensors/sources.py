"""The sources of events: folders, git references, schedules, assets. Each is polled.

A source returns the observations since its cursor, and the next cursor.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

from msgspec import Struct

from pointsman.branches.policy import milliseconds
from pointsman.errors import InputError
from pointsman.expressions.values import Value
from pointsman.kernel.instant import EPOCH, SECOND, Instant, instant_text, read_instant
from pointsman.sensors.event import MILLISECOND, Observation
from pointsman.sensors.state import offers
from pointsman.storage.place import Where
from pointsman.storage.policies.cron import read_cron
from pointsman.storage.policies.sensor_file import Sensor
from pointsman.storage.stores.entries import LedgerReader
from pointsman.workflows.record import MATERIALIZED, MATERIALIZED_FORM, read_mapping

MOST_FILES = 10_000
MOST_COMMITS = 100
GIT_S = 10
OVERLAP = 60 * SECOND
"""Entries of other writers become visible a little after their time."""

_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager")


class SourceReading(Struct, frozen=True):
    """The observations of a source, and its next cursor."""

    happened: tuple[Observation, ...]
    cursor: Value


def read_source(
    sensor: Sensor, cursor: Value, home: Path, now: Instant, ledger: Where
) -> SourceReading:
    """Read a sensor's source; None as the cursor means that it was never read."""
    match sensor.type:
        case "file_change":
            return _files(sensor, cursor, home)
        case "git_commit":
            return _commits(sensor, cursor, home)
        case "schedule":
            return _schedule(sensor, cursor, now)
        case "asset_materialized":
            return _assets(sensor, cursor, ledger, now)
        case "manual":
            return _offers(sensor, cursor, home)
    return SourceReading((), cursor)


def next_poll(sensor: Sensor, cursor: Value) -> Instant | None:
    """Return when a schedule fires next; None for sources that must be polled."""
    if sensor.type != "schedule" or not isinstance(cursor, str):
        return None
    return _after(sensor, read_instant(cursor))


def _offers(sensor: Sensor, cursor: Value, home: Path) -> SourceReading:
    """Take the events that other processes left; a file goes once its taking is on record."""
    taken = cursor if isinstance(cursor, list) else []
    found: list[Observation] = []
    names: list[Value] = []
    for path in offers(home, sensor.id):
        if path.name in taken:
            path.unlink(missing_ok=True)
            continue
        found.append(Observation("manual", read_mapping(path.read_bytes())))
        names.append(path.name)
    return SourceReading(tuple(found), names or (None if cursor is None else []))


def _files(sensor: Sensor, cursor: Value, home: Path) -> SourceReading:
    now = dict(_stamps(sensor, home))
    is_new = cursor is None
    before = cast("dict[str, str]", cursor) if isinstance(cursor, dict) else {}
    if is_new and sensor.trigger.initial == "ignore":
        before = now
    found = [
        _file_change(name, "added" if name not in before else "modified", stamp)
        for name, stamp in sorted(now.items())
        if before.get(name) != stamp
    ]
    gone = [
        _file_change(name, "deleted", before[name]) for name in sorted(before) if name not in now
    ]
    return SourceReading((*found, *gone), cast("Value", now))


def _file_change(name: str, how: str, stamp: str) -> Observation:
    path = Path(name)
    data: dict[str, Value] = {
        "file_path": name,
        "file_name": path.name,
        "extension": path.suffix,
        "change_type": how,
        "version": stamp,
    }
    return Observation("file_change", data, name)


def _stamps(sensor: Sensor, home: Path) -> Iterator[tuple[str, str]]:
    count = 0
    for path in _walk([home / Path(each).expanduser() for each in sensor.trigger.paths]):
        if not fnmatch.fnmatch(path.name, sensor.trigger.pattern):
            continue
        try:
            status = path.stat()
        except OSError:
            continue
        count += 1
        if count > MOST_FILES:
            raise InputError(f"`{sensor.id}` watches more than {MOST_FILES} files")
        yield str(path), f"{status.st_mtime_ns}-{status.st_size}"


def _walk(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        if root.is_file():
            yield root
        for folder, names, files in os.walk(root):
            names[:] = sorted(each for each in names if not each.startswith("."))
            yield from (Path(folder, each) for each in sorted(files) if not each.startswith("."))


def _schedule(sensor: Sensor, cursor: Value, now: Instant) -> SourceReading:
    """Fire once for all missed times: a schedule says when, not how often."""
    if not isinstance(cursor, str):
        happened = _tick(now) if sensor.trigger.initial == "fire" else ()
        return SourceReading(happened, instant_text(now))
    due = _after(sensor, read_instant(cursor))
    if due is None or due > now:
        return SourceReading((), cursor)
    last = now
    if sensor.trigger.every is not None:
        step = _step(sensor)
        last = Instant(due + (now - due) // step * step)
    return SourceReading(_tick(due), instant_text(last))


def _tick(at: Instant) -> tuple[Observation, ...]:
    return (Observation("schedule", {"scheduled_at": instant_text(at)}),)


def _after(sensor: Sensor, last: Instant) -> Instant | None:
    if sensor.trigger.every is not None:
        return Instant(last + _step(sensor))
    return read_cron(sensor.trigger.cron or "").next_after(last)


def _step(sensor: Sensor) -> int:
    return max(milliseconds(sensor.trigger.every or "1ms"), 1) * MILLISECOND


def _assets(sensor: Sensor, cursor: Value, database: Where, now: Instant) -> SourceReading:
    before = cast("dict[str, int]", cursor) if isinstance(cursor, dict) else {}
    since = Instant(max([*before.values(), EPOCH]) - OVERLAP) if before else EPOCH
    found: dict[str, int] = {}
    happened: list[Observation] = []
    if database.exists():
        with closing(LedgerReader(database)) as ledger:
            for each in ledger.of_kind(MATERIALIZED, Instant(max(since, EPOCH))):
                made = MATERIALIZED_FORM.decode(each.entry.payload)
                found[each.entry.id] = each.entry.at
                if made.asset_id == sensor.trigger.asset and each.entry.id not in before:
                    values = read_mapping(bytes(made.values))
                    data: dict[str, Value] = {"asset_id": made.asset_id, **values}
                    happened.append(
                        Observation("asset_materialized", data | {"entry_id": each.entry.id})
                    )
    is_first = cursor is None and sensor.trigger.initial == "ignore"
    newest = max([*found.values(), *before.values()], default=now)
    kept = {name: at for name, at in (before | found).items() if at >= newest - 2 * OVERLAP}
    return SourceReading(() if is_first else tuple(happened), cast("Value", kept))


def _commits(sensor: Sensor, cursor: Value, home: Path) -> SourceReading:
    folder = home / Path(sensor.trigger.repository or "").expanduser()
    lines = _git(folder, "for-each-ref", "--format=%(objectname) %(refname)", sensor.trigger.refs)
    now = {name: sha for sha, _, name in (line.partition(" ") for line in lines.splitlines())}
    before = cast("dict[str, str]", cursor) if isinstance(cursor, dict) else {}
    if cursor is None and sensor.trigger.initial == "ignore":
        before = now
    happened = [
        _commit(folder, sha, name)
        for name, end in sorted(now.items())
        if before.get(name) != end
        for sha in _between(folder, before.get(name, ""), end)
    ]
    return SourceReading(tuple(happened), cast("Value", now))


def _between(folder: Path, start: str, end: str) -> list[str]:
    which = f"{start}..{end}" if start else end
    most = f"--max-count={MOST_COMMITS if start else 1}"
    return _git(folder, "rev-list", "--reverse", most, which, "--").split()


def _commit(folder: Path, sha: str, ref: str) -> Observation:
    author, _, subject = _git(folder, "show", "-s", "--format=%an%n%s", sha, "--").partition("\n")
    listed = ("diff-tree", "--root", "--no-commit-id", "--name-only", "-r", "-z", sha, "--")
    files: list[Value] = [each for each in _git(folder, *listed).split("\0") if each]
    data: dict[str, Value] = {
        "commit_sha": sha,
        "author": author,
        "subject": subject.strip(),
        "ref": ref,
        "files_changed": files,
    }
    return Observation("git_commit", data, sha)


def _git(folder: Path, *words: str) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program, and no word of it is an option of git
            [*_GIT, "-C", str(folder), *words],
            capture_output=True,
            check=False,
            timeout=GIT_S,
            env=kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"git cannot be asked: {error}", where=str(folder)) from None
    if done.returncode != 0:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise InputError(f"git said no: {' '.join(why)}", where=str(folder))
    return done.stdout.decode("utf-8", "replace")
