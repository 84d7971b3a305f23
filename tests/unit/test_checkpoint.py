import base64
import hashlib

import pytest

from pointsman.errors import LedgerBroken
from pointsman.kernel.checkpoint import (
    origin,
    read_checkpoint,
    signed_checkpoint,
    split_checkpoints,
)
from pointsman.kernel.entry import Chain
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import Frontier, append_leaves, leaf_hash, root
from pointsman.kernel.signing import SigningKey, signed_bytes

CHAIN = Chain("0" * 32, "cli")
KEY = SigningKey(bytes(32))
OTHER = SigningKey(bytes([1] * 32))
LEAVES = [leaf_hash(bytes([number])) for number in range(5)]
FRONTIER = append_leaves(Frontier(), LEAVES)
TEXT = signed_checkpoint(CHAIN, FRONTIER, LEAVES[-1], Instant(1_000_001), KEY)


def b64(data):
    return base64.b64encode(data).decode()


def note(body):
    """Sign any text as if it were a checkpoint."""
    name, key = origin(CHAIN), KEY
    short = hashlib.sha256(name.encode() + b"\n\x01" + key.public).digest()[:4]
    return f"{body}\n\N{EM DASH} {name} {b64(short + key.sign(body.encode()))}\n"


def test_a_checkpoint_has_the_form_of_a_signed_tlog_note():
    body, _, line = TEXT.partition("\n\n")
    assert body.split("\n") == [
        f"pointsman/{'0' * 32}/cli",
        "5",
        b64(root(FRONTIER)),
        f"head {b64(LEAVES[-1])}",
        "at 1970-01-01T00:00:01.000001Z",
        *(f"peak {b64(peak)}" for peak in FRONTIER.peaks),
    ]
    assert note(body + "\n") == TEXT
    assert line.startswith(f"\N{EM DASH} {origin(CHAIN)} ")


def test_a_checkpoint_is_read_back_as_it_was_signed():
    found = read_checkpoint(CHAIN, TEXT, [OTHER, KEY])
    assert (found.size, found.root, found.head) == (5, root(FRONTIER), LEAVES[-1])
    assert (found.frontier, found.at, found.text) == (FRONTIER, 1_000_001, TEXT)


def test_every_changed_bit_breaks_a_checkpoint():
    data = TEXT.encode()
    for position in range(len(data) * 8):
        changed = bytearray(data)
        changed[position // 8] ^= 1 << position % 8
        text = changed.decode(errors="replace")
        with pytest.raises(LedgerBroken):
            read_checkpoint(CHAIN, text, [KEY])


def test_every_cut_breaks_a_checkpoint():
    for end in range(len(TEXT)):
        with pytest.raises(LedgerBroken):
            read_checkpoint(CHAIN, TEXT[:end], [KEY])


@pytest.mark.parametrize("chain", [Chain("0" * 32, "cl"), Chain("1" * 32, "cli")])
def test_a_checkpoint_speaks_for_no_other_chain(chain):
    with pytest.raises(LedgerBroken, match="not a signed checkpoint of this chain"):
        read_checkpoint(chain, TEXT, [KEY])


def test_a_checkpoint_signed_by_another_key_is_refused():
    text = signed_checkpoint(CHAIN, FRONTIER, LEAVES[-1], Instant(0), OTHER)
    with pytest.raises(LedgerBroken, match="not by a key of this ledger"):
        read_checkpoint(CHAIN, text, [KEY])


def test_a_second_signature_line_is_refused():
    with pytest.raises(LedgerBroken, match="not a signed checkpoint"):
        read_checkpoint(CHAIN, TEXT + TEXT.splitlines()[-1] + "\n", [KEY])


BODY = TEXT.partition("\n\n")[0] + "\n"
LINES = BODY.split("\n")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "\n",
        "one line\n",
        BODY.replace("\n5\n", "\n7\n"),
        BODY.replace("\n5\n", "\nfive\n"),
        BODY.replace("\n5\n", "\n-5\n"),
        BODY.replace(LINES[2], b64(bytes(32))),
        BODY.replace(LINES[2], "?"),
        BODY.replace("1970", "1900"),
        BODY.replace("/cli\n", "/cl\n"),
        BODY + f"peak {b64(bytes(32))}\n",
        "\n".join(LINES[:5]) + "\n",
        signed_bytes("bundle", bytes(range(32, 64)) + b"\n").decode(),
    ],
)
def test_what_is_signed_but_no_checkpoint_of_a_tree_is_refused(body):
    with pytest.raises(LedgerBroken):
        read_checkpoint(CHAIN, note(body), [KEY])


def test_a_file_is_split_into_its_checkpoints_and_the_torn_rest():
    later = signed_checkpoint(CHAIN, append_leaves(FRONTIER, LEAVES), LEAVES[0], Instant(9), KEY)
    whole = TEXT + "\n" + later + "\n"
    assert split_checkpoints("") == ([], "")
    assert split_checkpoints(whole) == ([TEXT, later], "")
    for end in range(len(TEXT) + 1, len(whole)):
        assert split_checkpoints(whole[:end]) == ([TEXT], whole[len(TEXT) + 1 : end])
