"""Power is cut at every point of a workload: nothing acknowledged or signed may be gone."""

import random

import pytest
from tests.durability.power_loss import (
    Cut,
    cuts,
    disks_after,
    drafts,
    goes_on,
    opened_writer,
    put_notes,
    recorded,
    sampled,
    tallied,
)
from tests.durability.simulated_disk import SECTOR, Disk, SimulatedVFS

STATES = 10_000


@pytest.fixture(scope="module")
def vfs():
    return SimulatedVFS()


@pytest.fixture(scope="module")
def recording(vfs, tmp_path_factory):
    return recorded(vfs, tmp_path_factory.mktemp("full"))


def test_workload_reaches_everything_that_can_be_cut(recording):
    history = recording.history
    resets = [each for each in history if each.kind == "write" and each.at == 0]
    assert {each.kind for each in history} == {"create", "write", "truncate", "sync", "delete"}
    assert len([each for each in resets if each.name.endswith("-wal")]) > 5
    assert len(recording.checkpoints_at(len(history))) >= 4
    assert len(recording.acknowledged) > 480


@pytest.mark.slow
def test_power_cut_loses_nothing_acknowledged_or_signed(vfs, recording):
    tally = tallied(vfs, recording, sampled(recording, STATES, seeds=3))
    assert tally.states == STATES
    assert tally.distinct > STATES // 2
    assert tally.with_acknowledged > STATES // 2
    assert tally.is_clean, tally


@pytest.mark.slow
def test_same_cuts_lose_acknowledged_entries_without_full_sync(vfs, tmp_path):
    """Shows that the simulated disk would notice: every commit synced is what the ledger needs."""
    recording = recorded(vfs, tmp_path, sync="NORMAL")
    tally = tallied(vfs, recording, sampled(recording, 1_000, seeds=1))
    assert tally.lost > 200, tally


@pytest.mark.slow
def test_writer_starts_and_goes_on_after_a_power_cut(vfs, recording, tmp_path):
    plan = sampled(recording, 150, seeds=2)
    for cut, contents in disks_after(recording, plan):
        assert goes_on(vfs, contents, recording.notes_at(cut.index), tmp_path) == "", cut


@pytest.mark.slow
def test_power_cut_after_a_killed_writer_was_restarted_leaves_no_note_ahead(
    vfs, recording, tmp_path
):
    """A killed writer leaves unsynced commits in the log; its successor signs over them."""
    for index in _just_before_syncs(recording)[::2]:
        disk = Disk()
        for operation in recording.history[:index]:
            disk.redo(operation)
        vfs.disk = disk
        put_notes(tmp_path, recording.notes_at(index))
        writer = opened_writer(vfs, tmp_path)
        after_start = disk.after_cut("lost", 0), _notes(tmp_path)
        receipt = writer.append(drafts(1, 1)[0]).result()
        after_append = disk.after_cut("lost", 0), _notes(tmp_path)
        writer.close()
        assert receipt.entry.seq > 0
        for contents, notes in (after_start, after_append):
            assert goes_on(vfs, contents, notes, tmp_path) == "", index


@pytest.mark.slow
def test_torn_note_is_written_anew(vfs, recording, tmp_path):
    for index in _after_notes(recording):
        whole, before = recording.notes_at(index), recording.notes_at(index - 1)
        for mode in ("lost", "kept"):
            _, contents = next(disks_after(recording, [Cut(index, mode, 0)]))
            for notes in _torn_notes(before, whole):
                assert goes_on(vfs, contents, notes, tmp_path) == "", (index, notes[-600:])


def test_every_cut_is_in_the_plan_once():
    plan = list(cuts(3, 2))
    assert len(plan) == len(set(plan)) == 4 * (2 + 2 * 2)


def _just_before_syncs(recording):
    found = [
        index
        for index, each in enumerate(recording.history)
        if each.kind == "sync" and each.name.endswith("-wal") and index > 20
    ]
    assert len(found) > 40
    return found


def _after_notes(recording):
    sizes = recording.notes_seen
    found = [index for index in range(1, len(sizes)) if sizes[index] > sizes[index - 1]]
    assert len(found) >= 3
    return found


def _torn_notes(before, whole):
    """Give what a power cut can leave of the last note: a part, or NUL where a part is missing."""
    chance = random.Random(7)
    yield before
    for _ in range(6):
        cut = chance.randint(len(before), len(whole) - 1)
        yield whole[:cut]
        yield whole[:cut] + bytes(len(whole) - cut)
    for start in range(len(before) - len(before) % SECTOR, len(whole), SECTOR):
        first, stop = max(start, len(before)), min(start + SECTOR, len(whole))
        yield whole[:first] + bytes(stop - first) + whole[stop:]


def _notes(folder):
    path = folder / "cli" / "notes"
    return path.read_bytes() if path.exists() else b""
