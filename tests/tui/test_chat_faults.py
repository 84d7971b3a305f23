"""A disk that is full under the terminal app: one line, and nothing that was said is lost."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.tui.booth import a_booth

from pointsman.app import Pointsman
from pointsman.testing import says

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def a_full_disk() -> Iterator[None]:
    """Let no file grow any more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_is_one_line_and_what_was_said_is_kept(tmp_path: Path) -> None:
    async with a_booth(tmp_path, says("one"), says("two")) as booth:
        await booth.says("the first")
        name = booth.conversation.id
        with a_full_disk():
            view = await booth.says("the second thing to say")
            assert view.route_line.state in {"", "failed"}
            assert "Traceback" not in booth.screen
            lines = [str(each.render()) for each in view.query(".line.-problem")]
            assert len(lines) == 1
            assert "\n" not in lines[0]
            assert "two" not in booth.screen
    with Pointsman(tmp_path) as pointsman:
        texts = [each.text for each in pointsman.conversations.messages(name)]
        assert texts[:2] == ["the first", "one"]
        assert pointsman.verify().faults == ()
