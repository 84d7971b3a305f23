"""An app whose terminal is gone ends, whatever becomes of its session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pointsman.app import Pointsman
from pointsman.tui import shutdown
from pointsman.tui.shutdown import HUNG_UP, Shutdown


class Gone(BaseException):
    """The process is at its end."""


class Broken:
    """A session that cannot be closed."""

    def __init__(self, how: str) -> None:
        self._how = how

    def cancel(self, reason: str) -> None:
        del reason

    async def end(self, disposition: str) -> None:
        del disposition
        if self._how == "fails":
            raise RuntimeError("the disk is gone")
        await asyncio.Event().wait()


@pytest.mark.parametrize("how", ["fails", "never ends"])
def test_a_session_that_cannot_be_closed_does_not_keep_the_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ended: list[int] = []

    def exits(code: int) -> NoReturn:
        ended.append(code)
        raise Gone

    monkeypatch.setattr(shutdown.os, "_exit", exits)
    monkeypatch.setattr(shutdown, "MOST_S", 0.01)

    async def hung_up(leaving: Shutdown) -> None:
        leaving.hang_up(None)
        task: Any = leaving._task
        with pytest.raises(Gone):
            await task

    with Pointsman(tmp_path) as pointsman:
        leaving = Shutdown(pointsman)
        leaving.conversation = Broken(how)  # type: ignore[assignment]
        try:
            asyncio.run(hung_up(leaving))
        except Gone:
            """A task that ends so ends its loop, too."""
    assert ended == [HUNG_UP]
