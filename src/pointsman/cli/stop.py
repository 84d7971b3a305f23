"""`stop`: no model is called any more, for all, a tenant or a provider, until that is lifted."""

from __future__ import annotations

import click

from pointsman.access.actors import OWNER
from pointsman.approvals.proposal import ActionProposal
from pointsman.cli.actions import acting_as
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.kernel.columns import table
from pointsman.kernel.document import Json, printable
from pointsman.kernel.instant import instant_text
from pointsman.recording.stops import StopOrder
from pointsman.turns.facts import StopScope


@click.command(cls=ExampleCommand)
@click.option("--all", "is_all", is_flag=True, help="Stop every model call of this home.")
@click.option("--tenant", metavar="NAME", help="Stop the calls of a tenant's keys.")
@click.option("--provider", metavar="NAME", help="Stop the calls to a provider.")
@click.option("--reason", default="", metavar="TEXT", help="Why; recorded, and told to callers.")
@click.option("--cut", is_flag=True, help="Cut calls under way, too.")
@click.option("--lift", metavar="STOP", help="Ask that a stop ends; another admin has to agree.")
@command
def stop(  # noqa: PLR0913, PLR0917 - one parameter an option
    session: Session,
    is_all: bool,  # noqa: FBT001 - click passes flags so
    tenant: str | None,
    provider: str | None,
    reason: str,
    cut: bool,  # noqa: FBT001 - as above
    lift: str | None,
) -> None:
    """Stop model calls at once, or ask that a stop ends; alone, list the stops in force."""
    wanted = _scopes(tenant, provider, is_all=is_all)
    if len(wanted) + (lift is not None) > 1:
        raise InputError("say one of --all, --tenant, --provider and --lift")
    if (wanted or lift) and not reason.strip():
        raise InputError("a stop and its end need a reason", hint="say --reason TEXT")
    if lift is not None:
        _ask_to_lift(session, lift, reason)
    elif wanted:
        scope, name = wanted[0]
        with session.open() as pointsman:
            made = pointsman.order_stop(scope, name, reason, OWNER.name, cuts_calls=cut)
        session.show(f"stopped  {_line(made)[1]}  {made.id}", _value(made))
    else:
        _list_stops(session)


def _scopes(
    tenant: str | None, provider: str | None, *, is_all: bool
) -> list[tuple[StopScope, str]]:
    given: list[tuple[StopScope, str | None]] = [("tenant", tenant), ("provider", provider)]
    named = [(scope, name) for scope, name in given if name is not None]
    everything: list[tuple[StopScope, str]] = [("all", "")]
    return [*named, *(everything if is_all else ())]


def _ask_to_lift(session: Session, stop_id: str, reason: str) -> None:
    with acting_as(session, ("POST", "/actions")) as acting:
        payload: dict[str, Json] = {"stop_id": stop_id, "reason": reason}
        wanted = ActionProposal("lift_stop", payload, reason)
        request = acting.pointsman.approvals.request(wanted, acting.by).request
        value = acting.value(request.request_id)
    next_step = f"another admin agrees with: pointsman actions vote {request.request_id} approve"
    session.show(f"asked for  {request.request_id}\n{next_step}", value)


def _list_stops(session: Session) -> None:
    with session.open() as pointsman:
        found = pointsman.stops.in_force()
        refused = pointsman.stops.refused
    rows = [_line(each) for each in found]
    lines = (
        [table([("STOP", "OF", "SINCE", "BY", "REASON"), *rows])]
        if rows
        else ["nothing is stopped"]
    )
    lines += [printable(f"not signed by this home, counts nothing: {each}") for each in refused]
    session.show("\n".join(lines), {"stops": [_value(each) for each in found]})


def _line(order: StopOrder) -> tuple[str, ...]:
    what = "every call" if order.scope == "all" else f"{order.scope} {order.name}"
    told = (order.id, what, instant_text(order.at), order.by, order.reason)
    return tuple(map(printable, told))


def _value(order: StopOrder) -> dict[str, object]:
    fields = ("id", "scope", "name", "reason", "by", "cuts_calls")
    return {**{name: getattr(order, name) for name in fields}, "at": instant_text(order.at)}
