"""`demo`: a seeded day of a small team, lived through on the real engine in seconds."""

from __future__ import annotations

import signal
import tempfile
import threading
from pathlib import Path

import click

from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError


@click.command(cls=ExampleCommand)
@click.option("--serve", "is_served", is_flag=True, help="Then serve the dashboard on that day.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Its port [a free one].")
@command
def demo(session: Session, is_served: bool, port: int) -> None:  # noqa: FBT001 - click passes flags so
    """Live through a day of a small team on scripted models, and see the proof.

    An outage, a leak attempt, a budget that runs out, learning that begins to pay. The five models
    on this machine are scripted, without a key or a network; the gateway, the decisions and the
    ledger are real. The day stands in a new folder, or in the one that --home names, which must
    not hold a home yet.
    """
    # Imported here: a gateway and its scripted providers cost more to import than most commands.
    from pointsman.demo.story import tell_day  # noqa: PLC0415 - see above
    from pointsman.demo.town import open_town  # noqa: PLC0415 - see above

    home = session.home if session.is_home_given else Path(tempfile.mkdtemp()) / "demo-home"
    if home.exists() and any(home.iterdir()):
        hint = "name an empty or a new folder, or leave --home out"
        raise InputError(f"{home} is in use", hint=hint)
    told: list[dict[str, object]] = []
    with open_town(home, port) as town:
        for number, step in enumerate(tell_day(town), 1):
            told.append({"title": step.title, "lines": step.lines, "command": step.command})
            if not session.as_json:
                click.secho(f"\n{number}. {step.title}", bold=True)
                for line in step.lines:
                    click.echo(f"   {line}".rstrip())
                click.secho(f"   $ {step.command} --home {home}", dim=True)
        if session.as_json:
            session.show("", {"home": str(home), "steps": told})
        if is_served:
            ended = _watch_for_end()
            token = town.admin_token
            click.echo(f"\ndashboard  {town.address}/\nadmin token {token}\nCtrl-C ends it")
            ended.wait()


def _watch_for_end() -> threading.Event:
    """Return an event that is set when the operator ends the program, by Ctrl-C or a signal."""
    ended = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ended.set())
    return ended
