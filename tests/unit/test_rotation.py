"""Rotations of the signing key: both keys sign them, and the old key's word ends with them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pointsman.errors import IntegrityFailure, LedgerBroken
from pointsman.kernel.checkpoint import read_checkpoint, signed_checkpoint
from pointsman.kernel.entry import Chain
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import Frontier, append_leaves, leaf_hash
from pointsman.kernel.rotation import (
    ROTATED,
    KeyRotation,
    covering,
    key_ring,
    rotate_key,
    rotation_draft,
)
from pointsman.kernel.signing import SigningKey

LEDGER = "0" * 32
FIRST, SECOND, THIRD = (SigningKey(bytes([number] * 32)) for number in range(3))
AT = Instant(1_000_000)
ROTATION = rotate_key(LEDGER, (FIRST, SECOND), {"cli": 3}, AT)
PUBLICS = [FIRST.public.hex(), SECOND.public.hex()]


def test_newest_key_stands_last_and_counts_for_everything() -> None:
    old, new = key_ring(LEDGER, PUBLICS, [ROTATION])
    assert (old.public, new.public) == (FIRST.public, SECOND.public)
    assert new.covers("cli", 10_000)


def test_old_key_counts_for_what_its_chains_held_and_for_no_more() -> None:
    keys = key_ring(LEDGER, PUBLICS, [ROTATION])
    assert [key.public for key in covering(keys, "cli", 2)] == [FIRST.public, SECOND.public]
    assert [key.public for key in covering(keys, "cli", 3)] == [SECOND.public]
    assert [key.public for key in covering(keys, "begun-later", 0)] == [SECOND.public]


def test_ledger_that_was_never_rotated_has_its_first_key_alone() -> None:
    (only,) = key_ring(LEDGER, PUBLICS[:1], [])
    assert only.public == FIRST.public


def test_keys_without_the_rotations_between_them_are_refused() -> None:
    with pytest.raises(IntegrityFailure, match="2 keys need 1 rotations between them"):
        key_ring(LEDGER, PUBLICS, [])


@pytest.mark.parametrize(
    "changed",
    [
        {"ledger": "1" * 32},
        {"new": THIRD.public.hex()},
        {"old": THIRD.public.hex()},
        {"chains": {"cli": 4}},
        {"by_old": ROTATION.by_new},
        {"by_new": ROTATION.by_old},
    ],
)
def test_changed_rotation_names_no_successor(changed: dict[str, object]) -> None:
    with pytest.raises(IntegrityFailure, match="did not name"):
        key_ring(LEDGER, PUBLICS, [replace(ROTATION, **changed)])


def test_key_that_follows_from_another_key_is_refused() -> None:
    elsewhere = rotate_key(LEDGER, (THIRD, SECOND), {"cli": 3}, AT)
    with pytest.raises(IntegrityFailure, match=SECOND.id):
        key_ring(LEDGER, PUBLICS, [elsewhere])


def test_time_from_which_a_key_was_in_other_hands_is_part_of_the_statement() -> None:
    since = rotate_key(LEDGER, (FIRST, SECOND), {"cli": 3}, AT, Instant(0))
    assert since.compromised_since == "1970-01-01T00:00:00.000000Z"
    assert since.statement != ROTATION.statement


def test_entry_of_a_rotation_names_both_keys_and_holds_the_statement() -> None:
    draft = rotation_draft(ROTATION)
    assert (draft.kind, draft.id, draft.ref, draft.at) == (ROTATED, SECOND.id, FIRST.id, AT)
    assert isinstance(ROTATION, KeyRotation)
    assert ROTATION.by_old.encode() in draft.payload


def test_checkpoint_past_the_end_of_its_key_is_broken() -> None:
    chain = Chain(LEDGER, "cli")
    leaves = [leaf_hash(bytes([number])) for number in range(4)]
    keys = key_ring(LEDGER, PUBLICS, [ROTATION])

    def signed(count: int) -> str:
        frontier = append_leaves(Frontier(), leaves[:count])
        return signed_checkpoint(chain, frontier, leaves[count - 1], AT, FIRST)

    assert read_checkpoint(chain, signed(3), keys).size == 3
    with pytest.raises(LedgerBroken, match="was replaced before"):
        read_checkpoint(chain, signed(4), keys)
