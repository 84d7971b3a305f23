"""The command in a real terminal: tmux draws it, closes it, kills it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.acceptance.parlour import OPUS, ROUTING, models
from tests.gateway.house import stalls, upstream, write_home
from tests.processes import is_running

from pointsman.app import Pointsman
from pointsman.sessions.envelope import Envelope
from pointsman.testing import says

TMUX = shutil.which("tmux")
SOON_S = 60.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None, reason="tmux is not installed: no terminal to draw on"),
]


class Terminal:
    """A terminal of 80 by 24 in which the app runs."""

    def __init__(self, folder: Path, home: Path, *more: str) -> None:
        self._server = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        code = "from pointsman.cli.main import main; main()"
        # Some shells export a size that is not the terminal's.
        exported = ["env", "COLUMNS=200", "LINES=9"]
        command = [*exported, sys.executable, "-c", code, "chat", "--home", str(home), *more]
        self._tmux("new-session", "-d", "-x", "80", "-y", "24", "-c", str(folder), *command)
        self.pid = int(self._tmux("list-panes", "-F", "#{pane_pid}").split()[0])

    def _tmux(self, *line: str) -> str:
        done = subprocess.run([*self._server, *line], capture_output=True, text=True, check=False)
        return done.stdout

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def until(self, look: Callable[[], object]) -> None:
        deadline = time.monotonic() + SOON_S
        while not look():
            assert time.monotonic() < deadline, f"never came true:\n{self.screen}"
            time.sleep(0.05)  # another process draws: nothing here can wait for it

    def opened(self) -> None:
        """Wait until the session is there; one look at the screen for both signs of it."""
        self.until(lambda: "auto" in (screen := self.screen) and "opening" not in screen)

    @property
    def is_gone(self) -> bool:
        return not is_running(self.pid)

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    subprocess.run(
        ["tmux", "-S", str(tmp_path / "tmux"), "kill-server"], capture_output=True, check=False
    )


def told(home: Path) -> dict[str, object]:
    with Pointsman(home) as pointsman:
        (session,) = pointsman.conversations.list_sessions()
        events = pointsman.conversations.events(session.id)
        return {each.type: each.payload for each in events if isinstance(each, Envelope)}


def test_it_talks_resizes_and_quits_in_a_terminal(folder: Path) -> None:
    home = folder / "h"
    with upstream(says("It moves **trains**.")) as server:
        write_home(home, models=models(server.url, server.url), routing=ROUTING)
        terminal = Terminal(folder, home)
        terminal.opened()
        terminal.keys("what does a point do?", "Enter")
        terminal.until(lambda: "It moves trains." in terminal.screen)
        assert f"{OPUS} · global default" in terminal.screen
        terminal._tmux("resize-window", "-x", "60", "-y", "12")
        terminal.until(lambda: max(map(len, terminal.screen.splitlines())) <= 60)
        terminal.keys("C-q")
        terminal.until(lambda: terminal.is_gone)
    assert "session.ended" in told(home)


@pytest.mark.parametrize("how", ["terminal closed", "killed"])
def test_whatever_happens_to_the_terminal_the_state_says_it(folder: Path, how: str) -> None:
    home = folder / "h"
    with upstream(stalls("a long story of rails"), says("and on")) as server:
        write_home(home, models=models(server.url, server.url), routing=ROUTING)
        terminal = Terminal(folder, home)
        terminal.opened()
        terminal.keys("tell me", "Enter")
        terminal.until(lambda: "a long" in terminal.screen)
        if how == "killed":
            os.kill(terminal.pid, signal.SIGKILL)
        else:
            terminal.close()
        terminal.until(lambda: terminal.is_gone)
        events = told(home)
        if how == "terminal closed":
            assert getattr(events["turn.cancelled"], "reason", "") == "client_disconnect"
            assert getattr(events["session.ended"], "disposition", "") == "abandoned"
        again = Terminal(folder, home, "--resume")
        again.until(lambda: "tell me" in again.screen)
        again.keys("go on then, please", "Enter")
        again.until(lambda: "and on" in again.screen)
        again.keys("C-q")
        again.until(lambda: again.is_gone)
    assert "turn.cancelled" in told(home)


def test_a_closed_terminal_ends_the_app_though_the_session_cannot_be_closed(folder: Path) -> None:
    home = folder / "h"
    with upstream(stalls("a long story of rails")) as server:
        write_home(home, models=models(server.url, server.url), routing=ROUTING)
        terminal = Terminal(folder, home)
        terminal.opened()
        terminal.keys("tell me", "Enter")
        terminal.until(lambda: "a long" in terminal.screen)
        shutil.rmtree(home)
        terminal.close()
        terminal.until(lambda: terminal.is_gone)
