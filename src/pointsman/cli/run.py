"""`run`: an agent that calls its models through a gateway, and the bill at its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from pointsman.access.keyring import ACCESS, Keyring
from pointsman.app import Pointsman
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.kernel.document import printable
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.operations.agent_start import AgentStart, agent_start
from pointsman.storage.announcement import gateway_address
from pointsman.turns.registry.provider_problems import callers_wire
from pointsman.turns.story.turn_story import TurnStory

KEY = "POINTSMAN_API_KEY"
MOST_TURNS = 10_000
_PROGRAM = "from pointsman.cli.main import main; main()"
STOP_S = 20
"""How long a gateway may take to write its last entries."""


@click.command(cls=ExampleCommand, context_settings={"ignore_unknown_options": True})
@click.argument("agent", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND …")
@command
def run(session: Session, agent: tuple[str, ...]) -> None:
    """Run an agent whose models are called through the gateway, and show the bill.

    The gateway that serves this home is used; where there is none, one runs on a free port for as
    long as the agent does. The agent gets addresses and a key in the variables it reads; the key is
    POINTSMAN_API_KEY, which only a home with virtual keys needs. Ends with the agent's own code.
    """
    with session.open(create=True) as pointsman:
        key, began = _key(pointsman), pointsman.clock.now()
        own_logins = _own_logins(pointsman)
    with _gateway(session) as address:
        start = agent_start(agent, address, key, own_logins)
        for note in start.notes:
            click.echo(f"note: {note}", err=True)
        code = _follow(start)
    with session.open() as pointsman:
        for line in _report(pointsman, began):
            click.echo(printable(line), err=True)
    sys.exit(code)


def _key(pointsman: Pointsman) -> str:
    """Return the key that the agent carries; any will do while the home has none."""
    given = os.environ.get(KEY, "")
    if given:
        return given
    place = pointsman.home.place(ACCESS)
    if place.exists():
        with closing(Keyring(place)) as ring:
            if ring.list_keys():
                hint = "make one with `pointsman keys create NAME`"
                raise InputError(f"this home has keys: set {KEY} to one of them", hint=hint)
    return "none"


def _own_logins(pointsman: Pointsman) -> frozenset[str]:
    """Return the formats in which the providers of the home take the agent's own login."""
    providers = pointsman.in_force().models.providers.values()
    found = (callers_wire(each) for each in providers if each.takes_callers_login)
    return frozenset(each for each in found if each is not None)


@contextmanager
def _gateway(session: Session) -> Iterator[str]:
    """Yield the address of the gateway of this home, one of its own where there is none."""
    address = gateway_address(session.home)
    if address:
        yield address
        return
    words = ["--home", str(session.home), *(["--store", session.store] if session.store else [])]
    # A session of its own: an interrupt on the terminal is the agent's, not the gateway's.
    process = subprocess.Popen(  # noqa: S603 - this very program
        [sys.executable, "-c", _PROGRAM, *words, "serve", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield _read_address(process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)


def _read_address(process: subprocess.Popen[bytes]) -> str:
    """Read the greeting of a gateway, which is one JSON document."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    text = b""
    for line in process.stdout:
        text += line
        if line == b"}\n":
            return str(json.loads(text)["address"])
    raise InputError("the gateway does not start", hint="`pointsman serve` says why")


def _follow(start: AgentStart) -> int:
    """Run the agent at this terminal; return its code, as a shell has it."""
    environment = {**os.environ, **start.variables}
    # An interrupt is the agent's: the handler of a program that it becomes is the default again.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        process = subprocess.Popen(start.command, env=environment)  # noqa: S603 - what its user typed
        code = process.wait()
    except OSError as error:
        raise InputError(f"cannot run: {error.strerror}", where=start.command[0]) from error
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _report(pointsman: Pointsman, began: Instant) -> list[str]:
    """Return the cost of the turns since an instant, who served them, and by which choice."""
    shown = [each for each in pointsman.recent(MOST_TURNS) if each.at >= began]
    stories = [pointsman.read_turn(each.turn_id) for each in shown if not each.is_preview]
    if not stories:
        return ["run: no turn was decided"]
    cost = MicroUsd(sum(each.cost_microusd for each in stories))
    groups: defaultdict[tuple[str, str], list[TurnStory]] = defaultdict(list)
    for story in stories:
        groups[story.served_model or "no model", _choice(story)].append(story)
    lines = [f"run: {len(stories)} turns, ${microusd_text(cost)}"]
    for (model, choice), listed in sorted(groups.items()):
        spent = microusd_text(MicroUsd(sum(each.cost_microusd for each in listed)))
        lines.append(f"  {len(listed)} by {model} ({choice}), ${spent}")
    return [*lines, f"why: pointsman why {stories[0].first.turn_id}"]


def _choice(story: TurnStory) -> str:
    first = story.first
    if first.outcome.winner_index < 0:
        return "refused"
    slot = first.trace.chain[first.outcome.winner_index]
    return f'rule "{slot.rule_name}"' if slot.rule_name else slot.policy.replace("_", " ")
