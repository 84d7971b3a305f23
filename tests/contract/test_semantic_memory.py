"""Semantic memory: what was written stays, with where it came from; a request writes once."""

import ast
import threading
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from pointsman.errors import LedgerUnavailable, SemNotFound, SemWriteFail
from pointsman.kernel.instant import Instant
from pointsman.storage.sqlite.database import SqliteConnection
from pointsman.storage.stores.semantic import Provenance, SemanticMemory, write_version

SOURCE = Path(__file__).parents[2] / "src" / "pointsman"
WRITER = "write_version"


def by(request_id: str) -> Provenance:
    return Provenance(request_id, "e-1", "sha256:aa", "ann", ("c1", "c2", "c3"), Instant(7))


def test_every_version_is_kept_with_where_it_came_from(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    write_version(path, "n", "k", b"1", by("r1"))
    written = write_version(path, "n", "k", b"2", by("r2"))
    with closing(SemanticMemory(path)) as memory:
        assert memory.get("n", "k") == written
        assert [each.value for each in memory.history("n", "k")] == [b"1", b"2"]
        assert [each.version for each in memory.history("n", "k")] == [1, 2]
    assert written.provenance == by("r2")


def test_a_request_writes_once_however_often_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first = write_version(path, "n", "k", b"1", by("r1"))
    again = write_version(path, "n", "k", b"other", replace(by("r1"), entry="e-2"))
    assert again == first
    with closing(SemanticMemory(path)) as memory:
        assert len(memory.every_version()) == 1


def test_a_namespace_lists_what_it_holds_now(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for n, (key, value) in enumerate([("b", b"1"), ("a", b"2"), ("c", b"3"), ("b", None)]):
        write_version(path, "n", key, value, by(f"r{n}"))
    write_version(path, "other", "z", b"9", by("rz"))
    with closing(SemanticMemory(path)) as memory:
        assert [each.key for each in memory.list_namespace("n")] == ["a", "c"]
        with pytest.raises(SemNotFound):
            memory.get("n", "b")
        with pytest.raises(SemNotFound):
            memory.get("n", "never")


def test_the_snapshot_of_a_namespace_changes_with_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(SemanticMemory(path)) as memory:
        empty = memory.snapshot_id("n")
        write_version(path, "n", "k", b"1", by("r1"))
        one = memory.snapshot_id("n")
        write_version(path, "m", "k", b"1", by("r2"))
        assert memory.snapshot_id("n") == one != empty
        write_version(path, "n", "k", b"2", by("r3"))
        assert memory.snapshot_id("n") != one


def test_reading_makes_no_database(tmp_path: Path) -> None:
    with closing(SemanticMemory(tmp_path / "s.db")) as memory:
        assert memory.list_namespace("n") == []
    assert not (tmp_path / "s.db").exists()


def test_a_database_whose_making_was_cut_short_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.touch(mode=0o600)
    with closing(SemanticMemory(path)) as memory:
        assert memory.list_namespace("n") == []
        write_version(path, "n", "k", b"1", by("r1"))
        assert [each.key for each in memory.list_namespace("n")] == ["k"]


def test_a_writer_waits_for_whoever_looks(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = apsw.Connection(str(path))
    path.chmod(0o600)
    connection.execute("BEGIN EXCLUSIVE")
    freeing = threading.Timer(0.05, connection.close)
    freeing.start()
    assert write_version(path, "n", "k", b"1", by("r1")).version == 1
    freeing.join()


@pytest.mark.parametrize("change", ["UPDATE versions SET value = x'00'", "DELETE FROM versions"])
def test_a_version_is_neither_changed_nor_removed(tmp_path: Path, change: str) -> None:
    path = tmp_path / "s.db"
    write_version(path, "n", "k", b"1", by("r1"))
    connection = apsw.Connection(str(path))
    with pytest.raises(apsw.ConstraintError):
        connection.execute(change)
    connection.close()


def test_it_is_synced_before_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    real = apsw.Connection.pragma

    class Watched(SqliteConnection):
        def pragma(self, name: str, *values: object, **more: object) -> object:
            seen.append((name, *values))
            return real(self, name, *values, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("pointsman.storage.sqlite.database.SqliteConnection", Watched)
    write_version(tmp_path / "s.db", "n", "k", b"1", by("r1"))
    assert ("synchronous", "FULL") in seen


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "s.db").mkdir()
    with pytest.raises((SemWriteFail, LedgerUnavailable)):
        write_version(tmp_path / "s.db", "n", "k", b"1", by("r1"))


@pytest.mark.req(360)
def test_only_the_effector_writes() -> None:
    """INVARIANT: no module but the effector names the function that writes."""
    found = set()
    texts = {path: path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    for path, text in texts.items():
        if WRITER not in text and "semantic" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            names = (
                [each.name for each in node.names]
                if isinstance(node, ast.ImportFrom | ast.Import)
                else [node.attr]
                if isinstance(node, ast.Attribute)
                else []
            )
            if WRITER in names or ("semantic" in names and isinstance(node, ast.ImportFrom)):
                found.add(path.relative_to(SOURCE).as_posix())
    assert found == {"approvals/effects.py"}


def test_the_reader_has_no_way_to_write() -> None:
    public = {name for name in vars(SemanticMemory) if not name.startswith("_")}
    assert public == {"close", "get", "history", "list_namespace", "every_version", "snapshot_id"}
