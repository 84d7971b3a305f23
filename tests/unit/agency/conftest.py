from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.unit.agency.fleet import Fleet, opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: every entry is synced."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder) / "home"


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    with opened(folder) as found:
        yield found
