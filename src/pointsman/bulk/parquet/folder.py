"""A folder of Parquet files: a manifest of its content, and its files by day."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.bulk.parquet.tables import TableName
from pointsman.errors import InputError
from pointsman.kernel.instant import DAY, Instant, instant_text
from pointsman.storage.files import replace_file
from pointsman.storage.home import Home

FORMAT: Final = "pointsman/parquet/1"
MANIFEST: Final = "_pointsman.json"


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a folder: of which ledger, from which day on, and how far into each chain.

    Files begin at multiples of `length` entries; a file with fewer grows with the next export.
    """

    format: str
    ledger: str
    length: int
    first_day: int
    has_text: bool
    exported: dict[str, int]


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a folder; None where nothing was exported to it."""
    path = folder / MANIFEST
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"the export cannot be continued: {error}", where=str(path)) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder, in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    replace_file(folder / MANIFEST, text + b"\n")


def continue_folder(home: Home, folder: Path, wanted: Manifest) -> Manifest:
    """Return the manifest of a folder to add to; refuse a folder of something else."""
    found = read_manifest(folder)
    if found is None:
        if folder.exists() and any(folder.iterdir()):
            raise InputError("the folder holds something else", where=str(folder))
        return wanted
    if found.format != FORMAT or found.ledger != home.identity.ledger:
        raise InputError("the folder holds the export of another ledger", where=str(folder))
    asked = (wanted.first_day, wanted.has_text, wanted.length)
    if asked != (found.first_day, found.has_text, found.length):
        raise InputError(
            "the folder was exported with another --since, --text or --length",
            where=str(folder),
            hint="export to another folder, or with the same options",
        )
    return found


def day_text(day: int) -> str:
    """Write a day since 1970 as a date."""
    return instant_text(Instant(day * DAY))[:10]


def file_of(folder: Path, table: TableName, day: int, chain: str, first: int) -> Path:
    """Name the file of one table, day and range."""
    return folder / table / f"day={day_text(day)}" / f"part-{chain}-{first:012d}.parquet"
