"""Files in `sensors/`: what to watch for, which decision says where it goes, what runs there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.branches.file.decisions_file import AnyValue, Duration
from pointsman.branches.policy import Decision
from pointsman.errors import InputError, Problem
from pointsman.expressions.expression import condition
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path, escape
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.policies.action_written import (
    Action,
    PlainName,
    Text,
    action_problems,
    value_problems,
)
from pointsman.storage.policies.cron import read_cron
from pointsman.storage.policies.workflow_file import possible_targets
from pointsman.turns.registry.login import SecretRef

SensorType = Literal[
    "file_change", "git_commit", "schedule", "webhook", "asset_materialized", "manual"
]
Retries = Annotated[int, Meta(ge=0, le=100)]


class Trigger(Struct, frozen=True, forbid_unknown_fields=True):
    """When a sensor fires. `filter` looks at `event`; only true lets an event pass.

    `paths` and `pattern` belong to file_change, `repository` and `refs` to git_commit, `every` and
    `cron` (UTC) to schedule, `asset` to asset_materialized, `secret` to webhook. With `initial:
    fire`, all that a sensor finds at its first look counts as new.
    """

    paths: tuple[Text, ...] = ()
    pattern: Text = "*"
    repository: Text | None = None
    refs: Annotated[str, Meta(max_length=200, pattern="^refs/")] = "refs/heads/*"
    every: Duration | None = None
    cron: Text | None = None
    asset: PlainName | None = None
    secret: SecretRef | None = None
    filter: Text | None = None
    debounce: Duration = "0s"
    dedup: Duration = "1h"
    initial: Literal["ignore", "fire"] = "ignore"


class ErrorHandling(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens when a target fails: tried again with growing pauses, then a dead letter."""

    on_failure: Literal["retry", "alert", "disable"] = "retry"
    max_retries: Retries = 3
    alert_after: Annotated[int, Meta(ge=1, le=100)] = 3
    backoff: Duration = "1s"


class SensorTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """What runs: an action, or a workflow of `workflows/` with its inputs."""

    run: Action | None = None
    workflow: Text | None = None
    inputs: dict[str, AnyValue] = {}


class Sensor(Struct, frozen=True, forbid_unknown_fields=True):
    """One sensor: with a `decision` its `targets` by name, without one its only `target`."""

    id: PlainName
    type: SensorType
    name: str = ""
    enabled: bool = True
    trigger: Trigger = Trigger()
    decision: str | None = None
    target: SensorTarget | None = None
    targets: dict[str, SensorTarget] = {}
    error_handling: ErrorHandling = ErrorHandling()
    owner: str = ""
    tags: tuple[str, ...] = ()

    @property
    def every_target(self) -> dict[str, SensorTarget]:
        """The targets by name; a single one goes by the sensor's id."""
        return self.targets if self.target is None else {self.id: self.target}


class SensorsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file: a sensor or a list of them."""

    sensor: Sensor | UnsetType = UNSET
    sensors: tuple[Sensor, ...] = ()

    @property
    def every(self) -> tuple[Sensor, ...]:
        """The sensors of the file."""
        return self.sensors if isinstance(self.sensor, UnsetType) else (self.sensor,)


NO_SENSORS = SensorsFile()


def read_sensors(text: bytes, source: str) -> SensorsFile:
    """Read one file, or raise with every problem at its place."""
    return conform(parse_yaml(text, source), SensorsFile, _problems)


def check_sensors(
    sensors: Iterable[Sensor], decisions: Mapping[str, Decision]
) -> dict[str, list[str]]:
    """Return the problems between sensors and decisions, by sensor: every branch must run."""
    found = {each.id: [*_unrunnable(each, decisions)] for each in sensors}
    return {name: problems for name, problems in found.items() if problems}


def _unrunnable(sensor: Sensor, decisions: Mapping[str, Decision]) -> Iterator[str]:
    decision = decisions.get(sensor.decision or "")
    if sensor.decision is not None and decision is None:
        near = nearest(sensor.decision, decisions)
        hint = f" (did you mean `{near}`?)" if near else ""
        yield f"there is no decision `{escape(sensor.decision)}`{hint}"
    for target in () if decision is None else possible_targets(decision):
        if target not in sensor.targets:
            yield f"nothing runs for the target `{escape(target)}`"


_NEEDS = {
    "file_change": ("paths",),
    "git_commit": ("repository",),
    "schedule": ("every", "cron"),
    "asset_materialized": ("asset",),
}


def _problems(file: SensorsFile, document: Document) -> Iterable[Problem]:
    if (("sensor",) in document.keys) == (("sensors",) in document.keys):
        message = "a file has either `sensor` or `sensors`"
        yield document.problem((), Code.MISSING_KEY, message)
    seen: set[str] = set()
    for index, sensor in enumerate(file.every):
        at: Path = ("sensors", index) if file.sensors else ("sensor",)
        if sensor.id in seen:
            message = f"the sensor `{sensor.id}` is there already"
            yield document.problem((*at, "id"), Code.DUPLICATE_KEY, message)
        seen.add(sensor.id)
        yield from _trigger_problems(sensor, document, (*at, "trigger"))
        yield from _target_problems(sensor, document, at)


def _trigger_problems(sensor: Sensor, document: Document, at: Path) -> Iterator[Problem]:
    trigger, needs = sensor.trigger, _NEEDS.get(sensor.type, ())
    if needs and sum(bool(getattr(trigger, name)) for name in needs) != 1:
        names = " or ".join(f"`{name}`" for name in needs)
        yield document.problem(at, Code.MISSING_KEY, f"`{sensor.type}` needs {names}")
    if trigger.cron is not None:
        try:
            read_cron(trigger.cron)
        except InputError as error:
            yield document.problem((*at, "cron"), Code.INVALID_VALUE, error.message, error.hint)
    if trigger.filter is not None:
        try:
            condition(trigger.filter)
        except ExpressionRefused as refusal:
            message = f"column {refusal.column}: {refusal.message}"
            yield document.problem((*at, "filter"), Code.INVALID_VALUE, message, refusal.hint)


def _target_problems(sensor: Sensor, document: Document, at: Path) -> Iterator[Problem]:
    if (sensor.decision is None) != (sensor.target is not None):
        message = "a sensor has a `decision` with `targets`, or one `target`"
        yield document.problem(at, Code.INVALID_VALUE, message)
    places: list[tuple[Path, SensorTarget]] = [
        ((*at, "targets", name), each) for name, each in sensor.targets.items()
    ]
    if sensor.target is not None:
        places.append(((*at, "target"), sensor.target))
    for place, each in places:
        if (each.run is None) == (each.workflow is None):
            message = "a target has either `run` or `workflow`"
            yield document.problem(place, Code.INVALID_VALUE, message)
        if each.run is not None:
            yield from action_problems(each.run, document, (*place, "run"))
        yield from value_problems(each.inputs, document, (*place, "inputs"))
