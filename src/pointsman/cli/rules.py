"""`rules`: check, show, reload, test and publish the policy of turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command, count_text, read_input, waits
from pointsman.errors import DocumentError
from pointsman.kernel.document import printable
from pointsman.operations.rules.check import (
    bare_folder,
    check_files,
    check_text,
    check_value,
    errors,
    files_to_check,
    last_good_files,
    origin_lines,
    origin_value,
    other_files,
    reload_text,
    reloaded_files,
    rules_text,
    rules_value,
)
from pointsman.signals.kinds import KINDS
from pointsman.storage.home import open_home
from pointsman.storage.policies.ledger_policies import opened_policies
from pointsman.storage.policies.policies import PolicyFiles

if TYPE_CHECKING:
    from pointsman.operations.rules.cases import RuleCaseResult, TableReport
    from pointsman.turns.compiled import CompiledTurnPolicy


@click.group(cls=CommandGroup)
def rules() -> None:
    """Check, show, reload, test and publish the rules of routing.yaml."""


@rules.command()
@click.argument("folder", metavar="[DIR]", required=False)
@command
def check(session: Session, folder: str | None) -> None:
    """List every error of the policy files, then warnings; `ok` when nothing is wrong.

    DIR is a home, or any folder of policy files: in that, nothing is written.
    """
    if folder is not None:
        session = Session(folder, as_json=session.as_json, store=session.store)
    with _policy_files(session) as files:
        found = check_files(files_to_check(files), other_files(files.path))
        in_force = files.in_force()
        if not files.is_kept:
            # No earlier version is known there, and nothing is in force.
            found = replace(found, stand_ins=())
    text = "\n".join([check_text(found), *origin_lines(in_force)])
    session.show(text, {**check_value(found), "in_force": origin_value(in_force)})
    sys.exit(2 if found.errors else 0 if found.proof.holds else 1)


@rules.command()
@command
def show(session: Session) -> None:
    """Print the rules in force, in the order in which they are tried."""
    with session.open() as pointsman:
        in_force = pointsman.in_force()
        session.warn(in_force.problems)
    policy = in_force.ready.policy
    value = {**rules_value(policy, in_force.policy_id), "in_force": origin_value(in_force)}
    session.show("\n".join([rules_text(policy), *origin_lines(in_force)]), value)


@rules.command()
@command
def reload(session: Session) -> None:
    """Read the policy files anew, and say what changed and what is in force."""
    with session.open() as pointsman:
        before = last_good_files(pointsman.home)
        in_force = pointsman.reload()
        files = reloaded_files(pointsman.home, before, in_force)
    session.warn(in_force.problems)
    value = {"files": files, "policy_id": in_force.policy_id, "in_force": origin_value(in_force)}
    session.show(reload_text(files, in_force), value)


@rules.command()
@click.option("--over", metavar="ID", default=None, help="Only in the place of this publication.")
@click.option("--by", metavar="NAME", default=None, help="Who publishes [the user's name].")
@command
@waits("publishing")
def publish(session: Session, over: str | None, by: str | None) -> None:
    """Publish the policy files of this machine for all who follow the ledger."""
    with session.open() as pointsman:
        given = pointsman.publishing().candidate()
        if over is not None:
            given = replace(given, over=over)
        done = pointsman.publish(given, by or getuser())
        in_force = pointsman.in_force()
    said = "published" if done.is_new else "this is published already"
    value = {**origin_value(in_force), "is_new": done.is_new}
    session.show("\n".join([said, *origin_lines(in_force)]), value)


@rules.command()
@click.argument("file", metavar="FILE|-")
@command
@waits("deciding the cases")
def test(session: Session, file: str) -> None:
    """Run a table of expected decisions against the rules; nothing is recorded."""
    # Imported here: the other commands decide nothing.
    from pointsman.operations.rules.cases import read_table, run_on_files  # noqa: PLC0415 - see above

    with _policy_files(session) as files:
        cases = read_table(*read_input(file))
        _sound_policy(files)
        report = run_on_files(files, cases)
    session.show(_report_text(report), _report_value(report))
    sys.exit(1 if report.failures else 0)


@rules.command()
@click.argument("file", metavar="[FILE|-]", required=False)
@click.option("--claim", metavar="YAML", multiple=True, help="A claim, in place of a file of them.")
@click.option(
    "--cases", is_flag=True, help="Print the examples alone, as a table for `rules test`."
)
@command
@waits("proving")
def prove(session: Session, file: str | None, claim: tuple[str, ...], cases: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Answer claims about every turn there can be, exactly; exit 1 when one is refuted.

    Without claims: private turns reach no cloud model, and every rule can fire.
    """
    # Imported here: the other commands prove nothing.
    from pointsman.operations.rules.proofs import (  # noqa: PLC0415 - see above
        proof_cases,
        proof_text,
        proof_value,
        prove_claims,
        read_claim_text,
        usual_claims,
    )

    with _policy_files(session) as files:
        ready = _sound_policy(files)
        given = [(each.encode(), "--claim") for each in claim]
        given += [read_input(file)] if file is not None else []
        asked = tuple(each for text in given for each in read_claim_text(*text, ready))
        report = prove_claims(files, asked or usual_claims(ready))
    text = proof_cases(report).rstrip("\n") if cases else proof_text(report)
    session.show(text, proof_value(report))
    sys.exit(1 if report.failures else 0)


