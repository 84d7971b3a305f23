"""Keys on disk and in memory: seen by other processes within a second, never with their secret."""

import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pointsman.access.keyring import (
    LOOKED_EVERY,
    USE_NOTED_EVERY,
    Keyring,
    opened_admin_token,
)
from pointsman.access.keys import ENTROPY_BYTES, Key, KeyRefusal, Principal, key_token, token_digest
from pointsman.errors import InputError, LedgerBroken, NotAuthenticated, NotFound
from pointsman.kernel.instant import SECOND, Instant, read_instant

NOW = read_instant("2026-03-01T00:00:00Z")


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[Keyring]:
    ring = Keyring(tmp_path)
    yield ring
    ring.close()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Keyring]:
    """The same keys as another process sees them."""
    ring = Keyring(tmp_path)
    yield ring
    ring.close()


def made(ring: Keyring, name: str = "ci", number: int = 0) -> tuple[str, str]:
    key_id, token = key_token(bytes([number]) * ENTROPY_BYTES)
    ring.create(Key(key_id, name, NOW), token)
    return key_id, token


def asked(ring: Keyring, token: str | None, now: int = NOW) -> Principal:
    return ring.principal(token, scope="models", is_loopback=True, now=Instant(now))


def test_looking_makes_no_database(ring: Keyring, tmp_path: Path) -> None:
    assert asked(ring, "sk-x").is_anonymous
    assert ring.list_keys() == []
    assert not (tmp_path / "access.db").exists()


def test_only_the_owner_may_read_the_keys(ring: Keyring, tmp_path: Path) -> None:
    made(ring)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_this_process_makes_and_ends_counts_at_once(ring: Keyring) -> None:
    asked(ring, None)
    key_id, token = made(ring)
    assert asked(ring, token).key_id == key_id
    ring.revoke(key_id, NOW)
    with pytest.raises(NotAuthenticated) as caught:
        asked(ring, token)
    assert caught.value.reason == KeyRefusal.REVOKED


def test_what_another_process_does_counts_within_a_second(
    ring: Keyring, elsewhere: Keyring
) -> None:
    assert LOOKED_EVERY < SECOND
    assert asked(ring, None).is_anonymous
    key_id, token = made(elsewhere)
    later = NOW + LOOKED_EVERY
    assert asked(ring, token, later).key_id == key_id
    elsewhere.revoke(key_id, NOW)
    with pytest.raises(NotAuthenticated):
        asked(ring, token, later + LOOKED_EVERY)


def test_a_clock_set_back_hides_no_revocation(ring: Keyring, elsewhere: Keyring) -> None:
    key_id, token = made(elsewhere)
    assert asked(ring, token).key_id == key_id
    elsewhere.revoke(key_id, NOW)
    with pytest.raises(NotAuthenticated):
        asked(ring, token, NOW - 3600 * SECOND)


def test_only_what_changed_is_read_again(ring: Keyring, elsewhere: Keyring) -> None:
    for number in range(5):
        made(elsewhere, f"key {number}", number)
    before = ring.keys(NOW).known
    assert len(before) == 5
    sixth, _ = made(elsewhere, "sixth", 9)
    after = ring.keys(Instant(NOW + LOOKED_EVERY)).known
    assert [*after] == [*before, sixth]
    assert all(after[name] is before[name] for name in before)


def test_when_a_key_was_used_is_written_later_and_coarsely(
    ring: Keyring, elsewhere: Keyring
) -> None:
    key_id, token = made(ring)
    asked(ring, token)
    assert elsewhere.find(key_id).last_used_at is None
    ring.write_uses()
    assert elsewhere.find(key_id).last_used_at == NOW
    asked(ring, token, NOW + USE_NOTED_EVERY - 1)
    ring.write_uses()
    assert elsewhere.find(key_id).last_used_at == NOW
    asked(ring, token, NOW + USE_NOTED_EVERY)
    ring.write_uses()
    assert elsewhere.find(key_id).last_used_at == NOW + USE_NOTED_EVERY


def test_a_key_is_found_by_the_start_of_its_id(ring: Keyring) -> None:
    first, _ = made(ring, "first", 1)
    second, _ = made(ring, "second", 255)
    assert ring.find(first[:6]).key.name == "first"
    assert ring.find(second).key.name == "second"
    for name in ("zzz", ""):
        with pytest.raises(NotFound):
            ring.find(name)


def test_two_keys_that_begin_alike_need_more_of_the_id(ring: Keyring) -> None:
    for last in (1, 2):
        key_id, token = key_token(bytes(9) + bytes([last]) + bytes(32))
        ring.create(Key(key_id, "x", NOW), token)
    with pytest.raises(InputError, match="2 keys begin with `aaa`"):
        ring.find("aaa")


def test_a_second_revocation_changes_nothing(ring: Keyring) -> None:
    key_id, _ = made(ring)
    assert ring.revoke(key_id, NOW).revoked_at == NOW
    assert ring.revoke(key_id[:4], Instant(NOW + 5)).revoked_at == NOW


def test_a_damaged_store_serves_nobody(tmp_path: Path) -> None:
    (tmp_path / "access.db").write_bytes(b"not a database" * 100)
    with pytest.raises(LedgerBroken):
        asked(Keyring(tmp_path), "sk-x")


def test_the_admin_token_is_made_and_shown_once(tmp_path: Path) -> None:
    first = opened_admin_token(tmp_path, "", bytes(range(32)))
    assert first.shown_once.startswith("pa_")
    assert first.digest == token_digest(first.shown_once)
    second = opened_admin_token(tmp_path, "", bytes(32))
    assert (second.digest, second.shown_once) == (first.digest, "")
    for path in tmp_path.iterdir():
        assert first.shown_once[3:].encode() not in path.read_bytes()


def test_a_given_admin_token_wins_and_is_not_stored(tmp_path: Path) -> None:
    token = opened_admin_token(tmp_path, "from the environment", bytes(32))
    assert (token.digest, token.shown_once) == (token_digest("from the environment"), "")
    assert [*tmp_path.iterdir()] == []


def test_the_admin_token_opens_admin_routes_without_being_a_key(tmp_path: Path) -> None:
    token = opened_admin_token(tmp_path, "", bytes(range(32)))
    ring = Keyring(tmp_path, token.digest)
    caller = ring.principal(token.shown_once, scope="admin", is_loopback=False, now=NOW)
    assert (caller.is_admin, caller.key_id, ring.list_keys()) == (True, "", [])
    assert asked(ring, "sk-x").is_anonymous
    ring.close()


def test_threads_share_one_keyring(ring: Keyring) -> None:
    key_id, token = made(ring)
    wrong: list[object] = []

    def call(offset: int) -> None:
        for step in range(200):
            found = asked(ring, token, NOW + (offset + step) * LOOKED_EVERY)
            if found.key_id != key_id:
                wrong.append(found)

    threads = [threading.Thread(target=call, args=(each,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
