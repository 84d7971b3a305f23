"""`serve` and `mcp`: the gateway with its APIs and dashboard, and the MCP server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from pointsman.app import Pointsman
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.operations.rules.check import other_files, refuse_unknown, stand_ins
from pointsman.signals.kinds import KINDS
from pointsman.storage.announcement import announced_gateway
from pointsman.storage.home import open_home
from pointsman.storage.policies.ledger_policies import opened_policies
from pointsman.storage.policies.secrets import unusable_providers
from pointsman.storage.policies.settings import Server


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address [127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port [8484].")
@command
def serve(session: Session, host: str | None, port: int | None) -> None:
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
    opened = gateway.open_gateway(session.home, store=session.store, server=wanted)
    address = f"http://{_host_text(wanted.host)}:{listening.getsockname()[1]}"
    with listening, opened as (parts, application), announced_gateway(session.home, address):
        text = gateway.greeting(parts, address)
        session.show(text, {"address": address, "home": str(session.home)})
        gateway.serve(parts, application, listening)


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


@click.command()
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
