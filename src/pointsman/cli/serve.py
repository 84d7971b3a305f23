"""`serve` and `mcp`: the gateway with its APIs and dashboard, and the MCP server."""

from __future__ import annotations

import secrets
import socket
import sys
from contextlib import closing
from pathlib import Path

import click

from pointsman.app import Pointsman, SystemClock
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError, PointsmanError
from pointsman.operations.rules.check import other_files, refuse_unknown, stand_ins
from pointsman.signals.kinds import KINDS
from pointsman.storage.announcement import announced_gateway
from pointsman.storage.home import open_home
from pointsman.storage.policies.ledger_policies import opened_policies
from pointsman.storage.policies.secrets import unusable_providers
from pointsman.storage.policies.settings import MOST_WORKERS, Server
from pointsman.storage.sqlite.database import sqlite_errors_told


@click.command(cls=ExampleCommand)
@click.option("--host", metavar="ADDRESS", help="Listen on this address [127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port [8484].")
@click.option(
    "--workers",
    type=click.IntRange(1, MOST_WORKERS),
    help="So many processes [one for each two cores; 1 while no key exists].",
)
@command
def serve(session: Session, host: str | None, port: int | None, workers: int | None) -> None:
    """Serve models over the OpenAI and Anthropic wire formats."""
    # Imported here: a server costs more to import than most commands take.
    from msgspec.structs import replace  # noqa: PLC0415 - see above

    from pointsman.gateway import server as gateway  # noqa: PLC0415 - see above

    wanted = _read_settings(session)
    wanted = replace(wanted, host=host or wanted.host, port=wanted.port if port is None else port)
    try:
        listening = gateway.bind_socket(wanted)
    except OSError as error:
        where = f"{wanted.host}:{wanted.port}"
        raise InputError(f"cannot listen: {error.strerror}", where=where) from error
    address = f"http://{_host_text(wanted.host)}:{listening.getsockname()[1]}"
    count = workers or wanted.workers or gateway.usual_workers(session.home, session.store)
    with listening, announced_gateway(session.home, address):
        if count == 1:
            opened = gateway.open_gateway(session.home, store=session.store, server=wanted)
            with opened as (parts, application):
                _greet(session, address, parts.new_admin_token)
                gateway.serve(parts, application, listening)
        else:
            _serve_together(session, wanted, listening, count, address)


def _serve_together(
    session: Session, wanted: Server, listening: socket.socket, count: int, address: str
) -> None:
    """Serve with several workers; ends with the supervisor's exit code."""
    from pointsman.gateway import server as gateway  # noqa: PLC0415 - as above
    from pointsman.gateway.supervisor import Seat, Supervisor  # noqa: PLC0415 - one worker needs none
    from pointsman.gateway.telemetry.logs import Log  # noqa: PLC0415 - as above
    from pointsman.gateway.wire.server import Lifeline  # noqa: PLC0415 - as above

    token = gateway.begun_admin_token(session.home, session.store)
    log = Log(SystemClock(), is_on=True)

    def run(seat: Seat, lifeline: Lifeline) -> int:
        try:
            opened = gateway.open_gateway(
                session.home, store=session.store, server=wanted, seat=seat
            )
            with sqlite_errors_told(session.home), opened as (parts, application):
                gateway.serve(parts, application, listening, lifeline)
        except PointsmanError as error:
            session.fail(error)
        return 0

    supervisor = Supervisor(count, secrets.token_hex(8), wanted, run, log.worker_ended)
    sys.exit(supervisor.run(lambda: _greet(session, address, token)))


def _greet(session: Session, address: str, admin_token: str) -> None:
    from pointsman.gateway import server as gateway  # noqa: PLC0415 - as above

    text = gateway.greeting(session.home, address, admin_token)
    session.show(text, {"address": address, "home": str(session.home)})
    sys.stdout.flush()


def _read_settings(session: Session) -> Server:
    """Return where to listen; raise where a file is broken of which no good version is known."""
    home = open_home(session.home, create=True, store=session.store)
    with closing(opened_policies(home, tuple(each.name for each in KINDS))) as files:
        invalid = (*files.in_force().invalid, *other_files(home.path, is_kept=True))
        server = files.settings().value.server
    refuse_unknown(invalid)
    session.warn(problem for file in invalid for problem in file.problems)
    session.warn(f"in force: {line}" for line in stand_ins(invalid))
    return server


def _host_text(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@click.command(cls=ExampleCommand)
@click.option("--workspace", metavar="DIR", help="The folder that rules and budgets look at.")
@command
def mcp(session: Session, workspace: str | None) -> None:
    """Serve agents over MCP on standard input and output."""
    # Imported here: the SDK is an extra, and takes longer to import than most commands run.
    from pointsman.mcp.sdk import check_sdk  # noqa: PLC0415 - see above

    check_sdk()
    from pointsman.mcp.stdio import WRITER, serve  # noqa: PLC0415 - see above

    place = None if workspace is None else str(Path(workspace).absolute())
    with Pointsman(session.home, store=session.store, writer=WRITER) as pointsman:
        in_force = pointsman.in_force()
        session.warn(in_force.problems)
        # Its client may have started it without the environment of its user, and shows no warnings.
        missing = unusable_providers(in_force.models, session.home)
        session.warn(missing)
        serve(pointsman, place, missing)
