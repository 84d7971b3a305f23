"""Semantic memory: every version stays, and a request writes once."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest
from msgspec.structs import replace

from pointsman.errors import LedgerError, SemNotFound
from pointsman.kernel.instant import Instant
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.stores.semantic import (
    SEMANTIC,
    Provenance,
    SemanticMemory,
    write_version,
)


@pytest.fixture
def place(store: Store) -> StorePlace:
    return store.place(SEMANTIC)


def by(request_id: str) -> Provenance:
    return Provenance(request_id, "e-1", "sha256:aa", "ann", ("c1", "c2"), Instant(7))


def test_every_version_is_kept_with_where_it_came_from(place: StorePlace) -> None:
    write_version(place, "n", "k", b"1", by("r1"))
    written = write_version(place, "n", "k", b"\0two", by("r2"))
    with closing(SemanticMemory(place)) as memory:
        assert memory.get("n", "k") == written
        assert [each.value for each in memory.history("n", "k")] == [b"1", b"\0two"]
        assert [each.version for each in memory.history("n", "k")] == [1, 2]
    assert written.provenance == by("r2")


def test_a_request_writes_once_however_often_it_is_told(place: StorePlace) -> None:
    first = write_version(place, "n", "k", b"1", by("r1"))
    again = write_version(place, "n", "k", b"other", replace(by("r1"), entry="e-2"))
    assert again == first
    with closing(SemanticMemory(place)) as memory:
        assert memory.every_version() == [first]


def test_a_namespace_lists_what_it_holds_now_by_the_bytes_of_its_keys(place: StorePlace) -> None:
    told = [("b", b"1"), ("a", b"2"), ("B", b"3"), ("b", None), ("é", b"4")]
    for number, (key, value) in enumerate(told):
        write_version(place, "n", key, value, by(f"r{number}"))
    with closing(SemanticMemory(place)) as memory:
        assert [each.key for each in memory.list_namespace("n")] == ["B", "a", "é"]
        assert memory.list_namespace("other") == []
        with pytest.raises(SemNotFound):
            memory.get("n", "b")


def test_a_namespace_has_the_same_name_wherever_it_is_kept(place: StorePlace) -> None:
    write_version(place, "n", "k", b'"v"', by("r1"))
    with closing(SemanticMemory(place)) as memory:
        found = memory.snapshot_id("n")
    assert found == "sha256:363aabacc1aeb000ca7b3d7e89fdb95719400de98033285f8f88054bdebb72f9"


def test_nothing_is_found_before_anything_is_written(place: StorePlace) -> None:
    with closing(SemanticMemory(place)) as memory:
        assert memory.list_namespace("n") == []
        assert memory.history("n", "k") == []


@pytest.mark.parametrize("change", ["UPDATE versions SET entry = 'x'", "DELETE FROM versions"])
def test_a_version_is_neither_changed_nor_removed(place: StorePlace, change: str) -> None:
    write_version(place, "n", "k", b"1", by("r1"))
    connection = place.writing("semantic.sql")
    with pytest.raises(LedgerError, match="never"), place.told_errors():
        connection.execute(change)
    connection.close()


def test_versions_of_many_writers_have_no_gap(place: StorePlace) -> None:
    def work(part: int) -> None:
        for number in range(5):
            write_version(place, "n", "k", b"1", by(f"r{part}-{number}"))

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with closing(SemanticMemory(place)) as memory:
        assert [each.version for each in memory.history("n", "k")] == [*range(1, 21)]
