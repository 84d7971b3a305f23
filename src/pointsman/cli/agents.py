"""`agents`: which agent takes a job, who there is, and why one was chosen."""

from __future__ import annotations

import sys

import click

from pointsman.agents.explain import number, to_json, to_screen
from pointsman.agents.modules.module import Module
from pointsman.cli.terms import MOST_INPUT, Session, command, read_input
from pointsman.errors import NotFound
from pointsman.jobs.agency import LOCAL
from pointsman.jobs.request import JobRequest, freeze_job, read_job_request
from pointsman.kernel.columns import table
from pointsman.kernel.document import DocumentLimits, printable
from pointsman.kernel.instant import EPOCH, instant_text
from pointsman.kernel.json_text import read_json
from pointsman.kernel.nearest import nearest
from pointsman.kernel.number import billionths_text
from pointsman.storage.policies.agents_file import AgentsInForce

REQUEST_HELP = "The job as JSON: its query, and snapshots by id, by body, or none."


@click.group()
def agents() -> None:
    """Which agent takes a job, and why."""


@agents.command()
@click.option("--request", "given", required=True, metavar="FILE|-", help=REQUEST_HELP)
@command
def decide(session: Session, given: str) -> None:
    """Choose an agent for a job; nothing is called.

    Where the request names no snapshots, the live agents and a fresh state are frozen first.
    """
    request = read_request(given)
    with session.open(create=True) as pointsman:
        agency = pointsman.agency
        session.warn(agency.problems)
        shown = agency.decide(freeze_job(agency, request, pointsman.ids, LOCAL))
    session.show(to_screen(shown), to_json(shown))
    sys.exit(1 if shown.outcome.error_code else 0)


@agents.command("list")
@command
def list_(session: Session) -> None:
    """List the agents and other modules as they are now."""
    with session.open() as pointsman:
        session.warn(pointsman.agency.problems)
        in_force = pointsman.agency.in_force()
    modules = in_force.selfrep.modules
    head = ("MODULE", "TYPE", "STATUS", "APT", "CALLED BY", "CAPABILITIES")
    rows = [_row(each, in_force) for each in modules]
    text = table([head, *rows]) if rows else "there are no modules: write agents.yaml"
    session.show(text, {"modules": [module_value(each, in_force) for each in modules]})


@agents.command()
@click.argument("node", metavar="NODE")
@command
def show(session: Session, node: str) -> None:
    """Show one module: what it may do, how far it is trusted, and why."""
    with session.open() as pointsman:
        session.warn(pointsman.agency.problems)
        in_force = pointsman.agency.in_force()
    found = in_force.selfrep.module(node)
    if found is None:
        near = nearest(node, [each.node_id for each in in_force.selfrep.modules])
        raise NotFound(
            f"there is no module `{node}`", hint=f"did you mean `{near}`?" if near else ""
        )
    session.show(_screen(found, in_force), module_value(found, in_force))


@agents.command()
@click.argument("name", metavar="ID|last", default="last")
@command
def why(session: Session, name: str) -> None:
    """Say why an agent was chosen: by the decision's id, the job's, or the last one."""
    with session.open() as pointsman:
        shown = pointsman.agency.find_route(name)
    session.show(to_screen(shown), to_json(shown))


def read_request(name: str) -> JobRequest:
    """Read a job from a file or standard input."""
    limits = DocumentLimits(bytes=MOST_INPUT, nodes=2_000_000)
    return read_job_request(read_json(*read_input(name), limits))


def module_value(module: Module, in_force: AgentsInForce) -> dict[str, object]:
    """Return a module as JSON."""
    edges = [each for each in in_force.selfrep.edges if each.from_ == module.node_id]
    since = module.registration.registered_at
    return {
        "node_id": module.node_id,
        "type": module.type,
        "display_name": module.display_name,
        "version": module.version,
        "status": module.status,
        "status_reason": module.status_reason,
        "apt": number(module.apt),
        "metrics": module.metrics,
        "capabilities": module.capabilities,
        "dependencies": [{"to": each.to, "required": each.required} for each in edges],
        "policy": module.policy,
        "registration": {
            "registered_by": module.registration.registered_by,
            "registered_at": "" if since == EPOCH else instant_text(since),
        },
        "is_fallback": module.is_fallback,
        "called_by": _way(module, in_force),
    }


def _way(module: Module, in_force: AgentsInForce) -> str:
    run = in_force.run.get(module.node_id)
    return "" if run is None else run.ways[0]


def _row(module: Module, in_force: AgentsInForce) -> tuple[str, ...]:
    return (
        module.node_id,
        module.type,
        module.status,
        billionths_text(module.apt),
        _way(module, in_force) or "-",
        ", ".join(module.capabilities),
    )


def _screen(module: Module, in_force: AgentsInForce) -> str:
    reason = f" ({module.status_reason})" if module.status_reason else ""
    edges = [each for each in in_force.selfrep.edges if each.from_ == module.node_id]
    needs = ", ".join(f"{each.to}{'' if each.required else ' (optional)'}" for each in edges)
    counts = module.metrics
    rows = (
        ("module", f"{module.node_id} ({module.display_name}) {module.version}".strip()),
        ("type", module.type + (", fallback" if module.is_fallback else "")),
        ("status", module.status + reason),
        ("apt", billionths_text(module.apt)),
        ("record", f"{counts.total_calls} judged, {counts.consecutive_failures} failed in a row"),
        ("serves", ", ".join(module.capabilities) or "anything it is named for"),
        ("needs", needs or "nothing"),
        ("allowed", ", ".join(module.policy.allowed_actions) or "whatever is not forbidden"),
        ("forbidden", ", ".join(module.policy.forbidden_actions) or "nothing"),
        ("called by", _way(module, in_force) or "nothing under `run` says how"),
    )
    return "\n".join(printable(f"{name:<10} {value}") for name, value in rows)
