"""Homes with a provider that answers from a script; clients run in asyncio's event loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.gateway.house import upstream
from tests.mcp_surface.depot import Depot, written


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: every home syncs several databases."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def depot(tmp_path: Path) -> Iterator[Depot]:
    with upstream() as provider:
        yield Depot(written(tmp_path / "home", provider.url), provider)
