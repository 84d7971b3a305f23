"""`import`: bring along the configuration of another gateway."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command, read_input
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.operations.litellm.config import ImportedHome, import_config
from pointsman.operations.starter import replace_starter

_HEADINGS = ("", "SETTING", "HERE")


@click.group("import", cls=CommandGroup)
def import_() -> None:
    """Bring along the configuration of another gateway."""


@import_.command("litellm")
@click.argument("file", metavar="FILE|-")
@click.option("--check", "is_check", is_flag=True, help="Report, and write nothing.")
@command
def import_litellm(session: Session, file: str, is_check: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Turn a LiteLLM configuration into this home's files, and report on each setting.

    Written are models.yaml, routing.yaml and, where it is needed, pointsman.yaml; files that were
    edited here are never overwritten. Secrets are referenced, never written.
    """
    text, name = read_input(file)
    found = import_config(text, name, os.environ)
    written: list[str] = []
    if not is_check:
        with session.open(create=True) as pointsman:
            written = replace_starter(pointsman.home, found.files)
    session.show(_report(found, written, session.home), _value(found, written))


def _report(found: ImportedHome, written: list[str], home: Path) -> str:
    rows = [(each.kind, printable(each.where), printable(each.text)) for each in found.notes]
    counts = {kind: sum(each.kind == kind for each in found.notes) for kind in _KINDS}
    lines = [table([_HEADINGS, *rows]), ""]
    lines.append(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    lines += [f"written  {home / name}" for name in written] or ["written  nothing (--check)"]
    lines += [f"set      {name}" for name in found.variables if not os.environ.get(name)]
    return "\n".join(lines)


_KINDS = ("taken", "differs", "missing")


def _value(found: ImportedHome, written: list[str]) -> dict[str, object]:
    return {
        "notes": found.notes,
        "written": written,
        "variables": found.variables,
        "files": {name: text.decode() for name, text in found.files.items()},
    }
