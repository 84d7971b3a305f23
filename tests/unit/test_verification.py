"""One chain in memory, damaged in every way, against its checkpoints and leaves."""

import pytest
from msgspec.structs import replace

from pointsman.kernel.checkpoint import read_checkpoint, signed_checkpoint
from pointsman.kernel.entry import Chain, Draft, Head, empty_head, head_after, next_entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import Frontier, append_leaves
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.verification import Fault, FaultCode, Pass

CHAIN = Chain("0" * 32, "cli")
KEY = SigningKey(bytes(32))


def chained(count, start=None, mark=b""):
    head, entries = start or empty_head(CHAIN), []
    for number in range(count):
        draft = Draft("k", f"e-{number}", "", Instant(number), b"%d" % number + mark)
        entries.append(next_entry(CHAIN, head, draft))
        head = head_after(entries[-1])
    return entries


ENTRIES = chained(40)
LEAVES = b"".join(entry.hash for entry in ENTRIES)


def checkpoint(entries, size):
    frontier = append_leaves(Frontier(), [entry.hash for entry in entries[:size]])
    last = entries[size - 1]
    text = signed_checkpoint(CHAIN, frontier, last.hash, last.at, KEY)
    return read_checkpoint(CHAIN, text, [KEY])


CHECKPOINTS = [checkpoint(ENTRIES, size) for size in (10, 20, 35)]


def rewritten(seq):
    """Give the chain that somebody computes who changes one entry and knows the algorithm."""
    return ENTRIES[:seq] + chained(40 - seq, Head(seq, ENTRIES[seq].prev, Instant(0)), b"x")


def found(entries, leaves=LEAVES, checkpoints=CHECKPOINTS):
    return Pass(CHAIN, checkpoints, leaves).run(entries).fault


def place(fault):
    return (fault.seq, fault.code) if fault else None


def test_an_untouched_chain_has_no_fault():
    report = Pass(CHAIN, CHECKPOINTS, LEAVES).run(ENTRIES)
    assert (report.entries, report.signed, report.entries - report.signed) == (40, 35, 5)
    assert (report.chain, report.head, report.fault) == ("cli", ENTRIES[-1].hash, None)


def test_an_empty_chain_has_no_fault():
    report = Pass(CHAIN, []).run([])
    assert (report.entries, report.signed, report.head) == (0, 0, CHAIN.genesis)


def test_a_pass_goes_on_from_a_checkpoint_where_a_writer_does():
    first = CHECKPOINTS[1]
    start = (Head(first.size, first.head, first.at), first.frontier)
    check = Pass(CHAIN, CHECKPOINTS, start=start)
    assert check.run(ENTRIES[20:]).fault is None
    assert check.head == head_after(ENTRIES[-1])
    assert check.frontier == CHECKPOINTS[2].frontier
    assert check.pending == [entry.hash for entry in ENTRIES[35:]]


CHANGES = {
    "at": 999, "kind": "x", "id": "x", "ref": "x", "payload": b"x", "attached": bytes(32),
    "prev": bytes(32), "hash": bytes(32),
}  # fmt: skip


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_field_is_named_by_its_entry(field):
    for seq in range(40):
        changed = replace(ENTRIES[seq], **{field: CHANGES[field]})
        fault = found([*ENTRIES[:seq], changed, *ENTRIES[seq + 1 :]])
        expected = FaultCode.ENTRY_UNLINKED if field == "prev" else FaultCode.ENTRY_CHANGED
        assert place(fault) == (seq, expected)


@pytest.mark.parametrize(
    "change",
    [{"kind": "k" * 70_000}, {"kind": "\ud800"}, {"at": "soon"}, {"payload": None}, {"id": 5}],
)
def test_what_no_entry_can_hold_is_a_fault_and_not_a_crash(change):
    changed = replace(ENTRIES[3], **change)
    assert place(found([*ENTRIES[:3], changed])) == (3, FaultCode.ENTRY_CHANGED)


