"""Keys: made once, ended for good, seen by everybody in the order they changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from pointsman.access.keyring import Keyring, opened_admin_token
from pointsman.errors import LedgerError
from pointsman.kernel.instant import Instant
from pointsman.storage.place import Store, StorePlace
from pointsman.storage.stores.access import AccessStore, StoredKey


@pytest.fixture
def place(store: Store) -> StorePlace:
    return store.place("access")


@pytest.fixture
def keys(place: StorePlace) -> Iterator[AccessStore]:
    with closing(AccessStore(place)) as found:
        yield found


def key(name: str, *, digest: bytes = bytes(32)) -> StoredKey:
    return StoredKey(name, digest, f"body of {name}".encode())


def test_nothing_is_there_before_a_key_is_made(keys: AccessStore) -> None:
    assert keys.every_key() == []
    assert keys.changed_since(0) == []
    assert keys.admin_digest() is None


def test_keys_are_listed_in_the_order_they_were_made(keys: AccessStore) -> None:
    for name in ("z", "a", "Ä", "m"):
        keys.add(key(name))
    assert [each.id for each in keys.every_key()] == ["z", "a", "Ä", "m"]
    assert keys.every_key()[0] == StoredKey("z", bytes(32), b"body of z", changed=1)


def test_a_key_is_ended_once_and_stays_so(keys: AccessStore) -> None:
    keys.add(key("a"))
    assert keys.revoke("a", Instant(5))
    assert not keys.revoke("a", Instant(9))
    assert not keys.revoke("unknown", Instant(9))
    assert keys.every_key()[0].revoked_at == 5


def test_a_change_is_found_by_whoever_saw_all_before_it(keys: AccessStore) -> None:
    keys.add(key("a"))
    keys.add(key("b"))
    seen = keys.changed_since(0)[-1].changed
    assert keys.changed_since(seen) == []
    keys.revoke("a", Instant(5))
    assert [(each.id, each.revoked_at) for each in keys.changed_since(seen)] == [("a", 5)]


def test_the_version_changes_when_another_writes(place: StorePlace, keys: AccessStore) -> None:
    keys.add(key("a"))
    before = keys.version()
    with closing(AccessStore(place)) as other:
        other.add(key("b"))
    assert keys.version() != before


def test_the_latest_use_counts_whatever_comes_last(keys: AccessStore) -> None:
    keys.add(key("a"))
    keys.note_uses({"a": Instant(9)})
    keys.note_uses({"a": Instant(4)})
    assert keys.every_key()[0].last_used_at == 9


def test_the_first_admin_token_stands(keys: AccessStore) -> None:
    assert keys.add_admin(b"a" * 32)
    assert not keys.add_admin(b"b" * 32)
    assert keys.admin_digest() == b"a" * 32


def test_a_name_is_taken_once(keys: AccessStore) -> None:
    keys.add(key("a"))
    with pytest.raises(LedgerError):
        keys.add(key("a", digest=bytes(range(32))))
    assert [each.digest for each in keys.every_key()] == [bytes(32)]


def test_no_change_is_missed_while_many_write(place: StorePlace) -> None:
    """Numbers of changes are given in the order in which they can be seen."""
    seen: list[str] = []
    is_done = threading.Event()

    def follow() -> None:
        last = 0
        with closing(AccessStore(place)) as reader:
            while True:
                was_done = is_done.is_set()
                rows = reader.changed_since(last)
                seen.extend(row.id for row in rows)
                last = rows[-1].changed if rows else last
                if was_done:
                    return

    def write(part: int) -> None:
        with closing(AccessStore(place)) as writer:
            for number in range(8):
                writer.add(key(f"{part}-{number}"))

    with closing(AccessStore(place)) as first:
        first.add(key("first"))
    following = threading.Thread(target=follow)
    following.start()
    writers = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    is_done.set()
    following.join()
    assert sorted(seen) == sorted({f"{p}-{n}" for p in range(4) for n in range(8)} | {"first"})


def test_a_keyring_sees_what_another_revoked(place: StorePlace) -> None:
    with closing(Keyring(place)) as one, closing(Keyring(place)) as other:
        token = opened_admin_token(place, "", bytes(range(32)))
        assert token.shown_once
        assert opened_admin_token(place, "", bytes(32)).shown_once == ""
        assert one.list_keys() == other.list_keys() == []
