"""A picture from a file, as it is sent to a model."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

from pointsman.errors import InputError
from pointsman.providers.messages import Image

MOST_BYTES: Final = 5 * 1024 * 1024
_KINDS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def read_picture(path: Path) -> Image:
    """Read a picture; raises where it cannot be sent."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if len(data) > MOST_BYTES:
        raise InputError(f"is larger than {MOST_BYTES} bytes", where=str(path))
    kind = _kind(data)
    if kind is None:
        raise InputError("is no picture", where=str(path), hint="give a PNG, JPEG, GIF or WebP")
    return Image("base64", base64.b64encode(data).decode(), kind)


def _kind(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS if data.startswith(start)), None)


def near_files(folder: Path, begun: str, most: int = 50) -> tuple[str, ...]:
    """Return the files that complete a begun path."""
    parent = begun.rpartition("/")[0]
    place = Path(parent + "/").expanduser() if begun.startswith(("/", "~")) else folder / parent
    try:
        found = sorted(place.iterdir())[: most * 20]
    except OSError:
        return ()
    start = f"{parent}/" if "/" in begun else ""
    names = (f"{start}{each.name}{'/' if each.is_dir() else ''}" for each in found)
    hidden = begun.rpartition("/")[2].startswith(".")
    wanted = [name for name in names if name.startswith(begun) and (hidden or not _hides(name))]
    return tuple(wanted[:most])


def _hides(name: str) -> bool:
    return name.rstrip("/").rpartition("/")[2].startswith(".")
