"""Pages of the manual, made from the commands themselves: printed, or put where `man` looks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from pointsman.cli.examples import EXAMPLES
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.main import COMMANDS, GROUPS, main
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.kernel.nearest import nearest
from pointsman.version import VERSION

PROGRAM: Final = "pointsman"
EXIT_CODES: Final = (
    ("0", "done"),
    (
        "1",
        (
            "decided against, or something is broken: no model may take the turn, a replay "
            "differs, a ledger is not intact, `doctor` found a fault"
        ),
    ),
    ("2", "bad input or configuration"),
)


@click.command(cls=ExampleCommand)
@click.argument("name", metavar="[COMMAND]", required=False)
@click.option("--install", is_flag=True, help="Write all pages where `man` looks for them.")
@click.option("--out", metavar="DIR", help="Write all pages to this folder instead.")
@command
def manual(session: Session, name: str | None, install: bool, out: str | None) -> None:  # noqa: FBT001 - click passes flags so
    """Print a page of the manual, or install the pages for `man`.

    Without a command, the page of the program. Installed pages are found by `man pointsman` and
    `man pointsman-rules`.
    """
    if install or out is not None:
        folder = Path(out) if out is not None else manual_folder()
        folder.mkdir(parents=True, exist_ok=True)
        pages = manual_pages()
        for file, text in pages.items():
            (folder / file).write_text(text, encoding="utf-8")
        next_ = f"man {PROGRAM}" if out is None else f"man -l {folder / PROGRAM}.1"
        said = f"written  {len(pages)} pages to {folder}\nnext     {next_}"
        session.show(said, {"folder": str(folder), "pages": sorted(pages)})
        return
    if name is not None and name not in COMMANDS:
        near = nearest(name, COMMANDS)
        raise InputError(f"no command `{name}`", hint=f"did you mean `{near}`?" if near else "")
    text = program_page() if name is None else command_page(name)
    session.show(text.rstrip("\n"), {"page": text})


def manual_folder() -> Path:
    """Return the user's folder of pages: `man` looks there where ~/.local/bin is on the PATH."""
    data = os.environ.get("XDG_DATA_HOME", "") or Path.home() / ".local" / "share"
    return Path(data) / "man" / "man1"


def manual_pages() -> dict[str, str]:
    """Return every page by its file name: one of the program, one for each command."""
    pages = {f"{PROGRAM}.1": program_page()}
    return pages | {f"{PROGRAM}-{name}.1": command_page(name) for name in COMMANDS}


def program_page() -> str:
    """Return the page of the program: its commands by question."""
    lines = [*_head(PROGRAM, main.help or "")]
    lines += [".SH SYNOPSIS", _bold(PROGRAM) + " [OPTIONS] COMMAND [ARGS]..."]
    for title, names in GROUPS.items():
        lines.append(f".SH {_text(title.upper())}")
        for name in names:
            lines += [".TP", _bold(f"{PROGRAM}-{name}") + "(1)", _text(COMMANDS[name][1])]
    lines += [".SH OPTIONS", *_options(click.Context(main, info_name=PROGRAM), main)]
    lines += [*_tail(name for name in COMMANDS)]
    return "\n".join(lines) + "\n"


def command_page(name: str) -> str:
    """Return the page of a command, with a section for each command below it."""
    root = click.Context(main, info_name=PROGRAM)
    lines = [*_head(f"{PROGRAM}-{name}", COMMANDS[name][1])]
    found = main.get_command(root, name)
    if found is not None:
        lines += _sections(click.Context(found, parent=root, info_name=name), found, [name])
    lines += _tail([])
    return "\n".join(lines) + "\n"


def _sections(ctx: click.Context, each: click.Command, words: list[str]) -> Iterator[str]:
    if len(words) > 1:
        yield f".SH {_text(' '.join(words).upper())}"
    else:
        yield ".SH SYNOPSIS"
    yield f"{_bold(ctx.command_path)} {_text(' '.join(each.collect_usage_pieces(ctx)))}"
    yield ".PP" if len(words) > 1 else ".SH DESCRIPTION"
    for number, paragraph in enumerate((each.help or "").split("\n\n")):
        yield from [".PP"] if number else []
        yield _text(" ".join(paragraph.split()))
    yield from _options(ctx, each)
    yield from _examples(" ".join(words))
    if isinstance(each, click.Group):
        for name in each.list_commands(ctx):
            below = each.get_command(ctx, name)
            if below is not None:
                there = click.Context(below, parent=ctx, info_name=name)
                yield from _sections(there, below, [*words, name])


def _options(ctx: click.Context, each: click.Command) -> Iterator[str]:
    for parameter in each.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            yield from (".TP", _bold(record[0]), _text(record[1]))


def _examples(words: str) -> Iterator[str]:
    for number, line in enumerate(EXAMPLES.get(words, ())):
        yield from (".PP", "Examples:") if number == 0 else ()
        yield from (".PP", ".nf", _text(f"    {PROGRAM} {line}"), ".fi")


def _head(name: str, summary: str) -> Iterator[str]:
    yield f'.TH "{_text(name.upper())}" 1 "" "{PROGRAM} {VERSION}" "Pointsman"'
    yield ".SH NAME"
    yield f"{_text(name)} \\- {_text(' '.join(summary.split()))}"


def _tail(others: Iterator[str] | list[str]) -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES:
        yield from (".TP", _bold(code), _text(meaning))
    yield ".SH SEE ALSO"
    names = [f"{PROGRAM}-{name}" for name in others] or [PROGRAM]
    yield ", ".join(f"{_bold(name)}(1)" for name in names)


def _text(text: str) -> str:
    """Write text so that it stands on the page as it is, without a request to the typesetter."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fR"
