"""A bundle of about 60 kB, damaged: every sampled change is found, and named where it is."""

import io
import json
import random

import pytest

from pointsman.audit.export import _Bundle, _entry_line
from pointsman.kernel.checkpoint import signed_checkpoint
from pointsman.kernel.entry import Chain, Draft, Head, empty_head, head_after, next_entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import Frontier, append_leaves
from pointsman.kernel.signing import SigningKey
from pointsman.offline_verifier import Unusable, audit

FLIPS = 3_000
OTHER = SigningKey(bytes([7] * 32))


def fault_of(data, expected=""):
    """Give the fault that is found; what is no bundle any more counts as found."""
    try:
        return audit(io.BytesIO(data), expected)["fault"]
    except Unusable:
        return {"chain": "", "seq": None, "line": 1}


@pytest.fixture(scope="session")
def lines(bundle):
    return bundle.splitlines(keepends=True)


@pytest.fixture(scope="session")
def entry_at(lines):
    """Give, for every byte, the entry whose line it is in."""
    places, chain = [], ""
    for line in lines:
        value = json.loads(line)
        chain = value.get("chain", chain)
        places += [(chain, value["seq"]) if "seq" in value else None] * len(line)
    return places


def test_the_bundle_is_intact_and_has_the_size_meant(bundle, bundle_home):
    report = audit(io.BytesIO(bundle), bundle_home.keys[-1].id)
    assert report["is_intact"]
    assert report["checkpoints"] == 8
    assert 50_000 < len(bundle) < 70_000


@pytest.mark.slow
def test_every_sampled_flipped_bit_is_found_and_named_by_its_entry(bundle, entry_at):
    for bit in random.Random(1).sample(range(len(bundle) * 8), FLIPS):
        data = bytearray(bundle)
        data[bit // 8] ^= 1 << bit % 8
        fault = fault_of(data)
        assert fault, bit
        if entry_at[bit // 8]:
            assert (fault["chain"], fault["seq"]) == entry_at[bit // 8], bit


def test_every_sampled_truncation_and_every_line_end_is_found(bundle, lines):
    ends, position = [], 0
    for line in lines[:-1]:
        position += len(line)
        ends += [position - 1, position]
    for end in (*ends, *random.Random(2).sample(range(len(bundle)), 200), 0, len(bundle) - 1):
        assert fault_of(bundle[:end]), end


def test_every_sampled_byte_inserted_deleted_or_overwritten_is_found(bundle, entry_at):
    random_ = random.Random(3)
    for at in random_.sample(range(len(bundle)), 80):
        for new in (b"\0", b"\xff", b"\n", b" "):
            if bundle[at : at + 1] != new:
                assert fault_of(bundle[:at] + new + bundle[at + 1 :]), at
            assert fault_of(bundle[:at] + new + bundle[at:]), at
        assert fault_of(bundle[:at] + bundle[at + 1 :]), at


def test_every_line_removed_or_doubled_and_sampled_swaps_are_found(lines):
    for index in range(len(lines)):
        assert fault_of(b"".join(lines[:index] + lines[index + 1 :])), index
        assert fault_of(b"".join(lines[: index + 1] + lines[index:])), index
    random_ = random.Random(4)
    for _ in range(200):
        first, second = sorted(random_.sample(range(len(lines)), 2))
        changed = list(lines)
        changed[first], changed[second] = changed[second], changed[first]
        assert changed == lines or fault_of(b"".join(changed)), (first, second)


def resigned(lines, key):
    """Give a bundle of these lines with a footer by this key."""
    file = io.BytesIO()
    bundle = _Bundle(file)
    for line in lines:
        bundle.write_line(json.loads(line))
    bundle.sign(key)
    return file.getvalue()


def forged_lines(ledger, key):
    """Give what somebody without the key writes: a chain of their own, signed by their own key."""
    chain = Chain(ledger, "cli")
    entry = next_entry(chain, empty_head(chain), Draft("k", "forged", "", Instant(0), b"{}"))
    head = head_after(entry)
    note = signed_checkpoint(
        chain, append_leaves(Frontier(), [entry.hash]), entry.hash, head.at, key
    )
    header = {"format": "pointsman/bundle/1", "keys": [key.public.hex()], "ledger": ledger}
    end = {"end": "cli", "entries": 1, "head": entry.hash.hex()}
    values = [header, {"chain": "cli"}, _entry_line(entry), {"checkpoint": note}, end]
    return [json.dumps(value) for value in values]


def test_a_bundle_forged_with_another_key_is_found_by_the_key(bundle_home):
    data = resigned(forged_lines(bundle_home.identity.ledger, OTHER), OTHER)
    own = bundle_home.keys[-1].id
    assert "not by" in fault_of(data, own)["message"]
    without = audit(io.BytesIO(data))
    assert without["is_intact"]
    assert without["key"] == OTHER.id != own


def test_a_footer_by_a_key_that_the_header_does_not_name_is_found(lines):
    assert "not signed" in fault_of(resigned(lines[:-1], OTHER))["message"]


def test_a_key_slipped_into_the_header_does_not_make_the_forger_the_owner(bundle_home, lines):
    header = {**json.loads(lines[0])}
    header["keys"] = [*header["keys"], OTHER.public.hex()]
    data = resigned([json.dumps(header), *lines[1:-1]], OTHER)
    assert fault_of(data, bundle_home.keys[-1].id)


def test_a_chain_recomputed_before_the_export_is_named_by_its_signed_range(bundle_home, lines):
    key = bundle_home.signing_key()
    start = next(i for i, line in enumerate(lines) if line == b'{"chain":"cli"}\n')
    chain = Chain(bundle_home.identity.ledger, "cli")
    changed, head = list(lines[:-1]), None
    for index in range(start + 1, len(changed)):
        value = json.loads(changed[index])
        if "end" in value:
            changed[index] = json.dumps({**value, "head": head.hash.hex()}).encode()
            break
        if value.get("seq", -1) < 30:
            continue
        head = head or Head(30, bytes.fromhex(value["prev"]), Instant(0))
        draft = Draft(value["kind"], "x", value["ref"], Instant(value["at"]), b"{}")
        entry = next_entry(chain, head, draft)
        head = head_after(entry)
        changed[index] = json.dumps(_entry_line(entry)).encode()
    fault = fault_of(resigned(changed, key), key.id)
    assert (fault["chain"], fault["seq"]) == ("cli", 20)
