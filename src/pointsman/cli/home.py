"""`init` and `doctor`: write a starter home, and check that a home is in order."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

import click

from pointsman.app import Pointsman
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command, waits
from pointsman.operations.doctor import DoctorFinding, examine_home
from pointsman.operations.services import (
    STARTER_SERVICES,
    missing_keys,
    services_named,
    services_with_keys,
)
from pointsman.operations.starter import FIRST_NAMES, NAMES, service_texts, write_starter
from pointsman.turns.registry.services import ModelService


@click.command(cls=ExampleCommand)
@click.option(
    "--with",
    "services",
    metavar="NAMES",
    help="Services to use: openai,anthropic,…; NAME@ADDRESS where one is not at its own address.",
)
@click.option("--all", "is_all", is_flag=True, help="Write every file, not only the first ones.")
@command
def init(session: Session, services: str | None, is_all: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Write a commented starter home; files that exist are left alone.

    On a terminal, without --with, it asks which services to use.
    """
    if services is not None:
        chosen = services_named(_names(services))
    elif _is_dialogue(session):
        chosen = _ask_services()
    else:
        chosen = ()
    with session.open(create=True) as pointsman:
        texts = service_texts(pointsman.home, chosen, os.environ)
        written, kept = write_starter(pointsman.home, NAMES if is_all else FIRST_NAMES, texts)
        store = pointsman.home.store.prepare()
    lines = [f"home     {session.home}", *([f"store    {store}"] if store else [])]
    lines += [f"written  {name}" for name in written]
    lines += [f"kept     {name}" for name in kept]
    missing = missing_keys(chosen, os.environ)
    lines += [f"set      {name}" for name in missing]
    where = f" --home {session.home}" if session.is_home_given else ""
    then = f"doctor --call{where}" if chosen else f"route{where} 'hello'"
    lines.append(f"next     pointsman {then}")
    told = {"home": str(session.home), "written": written, "kept": kept}
    told |= {"missing_keys": missing} if chosen else {}
    session.show("\n".join(lines), {**told, "store": store} if store else told)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _is_dialogue(session: Session) -> bool:
    """Tell whether to ask: people at a terminal, about a home that has no models yet."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and not session.as_json and not (session.home / "models.yaml").exists()


def _ask_services() -> tuple[ModelService, ...]:
    """Ask which services to use, offering those whose keys are set."""
    found = services_with_keys(os.environ)
    for service in found:
        click.echo(f"found a key of {service.name}", err=True)
    click.echo(f"services: {', '.join(each.name for each in STARTER_SERVICES)}", err=True)
    offered = ",".join(each.name for each in found) or "none"
    given = click.prompt("use which (names, or none)", default=offered, err=True)
    return () if given.strip() == "none" else services_named(_names(given))


@click.command(cls=ExampleCommand)
@click.option("--call", "is_calling", is_flag=True, help="Call each model once, for one word.")
@command
@waits("checking")
def doctor(session: Session, is_calling: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Check everything that can be checked, and say what to fix.

    With --call every model whose key is found is asked for one word: it costs next to nothing,
    and is decided, charged and recorded as any turn.
    """
    with session.open() as pointsman:
        witnesses = pointsman.files.settings().value.witnesses
        findings = examine_home(pointsman.home, pointsman.in_force(), witnesses)
        if is_calling:
            findings += _call_models(pointsman)
    lines = []
    for each in findings:
        lines.append(f"{each.state:<7}  {each.subject:<14} {each.detail}")
        lines += [f"         {'':<14} next: {each.hint}"] if each.hint else []
    session.show("\n".join(lines), findings)
    sys.exit(1 if any(each.state == "fault" for each in findings) else 0)


def _call_models(pointsman: Pointsman) -> Sequence[DoctorFinding]:
    # Imported here: the other checks need no conversations.
    from pointsman.operations.model_trials import (  # noqa: PLC0415 - see above
        answering_models,
        call_each,
        trial_findings,
    )

    configured = pointsman.gathering.configured_models(pointsman.in_force())
    names = answering_models(configured)
    return trial_findings(asyncio.run(call_each(pointsman.conversations, names)))
