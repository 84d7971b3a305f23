"""`rules`: check, show, reload and test the policy of turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Literal

import click
from msgspec import Struct

from pointsman.cli.models import table
from pointsman.cli.terms import Session, command, counted, read_input
from pointsman.errors import DocumentError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import printable
from pointsman.runs.rules_test import Row, TableReport, read_table
from pointsman.storage.home import Home
from pointsman.storage.policies import InForce, InvalidFile
from pointsman.storage.policy_file import LastGood
from pointsman.turns.policy import TurnPolicy
from pointsman.turns.review import (
    Finding,
    Scoped,
    condition_text,
    local_proof,
    review,
    scopes,
)

FILES = ("pointsman.yaml", "models.yaml", "routing.yaml", "placement.yaml")
EVERYWHERE = "everywhere"


@click.group()
def rules() -> None:
    """Check, show, reload and test the rules of routing.yaml."""


@rules.command()
@command
def check(session: Session) -> None:
    """List every error of the policy files, then warnings; `ok` when nothing is wrong."""
    with session.open() as pointsman:
        in_force = pointsman.reload()
    errors, notes = _errors(in_force), _notes(in_force)
    policy = in_force.ready.policy
    warnings, proof = review(policy), local_proof(policy)
    lines = [str(each) for each in errors]
    lines += [f"in force: {line}" for line in _stand_ins(in_force)]
    lines += [f"warning: {each}" for each in notes]
    lines += [f"warning: {_finding_text(each)}" for each in warnings]
    lines += [f"privacy: {'holds' if proof.holds else 'BROKEN'}: {proof.explanation}"]
    many = len(notes) + len(warnings)
    if not errors and proof.holds:
        lines.append(f"ok, with {counted(many, 'warning')}" if many else "ok")
    value = {
        "ok": not errors and proof.holds,
        "problems": [_problem_value(each) for each in (*errors, *notes)],
        "warnings": warnings,
        "privacy": proof,
        "policy_id": in_force.policy_id,
    }
    session.show("\n".join(map(printable, lines)), value)
    sys.exit(2 if errors else 0 if proof.holds else 1)


@rules.command()
@command
def show(session: Session) -> None:
    """Print the rules in force, in the order in which they are tried."""
    with session.open() as pointsman:
        in_force = pointsman.in_force()
        session.warn(in_force.problems)
    policy = in_force.ready.policy
    session.show(_rules_text(policy), _rules_value(policy, in_force.policy_id))


@rules.command()
@command
def reload(session: Session) -> None:
    """Read the policy files anew, and say what changed and what is in force."""
    with session.open() as pointsman:
        before = {name: _kept(pointsman.home, name) for name in FILES}
        in_force = pointsman.reload()
        files = [_reloaded(pointsman.home, name, before[name], in_force) for name in FILES]
    session.warn(in_force.problems)
    rows = [(each.name, each.state, each.in_force) for each in files]
    text = f"{table(rows)}\npolicy {in_force.policy_id}"
    session.show(text, {"files": files, "policy_id": in_force.policy_id})


@rules.command()
@click.argument("file", metavar="FILE|-")
@command
def test(session: Session, file: str) -> None:
    """Run a table of expected decisions against the rules; nothing is recorded."""
    with session.open() as pointsman:
        cases = read_table(*read_input(file))
        errors = _errors(pointsman.in_force())
        if errors:
            # What the user wants to test is the file, not what stands in for it.
            raise DocumentError(errors)
        report = pointsman.test_rules(cases)
    session.show(_report_text(report), _report_value(report))
    sys.exit(1 if report.failed else 0)


def _errors(in_force: InForce) -> tuple[Problem, ...]:
    return tuple(each for each in in_force.problems if each.code != Code.LAST_GOOD_NOT_KEPT)


def _notes(in_force: InForce) -> tuple[Problem, ...]:
    return tuple(each for each in in_force.problems if each.code == Code.LAST_GOOD_NOT_KEPT)


def _stand_ins(in_force: InForce) -> Iterator[str]:
    for each in in_force.invalid:
        if any(problem.code != Code.LAST_GOOD_NOT_KEPT for problem in each.problems):
            which = "the last good version" if each.using_last_known_good else "the defaults"
            if _is_shut(each):
                which = "nothing leaves this machine: the strictest reading"
            yield f"{which} of {each.name}, until it is mended"


def _is_shut(file: InvalidFile) -> bool:
    """Tell whether a broken file has nothing to stand in for it but the strictest reading."""
    return file.name == "placement.yaml" and not file.using_last_known_good


def _finding_text(finding: Finding) -> str:
    where = f"{finding.workspace}: " if finding.workspace else ""
    return f"{where}{finding.code}: {finding.message}"


def _problem_value(problem: Problem) -> dict[str, str]:
    return {
        "place": str(problem.place),
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }


def _rules_text(policy: TurnPolicy) -> str:
    lines: list[str] = []
    for scoped in scopes(policy):
        lines.append(scoped.workspace or EVERYWHERE)
        rows = [
            (f"  {number}", rule.name, condition_text(rule.when), "->", rule.use)
            for number, rule in enumerate(scoped.rules, 1)
        ]
        lines += table(rows).splitlines() if rows else ["  no rules"]
        lines += [f"  default  {default}" for default in (_default(policy, scoped),) if default]
    return "\n".join(map(printable, lines))


def _default(policy: TurnPolicy, scoped: Scoped) -> str | None:
    return scoped.scope.default or policy.global_default


def _rules_value(policy: TurnPolicy, policy_id: str) -> dict[str, object]:
    return {
        "policy_id": policy_id,
        "scopes": [
            {
                "workspace": scoped.workspace,
                "default": _default(policy, scoped),
                "rules": [
                    {
                        "name": rule.name,
                        "when": condition_text(rule.when),
                        "use": rule.use,
                        "is_global": number >= scoped.own or scoped.workspace is None,
                    }
                    for number, rule in enumerate(scoped.rules)
                ],
            }
            for scoped in scopes(policy)
        ],
    }


class _Reloaded(Struct, frozen=True):
    name: str
    state: Literal["changed", "unchanged", "new", "invalid", "absent"]
    in_force: str


def _kept(home: Home, name: str) -> bytes | None:
    return LastGood(home.last_good / f"{name}.last-known-good").load()[0]


def _reloaded(home: Home, name: str, before: bytes | None, in_force: InForce) -> _Reloaded:
    if not (home.path / name).exists():
        return _Reloaded(name, "absent", "the defaults are in force")
    broken = next((each for each in in_force.invalid if each.name == name), None)
    if broken is not None and any(p.code != Code.LAST_GOOD_NOT_KEPT for p in broken.problems):
        which = "the last good version is" if broken.using_last_known_good else "the defaults are"
        if _is_shut(broken):
            return _Reloaded(name, "invalid", "nothing leaves this machine")
        return _Reloaded(name, "invalid", f"{which} in force")
    if before is None:
        return _Reloaded(name, "new", "the file is in force")
    state: Literal["changed", "unchanged"] = (
        "unchanged" if before == _kept(home, name) else "changed"
    )
    return _Reloaded(name, state, "the file is in force")


def _report_text(report: TableReport) -> str:
    failed = [line for row in report.rows if row.state == "failed" for line in _row_lines(row)]
    passed = len(report.rows) - report.failed
    summary = f"{passed} of {counted(len(report.rows), 'case')} passed"
    return "\n".join(printable(line) for line in [*failed, summary])


def _row_lines(row: Row) -> list[str]:
    return [
        f"FAILED {row.place}: {row.note}",
        *(f"  {name}: expected {row.expected[name]}, got {row.got[name]}" for name in row.expected),
    ]


def _report_value(report: TableReport) -> dict[str, object]:
    return {
        "passed": len(report.rows) - report.failed,
        "failed": report.failed,
        "rows": report.rows,
    }
