"""`pointsman mcp` as a client starts it: a process, two pipes, and an end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.house import entries, eventually, stalls
from tests.mcp_surface.depot import COMMAND, Depot, beside, whole_conversation

from pointsman.app import Pointsman
from pointsman.cli.main import main

pytestmark = pytest.mark.slow

LONG_S = 60.0
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Process:
    """The command, spoken to in bytes."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        self.running = running

    def say(self, *messages: dict[str, Any] | bytes) -> None:
        assert self.running.stdin is not None
        for each in messages:
            line = each if isinstance(each, bytes) else json.dumps(each).encode()
            self.running.stdin.write(line + b"\n")
        self.running.stdin.flush()

    def heard(self, wanted: int) -> dict[str, Any]:
        """Give the answer to a request; every line on the way must be of the protocol."""
        assert self.running.stdout is not None
        for line in self.running.stdout:
            message: dict[str, Any] = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == wanted:
                return message
        raise AssertionError("it ended without an answer")


@contextmanager
def process(home: Path) -> Iterator[Process]:
    command = [*COMMAND, "mcp", "--home", str(home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        try:
            yield Process(running)
        finally:
            running.kill()


def tool(number: int, name: str, **arguments: object) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def assert_intact(home: Path) -> None:
    with Pointsman(home) as pointsman:
        report = pointsman.verify()
    assert report.is_intact, report.faults


def test_a_client_that_starts_it_without_an_environment_is_told_which_keys_are_missing(
    depot: Depot,
) -> None:
    models = depot.home / "models.yaml"
    value = json.loads(models.read_text())
    value["providers"]["open"]["api_key"] = {"env": "A_KEY_THAT_IS_SET_NOWHERE"}
    value["providers"]["house"]["api_key"] = {"file": "key.txt"}
    models.write_text(json.dumps(value))
    (depot.home / "key.txt").write_text("sk-house")
    with process(depot.home) as own:
        own.say(HELLO, READY)
        told = own.heard(1)["result"]["instructions"]
        own.running.terminate()
        warned = own.running.communicate(timeout=LONG_S)[1].decode()
    for each in (told, warned):
        assert "`open` cannot be called without env A_KEY_THAT_IS_SET_NOWHERE" in each
        assert "house" not in each


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_whole_conversation_by_the_official_client(depot: Depot, mode: str) -> None:
    async with beside(depot.home, mode) as client:
        await whole_conversation(client, depot)
    with Pointsman(depot.home) as pointsman:
        report = pointsman.verify()
        assert report.is_intact
        assert [each.chain for each in report.chains] == ["mcp"]
        (chain,) = report.chains
        assert chain.signed == chain.entries
        (session,) = pointsman.conversations.list_sessions(include_workers=True)
        assert session.is_ended
        assert len(session.workers) == 2


def test_the_end_of_its_input_ends_it_with_everything_signed(depot: Depot) -> None:
    with process(depot.home) as own:
        own.say(HELLO, READY, tool(2, "route_preview", message="hello"))
        assert own.heard(2)["result"]["isError"] is False
        assert own.running.stdin is not None
        own.running.stdin.close()
        assert own.running.wait(LONG_S) == 0
    with Pointsman(depot.home) as pointsman:
        (chain,) = pointsman.verify().chains
        assert chain.signed == chain.entries


def test_a_signal_ends_it_though_its_client_says_nothing(depot: Depot) -> None:
    with process(depot.home) as own:
        own.say(HELLO, READY, tool(2, "route_preview", message="hello"))
        own.heard(2)
        own.running.send_signal(signal.SIGTERM)
        assert own.running.wait(LONG_S) == 0
    with Pointsman(depot.home) as pointsman:
        (chain,) = pointsman.verify().chains
        assert chain.signed == chain.entries


def test_a_signal_ends_a_worker_first_and_that_is_recorded(depot: Depot) -> None:
    depot.provider.then(stalls("never ends"))
    with process(depot.home) as own:
        own.say(HELLO, READY, tool(2, "delegate", task="go on for ever", tier="fast"))
        eventually(lambda: depot.provider.requests, seconds=LONG_S)
        own.running.send_signal(signal.SIGTERM)
        assert own.running.wait(LONG_S) == 0
    (failed,) = entries(depot.home, "event.delegate.failed")
    assert b"cancelled_by_user" in failed.payload
    assert_intact(depot.home)


def test_being_killed_loses_nothing_that_was_answered(depot: Depot) -> None:
    with process(depot.home) as own:
        own.say(HELLO, READY, tool(2, "route_preview", message="hello"))
        decided = own.heard(2)["result"]["structuredContent"]["decision_id"]
        own.running.kill()
        own.running.wait(LONG_S)
    assert_intact(depot.home)
    with process(depot.home) as again:
        again.say(HELLO, READY, tool(2, "route_explain", turn=decided))
        assert again.heard(2)["result"]["structuredContent"]["decision_id"] == decided


def test_lines_that_are_no_messages_do_not_end_it(depot: Depot) -> None:
    with process(depot.home) as own:
        own.say(HELLO, READY, b"what?", b'{"jsonrpc": "2.0"}', b"[]", b"\xff\xfe", b"{" * 5000)
        own.say({"jsonrpc": "2.0", "id": 9, "method": "no/such/method"})
        assert "error" in own.heard(9)
        own.say(tool(10, "cost"))
        assert own.heard(10)["result"]["isError"] is False


def test_what_others_print_does_not_get_among_the_messages(depot: Depot) -> None:
    noisy = (
        "import os, pointsman.turns.explain as e\n"
        "real = e.to_screen\n"
        "def loud(shown):\n"
        "    print('LOUD'); os.system('echo LOUDER'); return real(shown)\n"
        "import pointsman.mcp.turn_tools as t; t.to_screen = loud\n"
        "from pointsman.cli.main import main; main()"
    )
    command = [sys.executable, "-c", noisy, "mcp", "--home", str(depot.home)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        own = Process(running)
        own.say(HELLO, READY, tool(2, "route_preview", message="hello"))
        own.heard(2)
        out, err = running.communicate(timeout=LONG_S)
    assert b"LOUD" not in out
    assert b"LOUDER" in err


def test_a_client_that_reads_nothing_cannot_keep_it_from_ending(depot: Depot) -> None:
    with process(depot.home) as own:
        asks = [{"jsonrpc": "2.0", "id": n, "method": "tools/list"} for n in range(2, 20)]
        own.say(HELLO, READY, *asks)
        own.heard(2)
        own.running.send_signal(signal.SIGTERM)
        assert own.running.wait(LONG_S) == 0


def test_a_missing_sdk_is_told_with_the_command_that_installs_it(
    depot: Depot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    told = CliRunner().invoke(main, ["mcp", "--home", str(depot.home)])
    assert told.exit_code == 2
    assert "mcp.not_installed" in told.output
    assert "pip install 'pointsman[mcp]'" in told.output


def test_broken_files_are_told_on_standard_error_and_the_rest_serves(depot: Depot) -> None:
    (depot.home / "routing.yaml").write_text("rules: 3\n")
    with process(depot.home) as own:
        own.say(HELLO, READY, tool(2, "route_preview", message="hello"))
        assert own.heard(2)["result"]["isError"] is False
        own.running.send_signal(signal.SIGTERM)
        _, err = own.running.communicate(timeout=LONG_S)
    assert b"routing.yaml:1" in err
