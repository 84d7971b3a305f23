"""`serve`: the gateway, its APIs and its dashboard."""

from __future__ import annotations

import click

from pointsman.cli.terms import Session, command
from pointsman.errors import InputError


@click.command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address [127.0.0.1].")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port [8484].")
@command
def serve(session: Session, host: str | None, port: int | None) -> None:
    """Serve models over the OpenAI and Anthropic wire formats."""
    # Imported here: a server costs more to import than most commands take.
    from msgspec.structs import replace  # noqa: PLC0415 - see above

    from pointsman.gateway import server as gateway  # noqa: PLC0415 - see above
    from pointsman.storage.home import open_home  # noqa: PLC0415 - see above
    from pointsman.storage.policies import PolicyFiles  # noqa: PLC0415 - see above

    settings = PolicyFiles(open_home(session.home, create=True, store=session.store)).settings()
    session.warn(settings.problems)
    wanted = settings.value.server
    wanted = replace(wanted, host=host or wanted.host, port=wanted.port if port is None else port)
    try:
        listening = gateway.bound(wanted)
    except OSError as error:
        where = f"{wanted.host}:{wanted.port}"
        raise InputError(f"cannot listen: {error.strerror}", where=where) from error
    opened = gateway.opened(session.home, store=session.store, server=wanted)
    with listening, opened as (parts, application):
        session.warn(parts.pointsman.in_force().problems)
        address = f"http://{_shown(wanted.host)}:{listening.getsockname()[1]}"
        text = gateway.greeting(parts, address)
        session.show(text, {"address": address, "home": str(session.home)})
        gateway.serve(parts, application, listening)


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
