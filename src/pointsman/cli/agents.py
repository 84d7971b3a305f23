"""`agents`, `jobs`, `brainstate`: which agent takes a job, how it went, what it has in mind."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from pointsman.agents.explain import number, to_json, to_screen
from pointsman.agents.modules.module import Module
from pointsman.brainstate.hints import routing_hints
from pointsman.brainstate.reading import read_inputs
from pointsman.brainstate.state import BrainState
from pointsman.brainstate.trace import TickTrace
from pointsman.brainstate.view import JSON, hints_view, state_view
from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import MOST_INPUT, Session, command, read_input, waits
from pointsman.errors import InputError, NotFound
from pointsman.jobs.agency import LOCAL
from pointsman.jobs.jobs import JobResult
from pointsman.jobs.request import JobRequest, freeze_job, goal_request, read_job_request
from pointsman.jobs.view import job_screen, job_value, verdict_screen, verdict_value
from pointsman.kernel.columns import cut_line, pad_line, table
from pointsman.kernel.document import DocumentLimits, printable
from pointsman.kernel.instant import EPOCH, instant_text
from pointsman.kernel.json_text import read_json
from pointsman.kernel.nearest import nearest
from pointsman.kernel.number import billionths_text
from pointsman.storage.policies.agents_file import AgentsInForce

WELL = ("done", "requested")
"""How a job ends well: with an answer, or as a request that others decide about."""


REQUEST_HELP = "The job as JSON: its query, and snapshots by id, by body, or none."


@click.group(cls=CommandGroup)
def jobs() -> None:
    """Have agents do a job, and prove how it went."""


@jobs.command()
@click.option("--request", "given", metavar="FILE|-", help=REQUEST_HELP)
@click.option("--goal", metavar="TEXT", help="What you want, in words.")
@click.option("--resume", metavar="ID", help="Go on with a job that was cut short.")
@command
def run(session: Session, given: str | None, goal: str | None, resume: str | None) -> None:
    """Run a job: decide, call the agent, have it judged; again without one that fails."""
    if sum(each is not None for each in (given, goal, resume)) != 1:
        raise InputError("give one of --request, --goal and --resume")
    request = None if given is None else read_request(given)
    if goal is not None:
        if not goal.strip():
            raise InputError("a goal says what is wanted")
        request = goal_request(goal)
    with session.open(create=resume is None) as pointsman:
        session.warn(pointsman.agency.problems)
        if request is None:
            result = pointsman.jobs.resume(resume or "")
        else:
            result = pointsman.jobs.run(request)
    _show(session, result)
    sys.exit(0 if result.log.status in WELL else 1)


@jobs.command("show")
@click.argument("name", metavar="ID")
@command
def show_job(session: Session, name: str) -> None:
    """Show a job by the id of its log, or the latest run of one by its own id."""
    with session.open() as pointsman:
        result = pointsman.jobs.find_result(name)
    _show(session, result)


@jobs.command("list")
@command
def list_jobs(session: Session) -> None:
    """List the latest jobs, the newest first."""
    with session.open() as pointsman:
        found = pointsman.jobs.list_latest()
    head = ("LOG", "JOB", "SINCE", "STATUS")
    rows = [
        (each.log_id, printable(each.job_id), instant_text(each.at), each.status or "cut short")
        for each in found
    ]
    value = [msgspec.structs.asdict(each) | {"at": instant_text(each.at)} for each in found]
    session.show(table([head, *rows]) if rows else "no job was run yet", {"jobs": value})


@jobs.command()
@click.argument("name", metavar="ID")
@command
@waits("running again")
def replay(session: Session, name: str) -> None:
    """Run a job again from its record alone and compare bytes; no agent is called."""
    with session.open() as pointsman:
        verdict = pointsman.jobs.replay(name)
    session.show(verdict_screen(verdict), verdict_value(verdict))
    sys.exit(0 if verdict.is_identical else 1)


def _show(session: Session, result: JobResult) -> None:
    session.show(job_screen(result), job_value(result))


@click.group(cls=CommandGroup)
def brainstate() -> None:
    """What a job has in mind."""


@brainstate.command("show")
@click.argument("name", metavar="ID")
@command
def show_mind(session: Session, name: str) -> None:
    """Show a recorded state in full, and its advice to the router."""
    with session.open() as pointsman:
        state = pointsman.agency.brainstate(name)
    hints = _plain(hints_view(routing_hints(state)))
    value = {
        "brainstate_snapshot_id": name,
        "brainstate": _plain(state_view(state)),
        "hints": hints,
    }
    session.show("\n".join(_lines(name, state)), value)


@brainstate.command()
@click.argument("name", metavar="ID")
@click.option("--inputs", "given", required=True, metavar="FILE|-",
              help="Votes, feedback, items for memory and events, as JSON.")  # fmt: skip
@command
def tick(session: Session, name: str, given: str) -> None:
    """Advance a recorded state by one tick; what it wishes for is asked for, not done."""
    inputs = read_inputs(read_json(*read_input(given), DocumentLimits(bytes=MOST_INPUT)))
    with session.open(create=True) as pointsman:
        made = pointsman.agency.tick(name, inputs)
    value = {
        "brainstate_snapshot_id": made.id,
        "brainstate": _plain(state_view(made.state)),
        "happenings": [
            _happening(made.trace, index) for index in range(len(made.trace.happenings))
        ],
        "action_requests": made.action_requests,
    }
    lines = [*_tick_lines(made.trace), "", *_lines(made.id, made.state)]
    lines += [f"request    {each}" for each in made.action_requests]
    session.show("\n".join(map(printable, lines)), value)


def _plain(value: object) -> object:
    return msgspec.json.decode(JSON.encode(value))


def _happening(trace: TickTrace, index: int) -> dict[str, str]:
    each = trace.happenings[index]
    return {
        "event_id": each.event_id,
        "event_type": each.event_type,
        "subject": each.subject,
        "why": each.why.value,
        "detail": each.detail,
    }


def _tick_lines(trace: TickTrace) -> Iterator[str]:
    for each in trace.happenings:
        yield f"{each.event_type:<16} {pad_line(cut_line(each.subject, 24), 24)} {each.why.meaning}"
    yield f"tick {trace.tick}: reward {billionths_text(trace.reward.value)}"


def _lines(name: str, state: BrainState) -> Iterator[str]:
    mind, budget = state.attention, state.resource_budget
    hints = routing_hints(state)
    yield f"mind       {name}"
    yield f"state      {state.brainstate_id}, next tick {state.tick}"
    marks = ("attention_gain", "explore_bias", "reward_signal")
    told = ", ".join(f"{each} {billionths_text(getattr(mind, each))}" for each in marks)
    yield f"attention  {told}"
    yield f"budget     {state.tokens_consumed} of {budget.token_budget} tokens used"
    yield f"depth      {hints.max_depth_allowed} of {budget.max_depth_allowed}"
    for goal in state.goals:
        priority = billionths_text(goal.priority)
        yield f"goal       {goal.goal_id}: {goal.type}, {goal.status}, priority {priority}"
    for item in state.wm:
        yield f"memory     {item.type}: {item.value[:50]} (ttl {item.ttl_ticks})"
    for held in state.cwm.items:
        yield f"held       {held.type}: {held.value[:50]}"
    for failure in state.recent_failures:
        yield f"failed     {failure.node_id}: {failure.reason[:50]}"


@click.group(cls=CommandGroup)
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