def test_a_removed_entry_is_named():
    for seq in range(39):
        assert place(found(ENTRIES[:seq] + ENTRIES[seq + 1 :])) == (seq, FaultCode.ENTRY_MISSING)


def test_a_doubled_entry_is_named():
    for seq in range(40):
        fault = found([*ENTRIES[: seq + 1], ENTRIES[seq], *ENTRIES[seq + 1 :]])
        assert place(fault) == (seq, FaultCode.ENTRY_UNLINKED)


def test_swapped_entries_are_named_by_the_first():
    for seq in range(39):
        swapped = [*ENTRIES[:seq], ENTRIES[seq + 1], ENTRIES[seq], *ENTRIES[seq + 2 :]]
        assert place(found(swapped)) == (seq, FaultCode.ENTRY_MISSING)


def test_a_cut_before_the_last_checkpoint_is_named():
    for size in range(35):
        assert place(found(ENTRIES[:size])) == (size, FaultCode.TRUNCATED)
    for size in range(35, 41):
        assert found(ENTRIES[:size]) is None


def test_a_recomputed_chain_is_named_by_the_very_entry_thanks_to_the_leaves():
    for seq in range(35):
        assert place(found(rewritten(seq))) == (seq, FaultCode.REWRITTEN)


def test_a_recomputed_chain_with_its_leaves_is_named_by_the_signed_range():
    for seq in range(35):
        forged = rewritten(seq)
        leaves = b"".join(entry.hash for entry in forged)
        first = max(size for size in (0, 10, 20) if size <= seq)
        assert place(found(forged, leaves)) == (first, FaultCode.REWRITTEN)


def test_a_recomputed_chain_cut_before_its_checkpoint_is_named_by_the_rewritten_entry():
    assert place(found(rewritten(22)[:30])) == (22, FaultCode.REWRITTEN)
    assert place(found(rewritten(22)[:22])) == (22, FaultCode.TRUNCATED)


def test_an_entry_rewritten_with_its_own_hash_is_named_and_not_its_successor():
    for seq in range(34):
        changed = next_entry(
            CHAIN, Head(seq, ENTRIES[seq].prev, Instant(0)), Draft("k", "x", "", Instant(0), b"x")
        )
        fault = found([*ENTRIES[:seq], changed, *ENTRIES[seq + 1 :]])
        assert place(fault) == (seq, FaultCode.REWRITTEN)


def test_changed_leaves_are_told_from_changed_entries():
    for seq in range(35):
        leaves = LEAVES[: seq * 32] + bytes(32) + LEAVES[seq * 32 + 32 :]
        assert place(found(ENTRIES, leaves)) == (seq, FaultCode.LEAVES_CHANGED)


def test_of_several_changed_leaves_the_first_is_named():
    leaves = bytearray(LEAVES)
    leaves[3 * 32] ^= 1
    leaves[15 * 32] ^= 1
    assert place(found(ENTRIES, bytes(leaves))) == (3, FaultCode.LEAVES_CHANGED)


def test_missing_leaves_are_named_by_the_first_that_is_missing():
    for length in (0, 5, 32, 34 * 32 + 31):
        assert place(found(ENTRIES, LEAVES[:length])) == (length // 32, FaultCode.LEAVES_CHANGED)
    assert found(ENTRIES, LEAVES[: 35 * 32]) is None


def test_a_changed_leaf_that_a_checkpoint_disproves_does_not_shift_the_blame():
    leaves = bytes(32) + LEAVES[32:]
    changed = replace(ENTRIES[25], payload=b"x")
    fault = found([*ENTRIES[:25], changed, *ENTRIES[26:]], leaves)
    assert place(fault) == (25, FaultCode.ENTRY_CHANGED)


def test_more_entries_past_the_last_checkpoint_than_a_writer_leaves_are_a_fault():
    entries = chained(40 + 252)
    assert found(entries[:291], checkpoints=CHECKPOINTS) is None
    fault = found(entries, checkpoints=CHECKPOINTS)
    assert fault == Fault(
        "cli", 35, FaultCode.UNSIGNED, "only 35 of 292 entries are covered by a checkpoint"
    )
