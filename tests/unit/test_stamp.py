"""The stamp on a chain's end."""

import pytest

from pointsman.kernel.entry import Chain
from pointsman.kernel.signing import SigningKey, is_stamped, stamp

KEY = SigningKey(b"k" * 32)
OTHER = SigningKey(b"o" * 32)
CHAIN = Chain("ab" * 16, "cli")
HEAD = b"h" * 32


def test_the_end_a_writer_stamped_is_recognised_by_any_of_the_ledgers_keys() -> None:
    assert is_stamped(CHAIN, 5, HEAD, stamp(CHAIN, 5, HEAD, KEY), [OTHER, KEY])


@pytest.mark.parametrize(
    ("chain", "size", "head", "key"),
    [
        (Chain("ab" * 16, "cli-2"), 5, HEAD, KEY),
        (Chain("cd" * 16, "cli"), 5, HEAD, KEY),
        (CHAIN, 6, HEAD, KEY),
        (CHAIN, 5, b"g" * 32, KEY),
        (CHAIN, 5, HEAD, OTHER),
    ],
    ids=["other chain", "other ledger", "other size", "other head", "other key"],
)
def test_a_stamp_serves_for_one_end_of_one_chain_only(
    chain: Chain, size: int, head: bytes, key: SigningKey
) -> None:
    assert not is_stamped(CHAIN, 5, HEAD, stamp(chain, size, head, key), [KEY])


def test_a_chain_without_entries_has_no_stamp() -> None:
    assert is_stamped(CHAIN, 0, CHAIN.genesis, b"", [KEY])
    assert not is_stamped(CHAIN, 1, HEAD, b"", [KEY])
    assert not is_stamped(CHAIN, 0, CHAIN.genesis, stamp(CHAIN, 0, CHAIN.genesis, KEY), [KEY])
