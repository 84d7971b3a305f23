"""`mcp`: the MCP server on standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from pointsman.app import Pointsman
from pointsman.cli.terms import Session, command


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
        session.warn(pointsman.in_force().problems)
        serve(pointsman, place)
