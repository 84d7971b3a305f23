"""The folder `decisions/` of a home: each file with its last good content, all errors in one list.

Where `workflows/` has files, these, their stages and what sensors run are all targets there are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Generic, TypeVar

from pointsman.branches.compiled import CompiledDecisions, compile_policy
from pointsman.branches.file.decisions_file import DecisionsFile
from pointsman.branches.policy import (
    POLICY_FORM,
    BranchPolicy,
    Decision,
    branch_policy,
    read_policy,
)
from pointsman.errors import Problem
from pointsman.kernel.canonical import ContentId
from pointsman.storage.policies.policies import InvalidFile
from pointsman.storage.policies.policy_file import Loaded, PolicyFile
from pointsman.storage.policies.sensor_file import NO_SENSORS, SensorsFile, read_sensors
from pointsman.storage.policies.workflow_file import Workflow, read_workflow

T = TypeVar("T")

DECISIONS = "decisions"
WORKFLOWS = "workflows"
SENSORS = "sensors"

_NOTHING = DecisionsFile()


class DecisionsInForce:
    """The decisions in force, the place of each, and the problems of the files."""

    def __init__(
        self,
        policy: BranchPolicy,
        sources: dict[str, str],
        workflows: tuple[Workflow, ...],
        invalid: tuple[InvalidFile, ...],
    ) -> None:
        self.policy = policy
        self.sources = sources
        """The file each decision stands in, by the decision's id."""
        self.workflows = workflows
        self.invalid = invalid
        self._policy_ids: dict[str, ContentId] = {}

    @cached_property
    def ready(self) -> CompiledDecisions:
        """The decisions, ready to decide."""
        return compile_policy(self.policy)

    @cached_property
    def decisions(self) -> dict[str, Decision]:
        """The decisions by their ids."""
        return {each.id: each for each in self.policy.decisions}

    def policy_id(self, decision_id: str) -> ContentId:
        """Name what a decision is recorded under."""
        found = self._policy_ids.get(decision_id)
        if found is None:
            found = POLICY_FORM.id(policy_of(self.ready.decision(decision_id).decision))
            self._policy_ids[decision_id] = found
        return found

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong, file by file."""
        return tuple(problem for file in self.invalid for problem in file.problems)

    def problems_of(self, decision_id: str) -> tuple[Problem, ...]:
        """Return the problems with the file a decision stands in."""
        source = self.sources.get(decision_id)
        return tuple(p for file in self.invalid if file.name == source for p in file.problems)


def policy_of(decision: Decision) -> BranchPolicy:
    """Return the policy a decision is recorded under: itself, so that others may change freely."""
    return BranchPolicy((decision,))


class DecisionFiles:
    """The decisions of one home. Without `is_kept` nothing is ever written."""

    def __init__(self, home: Path, *, is_kept: bool = True) -> None:
        self._home = home
        self._workflows: YamlFolder[Workflow | None] = YamlFolder(home, WORKFLOWS, is_kept=is_kept)
        self._decisions: YamlFolder[DecisionsFile] = YamlFolder(home, DECISIONS, is_kept=is_kept)
        self._sensors: YamlFolder[SensorsFile] = YamlFolder(home, SENSORS, is_kept=is_kept)
        self._last: tuple[tuple[object, ...], DecisionsInForce] | None = None
        self._lock = threading.RLock()

    def current(self) -> DecisionsInForce:
        """Return the decisions in force; an edited file counts from the next call on."""
        with self._lock:
            workflows = [
                (name, self._workflows.load(name, (), read_workflow, None))
                for name in self._workflows.names()
            ]
            sensors = [
                self._sensors.load(name, (), read_sensors, NO_SENSORS)
                for name in self._sensors.names()
            ]
            files = self._read(_targets([each for _, each in workflows], sensors))
            seen = (*workflows, *files)
            if self._last is None or not _is_same(self._last[0], seen):
                self._last = (seen, _together(workflows, files))
            return self._last[1]

    def _read(self, targets: tuple[str, ...] | None) -> list[tuple[str, Loaded[DecisionsFile]]]:
        found: list[tuple[str, Loaded[DecisionsFile]]] = []
        taken: tuple[str, ...] = ()
        for name in self._decisions.names():
            read = partial(read_policy, targets=targets, taken=taken)
            loaded = self._decisions.load(name, (targets, taken), read, _NOTHING)
            taken += tuple(each.id for each in loaded.value.every)
            found.append((name, loaded))
        return found


class YamlFolder(Generic[T]):
    """The YAML files of one folder, each read once per change of itself or of its references."""

    def __init__(self, home: Path, name: str, *, is_kept: bool) -> None:
        self._path = home / name
        self._keep = home / "last-good" / name
        self._is_kept = is_kept
        self._files: dict[str, tuple[object, PolicyFile[T]]] = {}

    def names(self) -> list[str]:
        """Name the files there are; the order is part of the contract."""
        if not self._path.is_dir():
            return []
        return sorted(
            each.name
            for each in self._path.iterdir()
            if each.suffix in {".yaml", ".yml"} and not each.name.startswith(".")
        )

    def load(
        self, name: str, rests_on: object, parse: Callable[[bytes, str], T], default: T
    ) -> Loaded[T]:
        """Return a file; it is checked anew when a file it refers to has changed."""
        known = self._files.get(name)
        if known is None or known[0] != rests_on:
            path = self._path / name
            file = PolicyFile(path, parse, self._keep, default=default, is_kept=self._is_kept)
            known = self._files[name] = (rests_on, file)
        return known[1].current()


def _targets(
    workflows: list[Loaded[Workflow | None]], sensors: list[Loaded[SensorsFile]]
) -> tuple[str, ...] | None:
    """Return all targets; None where no workflow declares them, or a file is broken."""
    sources = [*(each.source for each in workflows), *(each.source for each in sensors)]
    if not workflows or any(each != "file" for each in sources):
        return None
    known = [each.value for each in workflows if each.value is not None]
    return (
        *(each.id for each in known),
        *(stage.id for each in known for stage in each.stages),
        *(target for file in sensors for each in file.value.every for target in each.every_target),
    )


def _together(
    workflows: list[tuple[str, Loaded[Workflow | None]]],
    files: list[tuple[str, Loaded[DecisionsFile]]],
) -> DecisionsInForce:
    sources = {
        given.id: f"{DECISIONS}/{name}" for name, each in files for given in each.value.every
    }
    invalid = [
        InvalidFile(f"{folder}/{name}", each.problems, each.using_last_known_good)
        for folder, loaded in ((WORKFLOWS, workflows), (DECISIONS, files))
        for name, each in loaded
        if each.problems
    ]
    return DecisionsInForce(
        branch_policy(each.value for _, each in files),
        sources,
        tuple(each.value for _, each in workflows if each.value is not None),
        tuple(invalid),
    )


def _is_same(last: tuple[object, ...], seen: tuple[object, ...]) -> bool:
    pairs = zip(last, seen, strict=False)
    return len(last) == len(seen) and all(_is_one(*each) for each in pairs)


def _is_one(left: object, right: object) -> bool:
    # A loaded file is the same object for as long as its bytes are.
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left[0] == right[0] and left[1] is right[1]
    return False
