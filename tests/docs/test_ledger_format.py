"""The worked example of docs/ledger-format.md, recomputed from the text with hashlib alone."""

import hashlib
import io
import re
import struct
from pathlib import Path

import pytest

from pointsman.kernel.checkpoint import read_checkpoint, signed_checkpoint
from pointsman.kernel.entry import Chain, Draft, empty_head, entry_bytes, head_after, next_entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import Frontier, append_leaves, root
from pointsman.kernel.signing import SigningKey
from pointsman.offline_verifier import audit

TEXT = (Path(__file__).parents[2] / "docs" / "ledger-format.md").read_text(encoding="utf-8")
KEY = SigningKey(bytes(range(32)))
CHAIN = Chain("00112233445566778899aabbccddeeff", "demo")
START = 1_700_000_000_000_000
FIRST = Draft("ledger.opened", "open", "", Instant(START), b'{"writer":"demo"}')
SECOND = Draft("decision.turn", "d-1", "t-1", Instant(START + 1), b'{"n":1}', (b'{"facts":1}',))


def block(language):
    return re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[1]


@pytest.fixture(scope="module")
def told():
    """What the table of the example says."""
    return dict(re.findall(r"^\| ([a-z0-9 ]+) \| `([0-9a-f]{64})` \|$", TEXT, re.MULTILINE))


@pytest.fixture(scope="module")
def entries():
    first = next_entry(CHAIN, empty_head(CHAIN), FIRST)
    return [first, next_entry(CHAIN, head_after(first), SECOND)]


def test_the_bytes_of_the_example_give_its_hashes(told):
    data = bytes.fromhex(block("hex"))
    prefix = data[: 18 + 16 + 2 + 4]
    genesis = hashlib.sha256(b"pointsman/genesis/1\0" + prefix).hexdigest()
    assert genesis == told["genesis"]
    assert data[48:80].hex() == genesis
    first = hashlib.sha256(b"\0" + data).digest()
    assert first.hex() == told["hash of entry 0"]
    attached = hashlib.sha256(b'{"facts":1}').digest()
    fixed = struct.pack(">Q32sqHHHHI", 1, first, START + 1, 13, 3, 3, 32, 7)
    second = prefix + fixed + b"decision.turn" + b"d-1" + b"t-1" + attached + b'{"n":1}'
    leaf = hashlib.sha256(b"\0" + second).digest()
    assert leaf.hex() == told["hash of entry 1"]
    assert hashlib.sha256(b"\1" + first + leaf).hexdigest() == told["root of size 2"]


def test_the_product_writes_the_example(told, entries):
    assert KEY.public.hex() == told["public key"]
    assert CHAIN.genesis.hex() == told["genesis"]
    assert entry_bytes(CHAIN.prefix, entries[0]) == bytes.fromhex(block("hex"))
    frontier = append_leaves(Frontier(), [entry.hash for entry in entries])
    assert root(frontier).hex() == told["root of size 2"]
    at = entries[-1].at
    assert signed_checkpoint(CHAIN, frontier, entries[-1].hash, at, KEY) == block("text")


def test_the_example_s_checkpoint_is_signed(told):
    checkpoint = read_checkpoint(CHAIN, block("text"), [KEY])
    assert (checkpoint.size, checkpoint.root.hex()) == (2, told["root of size 2"])


def test_the_example_s_bundle_is_intact():
    report = audit(io.BytesIO(block("json").encode()), KEY.id)
    assert report["is_intact"]
    assert (report["entries"], report["chains"], report["checkpoints"]) == (2, 1, 1)
