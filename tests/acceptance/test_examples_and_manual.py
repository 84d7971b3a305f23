"""Each command's help has two examples that can be typed; the manual says what the help says."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from threading import Event

import click
import pytest
from click.testing import CliRunner

from pointsman.cli.examples import EXAMPLES
from pointsman.cli.groups import CommandGroup
from pointsman.cli.main import COMMANDS, main
from pointsman.cli.manual import manual_pages
from pointsman.cli.terms import WaitingLine


def leaves(
    each: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Walk to every command that does something."""
    if isinstance(each, click.Group):
        context = click.Context(each)
        if words and each.invoke_without_command:
            yield words, each
        for name in each.list_commands(context):
            below = each.get_command(context, name)
            assert below is not None
            yield from leaves(below, (*words, name))
    else:
        yield words, each


ALL = {" ".join(words): each for words, each in leaves(main)}


def read_as_typed(words: list[str]) -> None:
    """Read a line as the shell would hand it over, up to the command itself; run nothing."""
    context = main.make_context("pointsman", list(words))
    each: click.Command = main
    while isinstance(each, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and each.invoke_without_command:
            return
        name, found, left = each.resolve_command(context, rest)
        assert found is not None
        each, context = found, found.make_context(name, left, parent=context)


def test_every_command_has_two_examples_and_no_other_has() -> None:
    assert {name for name in ALL if len(set(EXAMPLES.get(name, ()))) < 2} == set()
    assert set(EXAMPLES) - set(ALL) == set()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_are_read_and_fit_the_line(name: str) -> None:
    for line in EXAMPLES[name]:
        words = shlex.split(line, comments=True)
        assert " ".join(words[: len(name.split())]) == name
        if "<" in words or ">" in words or "|" in words:
            words = words[: min(words.index(each) for each in "<>|" if each in words)]
        read_as_typed(words)
        assert len(f"  pointsman {line}") <= 80


@pytest.mark.parametrize("name", sorted(ALL))
def test_help_shows_the_examples(name: str) -> None:
    done = CliRunner().invoke(main, [*name.split(), "--help"])
    assert done.exit_code == 0
    shown = done.output.partition("Examples:")[2]
    for line in EXAMPLES[name]:
        assert f"  pointsman {line}\n" in shown


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["rulez"], "rules"),
        (["rules", "chek"], "check"),
        (["bulk", "start", "replai"], "replay"),
        (["decision", "cache", "claer"], "clear"),
    ],
)
def test_mistyped_command_names_the_one_that_was_meant(typed: list[str], meant: str) -> None:
    done = CliRunner().invoke(main, typed)
    assert done.exit_code == 2
    assert f"(did you mean `{meant}`?)" in done.output


def test_every_group_names_the_nearest_command() -> None:
    for name in COMMANDS:
        each = main.get_command(click.Context(main), name)
        assert not isinstance(each, click.Group) or isinstance(each, CommandGroup)


def test_manual_has_a_page_for_each_command_with_what_its_help_says() -> None:
    pages = manual_pages()
    assert set(pages) == {"pointsman.1", *(f"pointsman-{name}.1" for name in COMMANDS)}
    for name, each in ALL.items():
        page = pages[f"pointsman-{name.split()[0]}.1"].replace("\\-", "-").replace("\\e", "\\")
        for line in EXAMPLES[name]:
            assert f"pointsman {line}" in page
        for option in each.params:
            if isinstance(option, click.Option):
                assert max(option.opts, key=len) in page
                assert (option.help or "") in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_manual_is_read_by_the_typesetter_without_a_complaint() -> None:
    for text in manual_pages().values():
        done = subprocess.run(
            ["groff", "-man", "-Kutf8", "-Tutf8", "-ww"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""


def test_manual_installs_where_man_looks(tmp_path: Path) -> None:
    variables = {"XDG_DATA_HOME": str(tmp_path)}
    done = CliRunner().invoke(main, ["manual", "--install"], env=variables)
    assert done.exit_code == 0, done.output
    written = {path.name for path in (tmp_path / "man" / "man1").iterdir()}
    assert written == set(manual_pages())
    unknown = CliRunner().invoke(main, ["manual", "rulez"])
    assert unknown.exit_code == 2
    assert "did you mean `rules`?" in unknown.output


class Terminal(StringIO):
    """A terminal that tells when something was written to it."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal
        self.wrote = Event()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        done = super().write(text)
        self.wrote.set()
        return done


def test_what_takes_long_says_so_and_takes_the_line_away() -> None:
    terminal = Terminal(is_terminal=True)
    line = WaitingLine("comparing", terminal, quiet_s=0.0)
    line.begin()
    assert terminal.wrote.wait(30)
    line.end()
    line.end()
    assert "comparing, 0 s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_what_is_done_soon_and_what_no_one_watches_writes_nothing() -> None:
    for terminal, quiet_s in (
        (Terminal(is_terminal=True), 600.0),
        (Terminal(is_terminal=False), 0),
    ):
        line = WaitingLine("comparing", terminal, quiet_s=quiet_s)
        line.begin()
        line.end()
        assert terminal.getvalue() == ""
