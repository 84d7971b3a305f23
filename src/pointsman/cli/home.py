"""`init` and `doctor`: write a starter home, and check that a home is in order."""

from __future__ import annotations

import sys

import click

from pointsman.cli.terms import Session, command
from pointsman.operations.doctor import examine_home
from pointsman.operations.starter import write_starter


@click.command()
@command
def init(session: Session) -> None:
    """Write a commented starter home; files that exist are left alone."""
    with session.open(create=True) as pointsman:
        written, kept = write_starter(pointsman.home)
        store = pointsman.home.store.prepare()
    lines = [f"home     {session.home}", *([f"store    {store}"] if store else [])]
    lines += [f"written  {name}" for name in written]
    lines += [f"kept     {name}" for name in kept]
    where = f" --home {session.home}" if session.is_home_given else ""
    lines.append(f"next     pointsman route{where} 'hello'")
    told = {"home": str(session.home), "written": written, "kept": kept}
    session.show("\n".join(lines), {**told, "store": store} if store else told)


@click.command()
@command
def doctor(session: Session) -> None:
    """Check everything that can be checked, and say what to fix."""
    with session.open() as pointsman:
        findings = examine_home(pointsman.home, pointsman.in_force())
    lines = []
    for each in findings:
        lines.append(f"{each.state:<7}  {each.subject:<14} {each.detail}")
        lines += [f"         {'':<14} next: {each.hint}"] if each.hint else []
    session.show("\n".join(lines), findings)
    sys.exit(1 if any(each.state == "fault" for each in findings) else 0)
