import os
import stat
import sys

import pytest

from pointsman.errors import ChainHeld
from pointsman.storage.writer.lease import MOST_WRITERS, Lease, first_free_lease


def test_held_chain_is_refused_until_it_is_released(tmp_path):
    lease = Lease(tmp_path, "cli")
    with pytest.raises(ChainHeld, match="another process writes the chain `cli`"):
        Lease(tmp_path, "cli")
    lease.release()
    Lease(tmp_path, "cli").release()


def test_chains_are_held_apart(tmp_path):
    leases = [Lease(tmp_path, name) for name in ("cli", "serve-1")]
    assert [lease.chain for lease in leases] == ["cli", "serve-1"]
    for lease in leases:
        lease.release()


def test_first_free_lease_counts_up_and_takes_what_became_free(tmp_path):
    first, second, third = (first_free_lease(tmp_path, "cli") for _ in range(3))
    assert [first.chain, second.chain, third.chain] == ["cli", "cli-2", "cli-3"]
    second.release()
    again = first_free_lease(tmp_path, "cli")
    assert again.chain == "cli-2"
    for lease in (first, third, again):
        lease.release()


def test_there_is_an_end_to_the_writers(tmp_path):
    leases = [first_free_lease(tmp_path, "cli") for _ in range(MOST_WRITERS)]
    with pytest.raises(ChainHeld, match="64 processes write as `cli` already"):
        first_free_lease(tmp_path, "cli")
    for lease in leases:
        lease.release()


def test_lease_files_are_private(tmp_path):
    lease = Lease(tmp_path / "leases", "cli")
    assert stat.S_IMODE((tmp_path / "leases").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "leases" / "cli.lock").stat().st_mode) == 0o600
    lease.release()


def test_lease_is_not_passed_on_to_other_programs(tmp_path):
    lease = Lease(tmp_path, "cli")
    reading, writing = os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        {},
        file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0)],
    )
    lease.release()
    Lease(tmp_path, "cli").release()
    os.close(reading)
    os.close(writing)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_released_lease_is_free_although_a_copy_of_its_file_is_open(tmp_path):
    """A forked child has such a copy."""
    lease = Lease(tmp_path, "cli")
    copy = os.dup(lease._descriptor)
    lease.release()
    Lease(tmp_path, "cli").release()
    os.close(copy)
