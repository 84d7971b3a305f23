"""`route` and `why`: decide a turn, and show why one was decided as it was."""

from __future__ import annotations

import re
import sys

import click
import msgspec

from pointsman.app import Pointsman
from pointsman.cli.terms import MOST_INPUT, Session, command, read_input
from pointsman.errors import InputError
from pointsman.kernel.document import Limits
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import Billionths, billionths_text
from pointsman.turns.explain import Shown, why_screen
from pointsman.turns.facts import TurnFacts, read_facts
from pointsman.turns.trace import Evaluation, Neighbour

_COLOURS = {
    "chose": "green",
    "rejected": "red",
    "deferred": "yellow",
    "not_applicable": "bright_black",
}
_VERDICT = re.compile(rf"(?<= )({'|'.join(_COLOURS)})(?= |$)", re.MULTILINE)


@click.command()
@click.argument("message", required=False)
@click.option("--facts", metavar="FILE|-", help="Decide on these facts; nothing else is looked at.")
@click.option("--no-record", is_flag=True, help="Leave no trace in the ledger.")
@command
def route(session: Session, message: str | None, facts: str | None, no_record: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Decide which model would take this turn; call none."""
    with session.open(create=True) as pointsman:
        given = _facts(pointsman, message, facts)
        session.warn((*pointsman.in_force().problems, *pointsman.warnings))
        shown = pointsman.route(given, is_preview=True, record=not no_record)
    _show(session, shown)
    sys.exit(0 if shown.outcome.chosen_model else 1)


@click.command()
@click.argument("turn", default="last")
@command
def why(session: Session, turn: str) -> None:
    """Show why a recorded turn was decided as it was."""
    with session.open() as pointsman:
        _show(session, pointsman.shown(turn))


def _facts(pointsman: Pointsman, message: str | None, name: str | None) -> TurnFacts:
    if (message is None) == (name is None):
        raise InputError(
            "give either a message or --facts", hint="pointsman route 'hello', or --facts FILE"
        )
    if name is not None:
        document = read_json(*read_input(name), Limits(bytes=MOST_INPUT))
        return pointsman.given_facts(read_facts(document))
    return pointsman.facts(message or "")


def _show(session: Session, shown: Shown) -> None:
    text = why_screen(shown)
    session.show(_coloured(text) if sys.stdout.isatty() else text, _payload(shown))


def _coloured(text: str) -> str:
    """Colour the verdicts; click leaves colours out where they are not wanted."""
    return _VERDICT.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]]), text)


def _payload(shown: Shown) -> dict[str, object]:
    """Give the `route.decided` payload of the contracts."""
    return {
        "decision_id": shown.decision_id,
        "turn_id": shown.turn_id,
        "chosen_model": shown.outcome.chosen_model,
        "winner_index": shown.outcome.winner_index,
        "decision_version": shown.decision_version,
        "policy_id": shown.policy_id,
        "facts_id": shown.facts_id,
        "elapsed_ms": shown.elapsed_us / 1000,
        "banners": shown.outcome.banners,
        "chain": [_evaluation(each) for each in shown.trace.chain],
    }


def _evaluation(evaluation: Evaluation) -> dict[str, object]:
    alternatives, neighbours = evaluation.pattern_alternatives, evaluation.neighbours
    return {
        **msgspec.structs.asdict(evaluation),
        "confidence": _number(evaluation.confidence),
        "flip_margin": _number(evaluation.flip_margin),
        "neighbours": neighbours and [_neighbour(each) for each in neighbours],
        "pattern_alternatives": alternatives
        and [
            {**msgspec.structs.asdict(each), "score": _number(each.score)} for each in alternatives
        ],
    }


def _neighbour(neighbour: Neighbour) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(neighbour),
        "similarity": _number(neighbour.similarity),
        "success": _number(neighbour.success),
    }


def _number(value: Billionths | None) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(billionths_text(value).encode())
