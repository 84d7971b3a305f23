"""A chamber for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.governance.chamber import Chamber, in_memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    yield from in_memory()


@pytest.fixture
def chamber(tmp_path: Path) -> Iterator[Chamber]:
    with closing(Chamber(tmp_path / "home")) as made:
        yield made
