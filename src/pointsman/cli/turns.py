"""`route` and `why`: decide a turn, and show why one was decided as it was."""

from __future__ import annotations

import re
import sys
from shutil import get_terminal_size

import click

from pointsman.audit.turn_story import read_story
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import MOST_INPUT, Session, command, read_input, waits
from pointsman.errors import InputError, UnknownModel
from pointsman.kernel.columns import WIDTH
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.json_text import read_json
from pointsman.storage.home import Home, open_home
from pointsman.turns.explain import story_to_json, to_json, to_screen
from pointsman.turns.facts import GivenFacts, read_facts
from pointsman.turns.registry.models import meant, model_id
from pointsman.turns.story.turn_story import TurnStory, preview_story

_COLOURS = {
    "chose": "green",
    "rejected": "red",
    "deferred": "yellow",
    "not_applicable": "bright_black",
}
_VERDICT = re.compile(rf"(?<= )({'|'.join(_COLOURS)})(?= |$)", re.MULTILINE)


@click.command(cls=ExampleCommand)
@click.argument("message", required=False)
@click.option(
    "--facts",
    metavar="FILE|-",
    help="Decide on these facts, whatever the clock and the records say.",
)
@click.option("--no-record", is_flag=True, help="Leave no trace in the ledger.")
@command
def route(session: Session, message: str | None, facts: str | None, no_record: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Decide which model would take this turn; call none."""
    read = _read_facts(message, facts)
    with session.open(create=True) as pointsman:
        # Read once: an edit meanwhile must not mix two policies.
        in_force = pointsman.in_force()
        if isinstance(read, str):
            given = pointsman.facts(read, in_force=in_force)
        else:
            given = pointsman.given_facts(read, in_force=in_force)
        session.warn((*in_force.problems, *pointsman.warnings))
        shown = pointsman.route(given, is_preview=True, record=not no_record, in_force=in_force)
        story = preview_story(in_force.ready, given, shown)
    session.show(_text(story), to_json(shown))
    sys.exit(0 if shown.outcome.chosen_model else 1)


@click.command(cls=ExampleCommand)
@click.argument("turn", default="last", metavar="[ID|last]")
@click.option("--instead", metavar="MODEL", help="What would have given the turn this model.")
@command
@waits("looking")
def why(session: Session, turn: str, instead: str | None) -> None:
    """Show what happened in a turn, and why.

    ID is a turn, any decision about it, fallbacks included, or a request id. Shows the chain with
    every candidate that lost, then every call in order, and who served.
    """
    home = open_home(session.home, create=False, store=session.store)
    if instead is not None:
        _show_changes(session, home, turn, instead)
        return
    story = read_story(home, turn)
    session.show(_text(story), story_to_json(story))


def _show_changes(session: Session, home: Home, turn: str, instead: str) -> None:
    """Say which smallest changes of facts or policy give another model."""
    # Imported here: `why` alone needs no solver.
    from pointsman.audit.replay import decided_turn  # noqa: PLC0415 - see above
    from pointsman.turns.compiled import compile_policy  # noqa: PLC0415 - see above
    from pointsman.turns.proofs.least_change import (  # noqa: PLC0415 - see above
        changes_text,
        least_changes,
    )

    policy, facts = decided_turn(home, turn)
    ready = compile_policy(policy)
    model = ready.aliases.get(instead) or ready.aliases.get(model_id(instead))
    if model is None:
        raise UnknownModel(f"`{instead}` is no model", hint=meant(instead, ready.aliases))
    found = least_changes(ready, facts, model)
    session.show(changes_text(found), found)


def _read_facts(message: str | None, name: str | None) -> GivenFacts | str:
    """Return the facts of the file named, or the message."""
    if (message is None) == (name is None):
        raise InputError(
            "give either a message or --facts", hint="pointsman route 'hello', or --facts FILE"
        )
    if name is not None:
        return read_facts(read_json(*read_input(name), DocumentLimits(bytes=MOST_INPUT)))
    return message or ""


def _text(story: TurnStory) -> str:
    if not sys.stdout.isatty():
        return to_screen(story, WIDTH)
    return _colour_verdicts(to_screen(story, get_terminal_size().columns))


def _colour_verdicts(text: str) -> str:
    """Colour the verdicts; click leaves colours out where they are not wanted."""
    return _VERDICT.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]]), text)
