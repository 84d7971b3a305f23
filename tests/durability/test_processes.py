"""Several processes write to one home at once: no entry is lost and no chain forks."""

import multiprocessing
import os

import apsw
import pytest
from tests.durability.crash_worker import ledger_of

from pointsman.errors import ChainHeld
from pointsman.kernel.entry import Chain, Draft, empty_head, head_after, next_entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.verification import Pass
from pointsman.storage.home import open_home
from pointsman.storage.sqlite.database import SQL, open_database
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.checkpoints import CheckpointFolder
from pointsman.storage.writer.lease import Lease, first_free_lease

PROCESSES = 4
SPAWN = multiprocessing.get_context("spawn")


@pytest.mark.slow
def test_four_processes_get_four_chains_and_lose_nothing(tmp_path):
    said = _in_processes(append_to_own_chain, tmp_path)
    chains = _verified_chains(tmp_path)
    assert sorted(chains) == ["cli", "cli-2", "cli-3", "cli-4"]
    assert len(said) == PROCESSES * 200
    assert all(chains[name][seq] == digest for name, seq, digest in said)
    assert sum(map(len, chains.values())) == len(said) + PROCESSES


@pytest.mark.slow
def test_four_processes_fighting_for_one_chain_leave_one_head(tmp_path):
    said = _in_processes(append_to_shared_chain, tmp_path)
    chains = _verified_chains(tmp_path)
    assert list(chains) == ["cli"]
    assert len(said) == PROCESSES * 8 * 5
    assert all(chains[name][seq] == digest for name, seq, digest in said)
    assert len(chains["cli"]) == len({seq for _, seq, _ in said}) + 1


def test_second_writer_of_a_held_chain_is_refused(tmp_path):
    home = open_home(tmp_path)
    lease = Lease(home.leases, "cli")
    with pytest.raises(ChainHeld, match="another process writes the chain `cli`"):
        Lease(home.leases, "cli")
    lease.release()
    Lease(home.leases, "cli").release()


@pytest.mark.parametrize("forked", ["same place", "same entry before", "gap", "other chain's"])
def test_schema_refuses_a_fork(tmp_path, forked):
    """Whatever holds the lease, the database takes one successor for every entry."""
    chain = Chain("0" * 32, "cli")
    first = next_entry(chain, empty_head(chain), _draft("one"))
    second = next_entry(chain, head_after(first), _draft("two"))
    seq, prev = {
        "same place": (first.seq, second.prev),
        "same entry before": (second.seq, first.prev),
        "gap": (second.seq + 1, second.prev),
        "other chain's": (second.seq, bytes(32)),
    }[forked]
    connection = open_database(str(tmp_path / "ledger.db"), "schema.sql")
    connection.execute(SQL["add_chain"], ("cli",))
    connection.execute(SQL["append_entry"], _row(first, first.seq, first.prev))
    with pytest.raises(apsw.ConstraintError, match=r"entries\.prev"):
        connection.execute(SQL["append_entry"], _row(second, seq, prev))
    connection.execute(SQL["append_entry"], _row(second, second.seq, second.prev))
    with pytest.raises(apsw.ConstraintError):
        connection.execute(SQL["append_entry"], _row(second, second.seq, second.prev))
    connection.close()


def append_to_own_chain(path, barrier, answers):
    home = open_home(path)
    lease = first_free_lease(home.leases, "cli")
    barrier.wait()
    writer = ledger_of(home, lease.chain)
    answers.put([each for number in range(40) for each in _appended(writer, number)])
    writer.close()
    lease.release()


def append_to_shared_chain(path, barrier, answers):
    home = open_home(path)
    barrier.wait()
    said = []
    for number in range(8):
        lease = _lease_in_the_end(home)
        writer = ledger_of(home, lease.chain)
        said += _appended(writer, number)
        writer.close()
        lease.release()
    answers.put(said)


def _lease_in_the_end(home):
    while True:
        try:
            return Lease(home.leases, "cli")
        except ChainHeld:
            os.sched_yield()


def _appended(writer, number):
    names = [f"{os.getpid()}-{number}-{place}" for place in range(5)]
    receipts = [future.result() for future in [writer.append(_draft(name)) for name in names]]
    return [(receipt.chain, receipt.entry.seq, receipt.entry.hash) for receipt in receipts]


def _in_processes(work, path):
    barrier, answers = SPAWN.Barrier(PROCESSES), SPAWN.Queue()
    processes = [
        SPAWN.Process(target=work, args=(path, barrier, answers)) for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    said = [each for _ in processes for each in answers.get(timeout=60)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return said


def _verified_chains(path):
    """Give the hashes of every chain, after a whole pass over each."""
    home = open_home(path)
    reader = LedgerReader(home.database)
    chains = {}
    for name, number in reader.chains().items():
        entries = list(reader.chain_entries(number))
        folder = CheckpointFolder(home.checkpoints, Chain(home.identity.ledger, name))
        report = Pass(folder.chain, folder.all(home.keys), folder.leaves()).run(entries)
        assert report.fault is None
        assert report.signed == len(entries), "every clean close signs"
        chains[name] = [entry.hash for entry in entries]
    assert reader.damage() == ""
    reader.close()
    return chains


def _draft(name):
    return Draft("decision", name, "", Instant(5), b"{}", (name.encode() * 50,))


def _row(entry, seq, prev):
    return (
        1, seq, entry.at, entry.kind, entry.id, entry.ref,
        entry.payload, entry.attached, prev, entry.hash,
    )  # fmt: skip
