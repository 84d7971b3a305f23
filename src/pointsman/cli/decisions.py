"""`decision`: which branch a workflow takes; list, check, evaluate, try out and import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import msgspec

from pointsman.app import SystemClock
from pointsman.branches.dmn.table_import import NO_MATCH
from pointsman.branches.file.decisions_file import HitPolicy
from pointsman.branches.policy import named_decisions
from pointsman.branches.rules.review import BranchFinding, review
from pointsman.cli.decision_records import cache, distribution, lineage, log
from pointsman.cli.decision_terms import decisions_in_force, read_context
from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command, count_text, read_input
from pointsman.errors import DocumentError, InputError, PointsmanError, Problem
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.kernel.columns import table
from pointsman.kernel.document import Document, printable
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.files import write_new
from pointsman.storage.policies.decision_files import DecisionsInForce
from pointsman.storage.policies.workflow_file import check_targets
from pointsman.workflows.branch_log import (
    decision_value,
    dry_run_value,
    duration,
    evaluation_screen,
    evaluation_value,
)
from pointsman.workflows.branching import EvaluationRequest, dry_run
from pointsman.workflows.decision_import import import_table

_INPUT_HELP = "The context: JSON, @FILE, or - for standard input."
_COLUMN = "column "


@click.group(cls=CommandGroup)
def decision() -> None:
    """Decide which branch a workflow takes, by the files in decisions/."""


@decision.command("list")
@command
def list_(session: Session) -> None:
    """List the decisions in force."""
    in_force = decisions_in_force(session)
    session.warn(in_force.problems)
    found = in_force.policy.decisions
    rows = [
        (each.id, each.type, str(len(each.cases)), _ttl_text(each.cache.enabled, each.cache.ttl_ms),
         in_force.sources[each.id], each.name)
        for each in found
    ]  # fmt: skip
    text = table([("DECISION", "TYPE", "CASES", "CACHE", "FILE", "NAME"), *rows])
    session.show(
        text if rows else "there are no decisions; write one in decisions/",
        [
            decision_value(each, in_force.sources[each.id], in_force.policy_id(each.id))
            for each in found
        ],
    )


@decision.command()
@click.argument("decision_id", metavar="ID")
@command
def show(session: Session, decision_id: str) -> None:
    """Show one decision as it is in force, every default filled in."""
    in_force = decisions_in_force(session)
    session.warn(in_force.problems)
    found = in_force.ready.decision(decision_id).decision
    source = in_force.sources[decision_id]
    rows = [
        (f"  {number}", each.condition or each.weight or _ranges(each.ranges), "->", each.target,
         each.label)
        for number, each in enumerate(found.cases, 1)
    ]  # fmt: skip
    kind = f"{found.type}, {found.hit_policy}" if found.type == "rule_table" else found.type
    lines = [
        f"{found.id} · {found.name} · {kind}",
        f"input    {found.input}",
        *table(rows).splitlines(),
        f"default  {found.default_target}",
        f"cache    {_ttl_text(found.cache.enabled, found.cache.ttl_ms)}",
        *(f"guard    {each.type}: {each.action_on_fail}" for each in found.guardrails),
        f"file     {source}",
        f"policy   {in_force.policy_id(decision_id)}",
    ]
    value = decision_value(found, source, in_force.policy_id(decision_id))
    session.show("\n".join(map(printable, lines)), value)


@decision.command()
@command
def check(session: Session) -> None:
    """List every error of decisions/ and workflows/, then gaps, overlaps and shadows."""
    in_force = decisions_in_force(session)
    problems = [*in_force.problems, *_graph_problems(session, in_force)]
    findings = review(in_force.policy)
    lines = [line for each in problems for line in _problem_lines(each)]
    lines += [line for each in findings for line in _finding_lines(each)]
    if not problems:
        many = count_text(len(in_force.policy.decisions), "decision")
        rest = f", with {count_text(len(findings), 'warning')}" if findings else ""
        lines.append(f"{many} ok{rest}")
    value = {
        "ok": not problems,
        "decisions": len(in_force.policy.decisions),
        "problems": [
            {"place": str(e.place), "code": e.code, "message": e.message, "hint": e.hint}
            for e in problems
        ],
        "warnings": [_finding_value(each) for each in findings],
    }
    session.show("\n".join(map(printable, lines)), value)
    sys.exit(2 if problems else 0)


@decision.command()
@click.argument("decision_id", metavar="ID")
@click.option("--input", "given", required=True, metavar="JSON|@FILE|-", help=_INPUT_HELP)
@click.option("--workflow-id", default="", help="The run this belongs to.")
@click.option("--stage-id", default="", help="The stage this belongs to.")
@click.option("--approve", multiple=True, metavar="TARGET", help="A target you approve; recorded.")
@command
def evaluate(
    session: Session,
    decision_id: str,
    given: str,
    workflow_id: str,
    stage_id: str,
    approve: tuple[str, ...],
) -> None:
    """Evaluate a decision and record the answer; 1 where a guardrail blocks it."""
    context = read_context(given)
    with session.open(create=True) as pointsman:
        session.warn(pointsman.branching.in_force().problems)
        asked = EvaluationRequest(workflow_id, stage_id, approved=approve)
        made = pointsman.branching.evaluate(decision_id, context, asked)
    session.show(evaluation_screen(made), evaluation_value(made))
    sys.exit(1 if made.outcome.blocked else 0)


@decision.command("dry-run")
@click.argument("decision_id", metavar="ID")
@click.option("--input", "given", required=True, metavar="JSON|@FILE|-", help=_INPUT_HELP)
@command
def dry_run_(session: Session, decision_id: str, given: str) -> None:
    """Evaluate a decision and leave nothing behind; 1 where a guardrail would block it."""
    context = read_context(given)
    in_force = decisions_in_force(session)
    # The user wants to try the file, not its last good version.
    problems = in_force.problems_of(decision_id)
    if problems or (decision_id not in in_force.decisions and in_force.problems):
        raise DocumentError(problems or in_force.problems)
    made = dry_run(in_force, decision_id, context, SystemClock().now())
    session.show(evaluation_screen(made), dry_run_value(made))
    sys.exit(1 if made.outcome.blocked else 0)


@decision.command("import")
@click.argument("file", metavar="FILE")
@click.option("--id", "name", help="The decision's id, for CSV [the file's name].")
@click.option("--hit-policy", type=click.Choice(get_args(HitPolicy)), default="first",
              metavar="POLICY", help="Which of the true rules count, for CSV [first].")  # fmt: skip
@click.option("--default", "default", default=NO_MATCH, help="The target where nothing matches.")
@click.option("--output", metavar="FILE", help="Write to a new file instead of printing.")
@command
def import_(
    session: Session,
    file: str,
    name: str | None,
    hit_policy: HitPolicy,
    default: str,
    output: str | None,
) -> None:
    """Turn a decision table of DMN 1.3 to 1.5, or a CSV file, into YAML."""
    found = import_table(*read_input(file), name, hit_policy=hit_policy, default=default)
    text = found.text
    session.warn(found.unread)
    if output is not None:
        try:
            is_new = write_new(Path(output), text.encode())
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", where=output) from error
        if not is_new:
            raise InputError("the file is there already", where=output)
    session.show(
        text.rstrip("\n") if output is None else f"written  {output}",
        {"yaml": text, "written": output, "not_read": [str(each) for each in found.unread]},
    )


for _part in (log, distribution, cache, lineage):
    decision.add_command(_part)


def _graph_problems(session: Session, in_force: DecisionsInForce) -> Iterator[Problem]:
    broken = {each.name for each in in_force.invalid}
    unread = _unread([session.home / name for name in broken if name.startswith("decisions/")])
    for path in sorted((session.home / "workflows").glob("*.y*ml")):
        if f"workflows/{path.name}" in broken:
            continue
        try:
            others = [each.id for each in in_force.workflows]
            text, known = path.read_bytes(), in_force.decisions
            check_targets(text, str(path), known, others, unread)
        except DocumentError as error:
            yield from error.problems


def _unread(broken: list[Path]) -> frozenset[str] | None:
    """Name the decisions that broken files mean; None where that cannot be told."""
    try:
        named = [named_decisions(path.read_bytes()) for path in broken]
    except OSError:
        return None
    told = [each for each in named if each is not None]
    return frozenset[str]().union(*told) if len(told) == len(named) else None


def _problem_lines(problem: Problem) -> Iterator[str]:
    yield str(problem)
    yield from (f"  {line}" for line in _caret(problem).splitlines())


def _caret(problem: Problem) -> str:
    """Show the expression a problem is about, with a caret below its column."""
    if not problem.message.startswith(_COLUMN):
        return ""
    try:
        path = Path(problem.place.source)
        text = _value_at(parse_yaml(path.read_bytes(), str(path)), problem)
        column = int(problem.message.removeprefix(_COLUMN).partition(":")[0])
    except (OSError, ValueError, PointsmanError):
        return ""
    return ExpressionRefused(text=text, at=column - 1).caret() if text else ""


def _value_at(document: Document, problem: Problem) -> str:
    at = (problem.place.line, problem.place.column)
    for path, position in document.values.items():
        value = document.value
        for step in path:
            value = value[step]  # type: ignore[index] # the path is the document's own
        if position == at and isinstance(value, str):
            return value
    return ""


def _finding_lines(finding: BranchFinding) -> Iterator[str]:
    yield f"warning: {finding.decision_id}: {finding.code}: {finding.message}"
    if finding.example is not None:
        yield f"  for example {_json(finding.example)}"


def _finding_value(finding: BranchFinding) -> dict[str, object]:
    example = None if finding.example is None else msgspec.Raw(_json(finding.example).encode())
    return {**msgspec.structs.asdict(finding), "example": example}


def _json(value: object) -> str:
    return msgspec.json.Encoder(decimal_format="number").encode(value).decode()


def _ttl_text(enabled: bool, ttl_ms: int) -> str:  # noqa: FBT001 - one of two columns
    return duration(ttl_ms) if enabled else "off"


def _ranges(ranges: tuple[tuple[int, ...], ...] | None) -> str:
    return ", ".join(f"{start}-{end}" for start, end in ranges or ())
