"""`actions`: requests of agents for lasting actions, and the votes on them.

Without a key the user of the home is its admin; a member of the council votes with their own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final, cast, get_args

import click
import msgspec
from msgspec import Struct

from pointsman.access.actors import OWNER, actor_of
from pointsman.access.keyring import ACCESS, Keyring
from pointsman.access.roles import Access, GivenRole, RouteKey, Scope
from pointsman.app import Pointsman
from pointsman.approvals.view import action_value
from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command
from pointsman.errors import PermissionDenied
from pointsman.gateway.route_table import ROUTES
from pointsman.governance.action import Actor
from pointsman.governance.state import Status
from pointsman.governance.votes import Choice
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable

KEY: Final = "POINTSMAN_KEY"
"""The variable that holds a key: on a command line every user of the machine could read it."""

_LIST: Final = ("GET", "/actions")
_SHOW: Final = ("GET", "/actions/{id}")
_VOTE: Final = ("POST", "/actions/{id}/votes")
_CANCEL: Final = ("POST", "/actions/{id}/cancel")
_NOTE_HELP: Final = "Why; it is recorded."


class ActorSession(Struct, frozen=True):
    """The actor on a home, and how much of a request they may see."""

    pointsman: Pointsman
    by: Actor
    access: Access

    def value(self, name: str) -> dict[str, object]:
        """Return a request as it stands."""
        record = self.pointsman.approvals.record(name)
        return action_value(record, self.pointsman.clock.now(), self.access)


@click.group(cls=CommandGroup)
def actions() -> None:
    """What agents ask to be done, and the votes on it.

    A key in POINTSMAN_KEY says who votes; without one it is the home's owner, an admin.
    """


@actions.command("list")
@click.option(
    "--status",
    metavar="STATUS",
    type=click.Choice(get_args(Status)),
    help="Only those that stand so.",
)
@command
def list_(session: Session, status: str | None) -> None:
    """List the requests, the newest first."""
    with acting_as(session, _LIST) as acting:
        states = reversed(acting.pointsman.approvals.list_since())
        names = [each.request.request_id for each in states if status in (None, each.status)]
        found = [acting.value(each) for each in names]
    head = ("REQUEST", "ACTION", "TARGET", "STATUS", "VOTES", "UNTIL")
    rows = [_row(each) for each in found]
    session.show(table([head, *rows]) if rows else "nothing is asked for", {"actions": found})


@actions.command()
@click.argument("name", metavar="ID")
@command
def show(session: Session, name: str) -> None:
    """Show one request: what it wants, who asked, and how the votes stand."""
    with acting_as(session, _SHOW) as acting:
        value = acting.value(name)
    session.show(_screen(value), value)


@actions.command()
@click.argument("name", metavar="ID")
@click.argument("choice", type=click.Choice(get_args(Choice)))
@click.option("--hash", "action_hash", metavar="HASH", help="The action meant [the request's own].")
@click.option("--note", default="", metavar="TEXT", help=_NOTE_HELP)
@command
def vote(session: Session, name: str, choice: Choice, action_hash: str | None, note: str) -> None:
    """Vote on a request; the vote that carries it has it carried out."""
    with acting_as(session, _VOTE) as acting:
        approvals = acting.pointsman.approvals
        meant = action_hash or approvals.record(name).state.request.action_hash
        approvals.vote(name, choice, meant, acting.by, note)
        value = acting.value(name)
    session.show(_screen(value), value)


@actions.command()
@click.argument("name", metavar="ID")
@click.option("--note", default="", metavar="TEXT", help=_NOTE_HELP)
@command
def cancel(session: Session, name: str, note: str) -> None:
    """Call a request off: for its requester and for admins."""
    with acting_as(session, _CANCEL) as acting:
        acting.pointsman.approvals.cancel(name, acting.by, note)
        value = acting.value(name)
    session.show(_screen(value), value)


@contextmanager
def acting_as(session: Session, key: RouteKey) -> Iterator[ActorSession]:
    """Open the home for an actor with this right, or raise why they lack it."""
    route = ROUTES[key]
    with session.open() as pointsman:
        by = _actor(pointsman, os.environ.get(KEY, ""), route.key_scope)
        access = route.roles.of(cast("GivenRole", by.role))
        if access == "denied":
            raise PermissionDenied(
                f"the role `{by.role or 'none'}` may not do this",
                hint=f"put a key of another role into {KEY}",
            )
        yield ActorSession(pointsman, by, access)


def _actor(pointsman: Pointsman, credential: str, scope: Scope) -> Actor:
    if not credential:
        return OWNER
    with closing(Keyring(pointsman.home.place(ACCESS))) as ring:
        now = pointsman.clock.now()
        return actor_of(ring.principal(credential, scope=scope, is_loopback=False, now=now))


def _row(value: dict[str, object]) -> tuple[str, ...]:
    names = ("request_id", "action_type", "target", "status")
    first = [printable(str(value[name])) for name in names]
    return (*first, _votes(value), str(value["expires_at"]))


def _votes(value: dict[str, object]) -> str:
    tally = cast("dict[str, int]", value["tally"])
    return f"{tally['approve']} yes, {tally['reject']} no, of {tally['needed']}"


def _screen(value: dict[str, object]) -> str:
    payload = value["payload"]
    withdrawn = cast("list[object]", value["withdrawn"])
    rows = (
        ("request", value["request_id"]),
        ("action", f"{value['action_type']}  {value['target']}"),
        ("status", value["status"]),
        ("needs", value["required_approval_type"]),
        ("votes", _votes(value) + (f", {len(withdrawn)} withdrawn" if withdrawn else "")),
        ("asked by", value["requester_name"] or value["requester"]),
        ("because", value["justification"] or "-"),
        ("payload", "withheld" if payload is None else msgspec.json.encode(payload).decode()),
        ("hash", value["action_hash"]),
        ("until", value["expires_at"]),
        ("note", value["note"] or "-"),
    )
    return "\n".join(printable(f"{name:<10} {text}") for name, text in rows)