@rules.command()
@click.argument("old", metavar="OLD", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
@click.option("--markdown", is_flag=True, help="Write a comment for a code review.")
@click.option("--no-ledger", is_flag=True, help="Do not count the recorded turns of each kind.")
@command
@waits("comparing")
def diff(session: Session, old: Path, new: Path, markdown: bool, no_ledger: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Tell every kind of turns that two policies decide differently; exit 1 when there is one.

    OLD and NEW are folders of policy files, or files like routing.yaml over the home's models.
    """
    # Imported here: the other commands compare nothing.
    from pointsman.operations.rules.difference import (  # noqa: PLC0415 - see above
        compare_policies,
        difference_markdown,
        difference_text,
        difference_value,
        policy_at,
    )

    is_home = bare_folder(session.home, Path.cwd() if not session.is_home_named else None) is None
    with _policy_files(session) as files:
        before, after = policy_at(old, files), policy_at(new, files)
    home = None
    if is_home and not no_ledger:
        home = open_home(session.home, create=False, store=session.store)
    ranked = compare_policies(before, after, home)
    text = difference_markdown(ranked) if markdown else difference_text(ranked)
    session.show(text, difference_value(ranked))
    sys.exit(1 if ranked.kinds else 0)


def _sound_policy(files: PolicyFiles) -> CompiledTurnPolicy:
    """Return the policy of the files as written: nothing that stands in for it is looked at."""
    on_disk = files.on_disk()
    broken = errors(on_disk.invalid)
    if broken:
        raise DocumentError(broken)
    return on_disk.ready


@contextmanager
def _policy_files(session: Session) -> Iterator[PolicyFiles]:
    """Open the policy files of the home, or of a bare folder, as in a policy repository's CI."""
    bare = bare_folder(session.home, Path.cwd() if not session.is_home_named else None)
    if bare is not None:
        yield PolicyFiles(bare, tuple(each.name for each in KINDS), is_kept=False)
        return
    home = open_home(session.home, create=False, store=session.store)
    with closing(opened_policies(home, tuple(each.name for each in KINDS))) as files:
        yield files


def _report_text(report: TableReport) -> str:
    failed = [line for row in report.rows if row.state == "failed" for line in _row_lines(row)]
    passed = len(report.rows) - report.failures
    summary = f"{passed} of {count_text(len(report.rows), 'case')} passed"
    return "\n".join(printable(line) for line in [*failed, summary])


def _row_lines(row: RuleCaseResult) -> list[str]:
    return [
        f"FAILED {row.place}: {row.note}",
        *(f"  {name}: expected {row.expected[name]}, got {row.got[name]}" for name in row.expected),
    ]


def _report_value(report: TableReport) -> dict[str, object]:
    return {
        "passed": len(report.rows) - report.failures,
        "failed": report.failures,
        "rows": report.rows,
    }
