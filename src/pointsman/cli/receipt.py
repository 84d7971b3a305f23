"""`receipt`: one answer with all that it takes to derive its decision again, elsewhere."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import cast, get_args

import click

from pointsman.audit.receipts.receipt import receipt_envelope
from pointsman.audit.receipts.shapes import Disclosure
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command, waits
from pointsman.errors import InputError
from pointsman.storage.files import replace_file

_OWN_IMPORTS = re.compile(
    r"^from (?:__future__ import annotations|pointsman\.offline_verifier import \([^)]*\))\n",
    re.MULTILINE,
)


@click.command(cls=ExampleCommand)
@click.argument("turn", required=False, metavar="[ID|last]")
@click.option(
    "--disclose",
    type=click.Choice(get_args(Disclosure)),
    default="full",
    help="All of it, what decided beside commitments, or the outcome alone [full].",
)
@click.option("--dsse", "is_wrapped", is_flag=True, help="As an in-toto statement in DSSE.")
@click.option("--out", metavar="FILE", help="Write it here [standard output].")
@click.option("--verifier", metavar="FILE", help="Write the program that verifies receipts here.")
@click.option("--page", metavar="FILE", help="Write the page that verifies receipts here.")
@command
@waits("looking")
def receipt(  # noqa: PLR0913, PLR0917 - one parameter an option
    session: Session,
    turn: str | None,
    disclose: str,
    is_wrapped: bool,  # noqa: FBT001 - click passes flags so
    out: str | None,
    verifier: str | None,
    page: str | None,
) -> None:
    """Write the signed receipt of an answer, or what verifies it.

    ID is a turn, any decision about it, or a request id. The program is one file for any Python
    from 3.9 on and needs nothing else; the page is one file for a browser and asks no network.
    """
    for target, text in ((verifier, verifier_text), (page, page_text)):
        if target is not None:
            _write(target, text().encode())
            click.echo(f"wrote {target}", err=True)
    if turn is None and (verifier or page):
        return
    with session.open() as pointsman:
        data = pointsman.receipt(turn or "last", cast(Disclosure, disclose))
        if is_wrapped:
            data = receipt_envelope(data, pointsman.home.signing_key())
        data += b"\n"
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


def verifier_text() -> str:
    """Return the verifier of bundles and that of receipts behind it, as one file."""
    package = files("pointsman")
    bundles = (package / "offline_verifier.py").read_text(encoding="utf-8")
    receipts = (package / "receipt_verifier.py").read_text(encoding="utf-8")
    return bundles[: bundles.index("def main(")] + _OWN_IMPORTS.sub("", receipts)


def page_text() -> str:
    """Return the page that verifies receipts in a browser."""
    return (files("pointsman") / "web" / "receipt.html").read_text(encoding="utf-8")
