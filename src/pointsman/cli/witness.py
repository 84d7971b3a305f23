"""`witness`: have checkpoints countersigned by others, and countersign theirs."""

from __future__ import annotations

from pathlib import Path

import click

from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.kernel.checkpoint import log_key
from pointsman.kernel.columns import table
from pointsman.storage.home import open_home


@click.group(cls=CommandGroup)
def witness() -> None:
    """Have checkpoints countersigned by others, and countersign theirs."""


@witness.command()
@command
def key(session: Session) -> None:
    """Print this home's key, as the operators of its witnesses take it."""
    home = open_home(session.home, create=False, store=session.store)
    text = log_key(home.identity.ledger, home.keys[-1]).text()
    session.show(text, {"key": text})


@witness.command()
@command
def submit(session: Session) -> None:
    """Submit the newest checkpoints to the witnesses once; a gateway does so by itself."""
    with session.open() as pointsman:
        # The last entries are signed when their writer closes: they go with the next round.
        witnessing = pointsman.witnessing()
        if not witnessing.is_used:
            hint = "name some: `witnesses:` in pointsman.yaml"
            raise InputError("this home has no witnesses", where="pointsman.yaml", hint=hint)
        report = witnessing.run_alone()
    rows = [(name, ", ".join(by)) for name, by in report.cosigned.items()]
    lines = [table([("CHAIN", "COSIGNED BY"), *rows])] if rows else ["nothing new was cosigned"]
    lines += [f"{name}: {cause}" for name, cause in report.failures.items()]
    session.show("\n".join(lines), report)
    if report.failures:
        click.get_current_context().exit(1)


@witness.command()
@click.argument("folder", metavar="DIR")
@command
def publish(session: Session, folder: str) -> None:
    """Write every chain's checkpoint and tiles as files that any web server can serve."""
    from pointsman.audit.tlog import TransparencyLogs  # noqa: PLC0415 - few publish

    home = open_home(session.home, create=False, store=session.store)
    written = [*TransparencyLogs(home).write_files(Path(folder))]
    lines = [f"{each.chain}  {each.size} entries, {each.tiles} new tiles" for each in written]
    session.show("\n".join(lines) or "no chain has a checkpoint yet", written)


@witness.command()
@click.argument("folder", metavar="DIR")
@click.option("--name", required=True, help="The name it signs under, like w1.example.org.")
@command
def init(session: Session, folder: str, name: str) -> None:
    """Make a witness in a folder, and print its key."""
    from pointsman.witnessing.witness import make_witness  # noqa: PLC0415 - only a witness needs it

    text = make_witness(Path(folder), name)
    lines = [
        text,
        "",
        f"next  name the ledgers it knows in {Path(folder) / 'witness.yaml'}",
        f"      pointsman witness serve {folder}",
    ]
    session.show("\n".join(lines), {"key": text, "folder": folder})


@witness.command()
@click.argument("folder", metavar="DIR")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Listen here [127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), default=8486, help="The port [8486].")
@command
def serve(session: Session, folder: str, host: str, port: int) -> None:
    """Serve a witness: it cosigns what grew from all it has cosigned, and nothing else."""
    # Imported here: a server costs more to import than most commands take.
    from pointsman.gateway.server import bind_socket  # noqa: PLC0415 - see above
    from pointsman.gateway.witness_server import open_witness_server, witness_limits  # noqa: PLC0415

    limits = witness_limits(host, port)
    with open_witness_server(Path(folder), limits) as (server, public_key):
        try:
            listening = bind_socket(limits)
        except OSError as error:
            where = f"{host}:{port}"
            raise InputError(f"cannot listen: {error.strerror}", where=where) from error
        with listening:
            address = f"http://{host}:{listening.getsockname()[1]}"
            text = f"witness {public_key}\nlistening on {address}"
            session.show(text, {"address": address, "key": public_key})
            server.run([listening])
