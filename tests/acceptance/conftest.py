"""Conversations run in asyncio's event loop."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
