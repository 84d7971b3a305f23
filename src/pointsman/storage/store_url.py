"""Which database a home uses: `--store URL`, POINTSMAN_STORE, or `store:` in pointsman.yaml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pointsman.errors import DocumentError, HomeError
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Json, refuse
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.place import Store
from pointsman.storage.sqlite.folder import SqliteFolder

if TYPE_CHECKING:
    from pointsman.storage.postgres.place import PostgresStore

VARIABLE: Final = "POINTSMAN_STORE"
SETTINGS: Final = "pointsman.yaml"
POSTGRES: Final = ("postgresql://", "postgres://")
SQLITE: Final = "sqlite:"


def chosen_store(home: Path, given: str = "") -> Store:
    """Open the store of a home: the one given, else the environment's, else the settings'."""
    return opened_store(home, given or os.environ.get(VARIABLE, "") or _url_in_settings(home))


def opened_store(home: Path, url: str) -> Store:
    """Return the store that a URL names; without one, SQLite files in the home."""
    if not url or url == SQLITE:
        return SqliteFolder(home)
    if url.startswith(POSTGRES):
        return _postgres(home, url)
    # The URL itself may hold a password, and is not shown.
    raise HomeError(
        f"this is not a store: it begins with `{url.partition(':')[0][:20]}`",
        hint="write postgresql://USER@HOST/DATABASE, or `sqlite:` for files in the home folder",
    )


def shared_store(store: Store) -> PostgresStore | None:
    """Return a store that processes of several machines may share; None for files."""
    if isinstance(store, SqliteFolder):
        return None
    from pointsman.storage.postgres.place import PostgresStore  # noqa: PLC0415 - an extra

    return store if isinstance(store, PostgresStore) else None


def _postgres(home: Path, url: str) -> Store:
    try:
        from pointsman.storage.postgres.place import PostgresStore  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise HomeError(
            "PostgreSQL needs a package that is not installed",
            where=error.name or "",
            hint="pip install 'pointsman[postgres]'",
        ) from error
    return PostgresStore(url, home / "checkpoints")


def _url_in_settings(home: Path) -> str:
    """Return what the settings say, also where the rest of them is broken."""
    path = home / SETTINGS
    text = path.read_bytes() if path.exists() else b""
    if b"store" not in text:
        return ""
    try:
        value = settings_value(text, "store")
    except DocumentError as error:
        # INVARIANT: never another ledger than the one that was meant, for a slip in a file.
        raise HomeError(
            f"it cannot be read, and may name a store: {error}",
            where=str(path),
            hint=f"mend it, or say --store URL or {VARIABLE}",
        ) from error
    url = value.get("store", "") if isinstance(value, dict) else ""
    return url if isinstance(url, str) else ""


def settings_value(text: bytes, name: str) -> Json:
    """Return what `pointsman.yaml` holds; raise where that cannot be told of the key `name`."""
    document = parse_yaml(text, SETTINGS)
    is_told = document.is_sound((name,))
    refuse(each for each in document.problems if not (is_told and each.code == Code.EMPTY_VALUE))
    return document.value
