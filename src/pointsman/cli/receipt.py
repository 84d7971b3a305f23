"""`receipt`: one answer with all that it takes to derive its decision again, elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast, get_args

import click

from pointsman.audit.receipts.shapes import Disclosure
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.storage.files import replace_file


@click.command()
@click.argument("turn", default="last", metavar="[ID|last]")
@click.option(
    "--disclose",
    type=click.Choice(get_args(Disclosure)),
    default="full",
    help="All of it, what decided beside commitments, or the outcome alone [full].",
)
@click.option("--out", metavar="FILE", help="Write it here [standard output].")
@command
def receipt(session: Session, turn: str, disclose: str, out: str | None) -> None:
    """Write the signed receipt of an answer.

    ID is a turn, any decision about it, or a request id.
    """
    with session.open() as pointsman:
        data = pointsman.receipt(turn, cast(Disclosure, disclose)) + b"\n"
    if out is None:
        sys.stdout.buffer.write(data)
    else:
        _write(out, data)
        click.echo(f"wrote {out}", err=True)


def _write(name: str, data: bytes) -> None:
    try:
        replace_file(Path(name), data)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=name) from error
