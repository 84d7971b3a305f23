"""Several open a database that is not there yet, all at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from pointsman.storage.sqlite.database import open_database

MANY = 6


def test_whoever_begins_a_database_beside_others_waits_for_them(tmp_path: Path) -> None:
    together = Barrier(MANY)

    def begin(path: Path) -> str:
        together.wait(60)
        connection = open_database(str(path), "patterns.sql", sync="NORMAL")
        try:
            return str(connection.pragma("journal_mode"))
        finally:
            connection.close()

    with ThreadPoolExecutor(MANY) as pool:
        for number in range(40):
            path = tmp_path / f"{number}.db"
            assert set(pool.map(begin, [path] * MANY)) == {"wal"}
