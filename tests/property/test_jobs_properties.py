"""Five hundred random jobs run for real: each replays byte for byte, here and elsewhere."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.models import fleet_jobs

from pointsman.audit.verify import verify_ledger
from pointsman.storage.home import open_home

JOBS = 500
SOMETIMES = {
    "done", "rejected", "no_match", "privacy_blocked", "requested", "needs_request", "timeout",
    "exception", "action_request", "asked_for", "warned", "voted",
}  # fmt: skip


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """The home of all jobs: in memory where there is one, because every entry is synced."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        home = Path(folder) / "home"
        seen = fleet_jobs.run_jobs(home, range(JOBS))
        assert {name for name in SOMETIMES if not seen[name]} == set()
        yield home


@pytest.mark.req(1, 44, 350, 390, 398)
@pytest.mark.parametrize("hash_seed", ["0", "4294967295"])
def test_jobs_replay_byte_for_byte_in_other_processes(home: Path, hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, fleet_jobs.__file__, str(home), "0", str(JOBS)],
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": str(fleet_jobs.ROOT),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""


def test_the_ledger_behind_them_is_whole(home: Path) -> None:
    assert verify_ledger(open_home(home, create=False)).fault is None
