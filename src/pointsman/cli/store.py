"""`store`: check the database of a home, change its tables, move it to a server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from pointsman.app import SystemClock
from pointsman.cli.groups import CommandGroup
from pointsman.cli.records import bar
from pointsman.cli.terms import Session, command, count_text, waits
from pointsman.errors import HomeError, StoreRefused
from pointsman.kernel.document import printable
from pointsman.kernel.instant import instant_text
from pointsman.operations.store.state import StoreState, store_state
from pointsman.storage.home import Home, open_home
from pointsman.storage.sqlite.folder import SqliteFolder
from pointsman.storage.store_url import opened_store

if TYPE_CHECKING:
    from pointsman.operations.store.copy import CopyProgress
    from pointsman.operations.store.proof import CopyProof
    from pointsman.storage.postgres.migrations import Step
    from pointsman.storage.postgres.place import PostgresStore

URL = "postgresql://USER@HOST/DATABASE"


@click.group(cls=CommandGroup)
def store() -> None:
    """Look after the database of a home."""


@store.command("check")
@command
@waits("reading the store")
def store_check(session: Session) -> None:
    """Tell where the home keeps what it records, and whether that can be used."""
    found = store_state(open_home(session.home, create=False, store=session.store))
    session.show(_state_text(found), _state_value(found))
    sys.exit(0 if found.is_usable else 1)


@store.command("migrate")
@click.option(
    "--step",
    type=click.Choice(["pre", "post", "all"]),
    default="pre",
    show_default=True,
    help="`pre` before new programs start, `post` once the old ones are gone.",
)
@command
@waits("migrating")
def store_migrate(session: Session, step: str) -> None:
    """Make or change the tables of a PostgreSQL store."""
    opened = _server(open_home(session.home, store=session.store))
    # Imported here: the driver is an extra.
    from pointsman.operations.store.server import migrate_store  # noqa: PLC0415 - see above

    steps: tuple[Step, ...] = ("pre",) if step == "pre" else ("post",)
    done = migrate_store(opened, ("pre", "post") if step == "all" else steps)
    lines = [f"done       {name}" for name in done.made] or ["nothing to do"]
    lines += [f"pending    {name}" for name in done.pending]
    lines.append(
        f"pgvector   {'yes' if done.has_vectors else 'no: vectors are compared in memory'}"
    )
    session.show("\n".join(lines), done)


@store.command("copy")
@click.option("--to", "url", metavar="URL", required=True, help=f"Where to: {URL}.")
@command
def store_copy(session: Session, url: str) -> None:
    """Copy the home's SQLite files into PostgreSQL, and prove that the copy is whole.

    Nothing may write to the home meanwhile. Cut short, it goes on where it stopped; run again, it
    writes nothing.
    """
    path = open_home(session.home, create=False, store="sqlite:").path
    target = opened_store(path, url)
    if isinstance(target, SqliteFolder):
        raise StoreRefused("a home is copied to a server", hint=f"--to {URL}")
    # Imported here: the driver is an extra.
    from pointsman.operations.store.copy import StoreCopy  # noqa: PLC0415 - see above
    from pointsman.operations.store.proof import prove, prove_ledger  # noqa: PLC0415 - see above

    copy, clock = StoreCopy(Home(path), _postgres_store(target)), SystemClock()
    with copy.alone() as begun:
        if begun.is_needless:
            proof = prove_ledger(copy)
        else:
            with bar("copying", session) as progress:
                copy.run(clock.now(), progress)
            session.begin_waiting("proving the copy")
            proof = prove(copy)
            if proof.is_whole:
                copy.finish(clock.now())
    session.show(_copy_text(copy.target, begun, proof), _copy_value(copy.target, begun, proof))
    sys.exit(0 if proof.is_whole else 1)


def _server(home: Home) -> PostgresStore:
    if isinstance(home.store, SqliteFolder):
        raise HomeError(
            "this home keeps SQLite files, which need no migration",
            where=str(home.path),
            hint=f"pointsman --store {URL} store migrate",
        )
    return _postgres_store(home.store)


def _postgres_store(given: object) -> PostgresStore:
    from pointsman.storage.postgres.place import PostgresStore  # noqa: PLC0415 - an extra

    if not isinstance(given, PostgresStore):
        raise HomeError("this store is not one that can be looked after", hint=f"use {URL}")
    return given


def _state_text(found: StoreState) -> str:
    lines = [f"store        {found.kind}, {found.where}"]
    if found.trouble:
        return "\n".join(printable(each) for each in [*lines, f"FAULT        {found.trouble}"])
    lines.append(f"ledger       {found.ledger or 'none yet'}")
    if not found.is_own:
        lines.append("FAULT        the ledger is not the one of this home")
    lines.append(f"schema       {found.schema_version}")
    lines += [f"pending      {name}" for name in found.pending]
    used = ", ".join(f"{name} {size // 1024} KiB" for name, size in found.sizes.items() if size)
    lines.append(f"holds        {used or 'nothing'}")
    if found.kind == "postgres":
        lines += _server_lines(found)
    return "\n".join(printable(each) for each in lines)


def _server_lines(found: StoreState) -> list[str]:
    lines = [f"server       {found.connections} of {found.most_connections} connections are open"]
    lines += [
        f"{'note' if hint else 'server':<12} {text}{f': {hint}' if hint else ''}"
        for text, hint in found.settings
    ]
    lines.append(f"pgvector     {'yes' if found.has_vectors else 'no'}")
    if found.copy_finished_at is not None:
        lines.append(f"copy         whole, proved at {instant_text(found.copy_finished_at)}")
    elif found.copy_began_at is not None:
        began = instant_text(found.copy_began_at)
        lines.append(f"copy         not finished since {began}: run `pointsman store copy` again")
    return lines


def _state_value(found: StoreState) -> dict[str, object]:
    began, finished = found.copy_began_at, found.copy_finished_at
    return {
        "kind": found.kind,
        "where": found.where,
        "usable": found.is_usable,
        "trouble": found.trouble,
        "schema_version": found.schema_version,
        "pending": found.pending,
        "ledger": found.ledger,
        "own_ledger": found.is_own,
        "bytes": found.sizes,
        "connections": {"open": found.connections, "most": found.most_connections},
        "settings": [{"text": text, "hint": hint} for text, hint in found.settings],
        "pgvector": found.has_vectors,
        "copy": {
            "began_at": None if began is None else instant_text(began),
            "finished_at": None if finished is None else instant_text(finished),
        },
    }


def _copy_text(target: PostgresStore, begun: CopyProgress, proof: CopyProof) -> str:
    lines = []
    if begun.is_ahead:
        lines.append("the target holds this home and went on by itself: nothing was written")
    elif begun.is_needless:
        lines.append("the home was copied before: nothing was written")
    for each in proof.tables:
        if each.rows or not each.is_equal:
            state = "equal" if each.is_equal else f"DIFFERENT: the target has {each.copied}"
            lines.append(f"{each.table:<24} {count_text(each.rows, 'row'):<14} {state}")
    lines += [
        f"{each.chain:<24} {count_text(each.entries, 'entry', 'entries')}, verified from the target"
        for each in proof.ledger.chains
    ]
    lines += [f"FAULT {each.chain}/{each.seq}: {each.message}" for each in proof.ledger.faults]
    if not proof.has_checkpoints:
        lines.append("FAULT the target lacks a checkpoint of this home")
    lines.append("the copy is whole" if proof.is_whole else "the copy is NOT whole")
    if proof.is_whole:
        lines.append(f"next: POINTSMAN_STORE={target.shown}, or `store:` in pointsman.yaml")
    return "\n".join(printable(each) for each in lines)


def _copy_value(target: PostgresStore, begun: CopyProgress, proof: CopyProof) -> dict[str, object]:
    return {
        "target": target.shown,
        "whole": proof.is_whole,
        "written": not begun.is_needless,
        "ahead": begun.is_ahead,
        "tables": [{**asdict(each), "equal": each.is_equal} for each in proof.tables],
        "entries": proof.ledger.entries,
        "chains": {each.chain: each.entries for each in proof.ledger.chains},
        "faults": proof.ledger.faults,
        "checkpoints": proof.has_checkpoints,
    }
