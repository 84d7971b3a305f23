"""Files in `workflows/`: stages, what each does, and which decision says where to go from there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from pointsman.branches.file.decisions_file import AnyValue
from pointsman.branches.policy import Decision
from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path, escape, refuse
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import parse_yaml, read_yaml
from pointsman.storage.policies.action_written import (
    Action,
    PlainName,
    action_problems,
    value_problems,
)


class StageAsset(Struct, frozen=True, forbid_unknown_fields=True):
    """What a stage brings into being, for sensors of the type `asset_materialized`."""

    id: PlainName
    values: dict[str, AnyValue] = {}


class Stage(Struct, frozen=True, forbid_unknown_fields=True):
    """One stage: an action, the context values it sets, and the stage that follows.

    `decision` names the decision that chooses; `next` goes on without one; without either the
    path ends here. `set` gives names of the context values, with `output` beside the context.
    """

    id: PlainName
    run: Action | None = None
    set: dict[str, AnyValue] = {}
    decision: str | None = None
    next: PlainName | None = None
    allow_failure: bool = False
    asset: StageAsset | None = None


class Workflow(Struct, frozen=True, forbid_unknown_fields=True):
    """Stages; a run begins at `start`, or at the first."""

    id: PlainName
    stages: Annotated[tuple[Stage, ...], Meta(min_length=1, max_length=500)]
    name: str = ""
    start: PlainName | None = None
    max_steps: Annotated[int, Meta(ge=1, le=10_000)] = 100

    @property
    def first(self) -> str:
        """The stage a run begins at."""
        return self.start or self.stages[0].id

    def stage(self, name: str) -> Stage | None:
        """Return a stage by its id."""
        return next((each for each in self.stages if each.id == name), None)


class WorkflowFile(Struct, frozen=True, forbid_unknown_fields=True):
    """One file: one workflow."""

    workflow: Workflow


def read_workflow(text: bytes, source: str) -> Workflow:
    """Read one file, or raise with every problem at its place."""
    return conform(parse_yaml(text, source), WorkflowFile, _problems).workflow


def check_targets(
    text: bytes,
    source: str,
    decisions: Mapping[str, Decision],
    others: Collection[str] = (),
    unread: Collection[str] | None = (),
) -> None:
    """Raise unless every decision is known, and leads to stages here or to other workflows.

    `unread` are the decisions of broken files, whose targets are not known; None where these may
    be any.
    """
    document = read_yaml(text, source)
    workflow = conform(document, WorkflowFile).workflow
    refuse(_target_problems(workflow, document, decisions, others, unread))


def possible_targets(decision: Decision) -> tuple[str, ...]:
    """Return every target a decision can lead to, each once, as they are written."""
    guarded = [each.escalation_target for each in decision.guardrails]
    named = [each.target for each in decision.cases] + [decision.default_target]
    return tuple(dict.fromkeys([*named, *(each for each in guarded if each is not None)]))


def _problems(file: WorkflowFile, document: Document) -> Iterable[Problem]:
    workflow = file.workflow
    if not document.is_read(("workflow", "stages")):
        return
    known = [each.id for each in workflow.stages]
    if workflow.start is not None and workflow.start not in known:
        yield _unknown(document, ("workflow", "start"), workflow.start, known)
    for index, stage in enumerate(workflow.stages):
        at: Path = ("workflow", "stages", index)
        if stage.id in known[:index]:
            message = f"the stage `{stage.id}` is there already"
            yield document.problem((*at, "id"), Code.DUPLICATE_KEY, message)
        yield from _stage_problems(stage, document, at, known)


def _stage_problems(
    stage: Stage, document: Document, at: Path, known: list[str]
) -> Iterator[Problem]:
    if stage.next is not None and stage.decision is not None:
        message = "a stage has either `decision` or `next`"
        yield document.problem((*at, "next"), Code.INVALID_VALUE, message)
    if stage.next is not None and stage.next not in known:
        yield _unknown(document, (*at, "next"), stage.next, known)
    if stage.run is not None:
        yield from action_problems(stage.run, document, (*at, "run"))
    yield from value_problems(stage.set, document, (*at, "set"))
    if stage.asset is not None:
        yield from value_problems(stage.asset.values, document, (*at, "asset", "values"))


def _target_problems(
    workflow: Workflow,
    document: Document,
    decisions: Mapping[str, Decision],
    others: Collection[str],
    unread: Collection[str] | None,
) -> Iterator[Problem]:
    known = [*(each.id for each in workflow.stages), *others]
    for index, stage in enumerate(workflow.stages):
        if stage.decision is None:
            continue
        if stage.decision not in decisions if unread is None else stage.decision in unread:
            continue
        path = ("workflow", "stages", index, "decision")
        found = decisions.get(stage.decision)
        if found is None:
            near = nearest(stage.decision, decisions)
            hint = f"did you mean `{near}`?" if near else ""
            message = f"there is no decision `{escape(stage.decision)}`"
            yield document.problem(path, Code.UNKNOWN_VALUE, message, hint)
            continue
        for target in possible_targets(found):
            if target not in known:
                message = f"`{found.id}` can lead to `{escape(target)}`, which is no stage here"
                yield document.problem(path, Code.UNKNOWN_VALUE, message)


def _unknown(document: Document, path: Path, name: str, known: list[str]) -> Problem:
    near = nearest(name, known)
    hint = f"did you mean `{near}`?" if near else ""
    return document.problem(path, Code.UNKNOWN_VALUE, f"there is no stage `{escape(name)}`", hint)
