"""Tools of real MCP servers, over stdio and HTTP, as tools of a session."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from msgspec import Raw
from tests.processes import is_running
from tests.servers import free_port

from pointsman.conversations.equipment import SessionTools
from pointsman.providers.messages import Image, Text, ToolUse
from pointsman.sessions.tool import ToolContext, ToolOutcome
from pointsman.sessions.tools.box import ToolBox
from pointsman.sessions.tools.mcp_connection import _StderrTail
from pointsman.sessions.tools.mcp_tools import LONGEST_NAME, offered_name
from pointsman.storage.policies.settings import Settings
from pointsman.storage.policies.tool_settings import McpServer, ToolSettings
from pointsman.turns.registry.login import SecretRef

SERVER = Path(__file__).with_name("mcp_server.py")
CONTEXT = ToolContext("s", "t")
T = TypeVar("T")

pytestmark = pytest.mark.slow


def program(**more: object) -> McpServer:
    given = {"command": sys.executable, "args": (str(SERVER),), "start_timeout_s": 60, **more}
    return McpServer(**given)  # type: ignore[arg-type] # what each test asks


@asynccontextmanager
async def started(
    home: Path, tools: ToolSettings | None = None, **servers: McpServer
) -> AsyncIterator[SessionTools]:
    kit = SessionTools(home, None, Settings(tools=tools or ToolSettings(), mcp_servers=servers))
    await kit.start()
    try:
        yield kit
    finally:
        await kit.close()


async def call(
    box: ToolBox, name: str, given: Mapping[str, object] | None = None, use_id: str = "tu_1"
) -> ToolOutcome:
    use = ToolUse(use_id, name, Raw(msgspec.json.encode(given or {})))
    return await box.run(use, CONTEXT)


def text(outcome: ToolOutcome) -> str:
    return "".join(each.text for each in outcome.content if isinstance(each, Text))


def run(test: Callable[[], Coroutine[None, None, T]]) -> T:
    async def within() -> T:
        async with asyncio.timeout(180):
            return await test()

    return asyncio.run(within())


def test_tools_of_a_program_are_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server, many calls: starting one takes seconds."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-leak")
    monkeypatch.setenv("ERRAND_TOKEN", "tok-123456")
    env = {"TOKEN": SecretRef(env="ERRAND_TOKEN"), "LEVEL": "info"}

    async def test() -> None:
        async with started(tmp_path, errands=program(env=env)) as kit:
            assert kit.problems == ()
            box = kit.tools()
            offered = {each.name: each for each in box.definitions()}
            add = offered["errands__add"]
            assert (add.side_effects, add.requires_workspace) == ("execute", False)
            assert add.description == "Add two whole numbers."

            assert text(await call(box, "errands__add", {"left": 2, "right": 40})) == "42"

            asked = box.needs_confirmation(
                ToolUse("tu_1", "errands__add", Raw(b'{"left":1,"right":2}')), CONTEXT
            )
            assert asked is not None
            assert asked.scope_key == "errands__add"
            assert "`errands`" in asked.input_summary

            wrong = await call(box, "errands__add", {"left": "two"})
            assert wrong.error_class == "validation_error"
            assert "expected a whole number" in text(wrong)

            failed = await call(box, "errands__fail", {"reason": "no ink"})
            assert failed.error_class == "execution_error"

            picture = await call(box, "errands__picture")
            assert Image("base64", "iVBORw0KGgo=", "image/png") in picture.content
            assert text(picture) == "a dot"

            long = text(await call(box, "errands__long", {"size": 500_000}))
            assert len(long) < 60_000
            assert "characters left out here" in long

            seen = text(await call(box, "errands__environment"))
            assert "LEVEL=info" in seen
            assert "TOKEN=[redacted]" in seen
            assert "sk-leak" not in seen
            assert "tok-123456" not in seen
            assert "ERRAND_TOKEN" not in seen

    run(test)


def test_hanging_call_is_ended_by_time_and_by_cancel_and_the_server_stays(tmp_path: Path) -> None:
    async def test() -> int:
        async with started(tmp_path, errands=program(timeout_s=1)) as kit:
            box, mark = kit.tools(), tmp_path / "mark"
            # A mark of its own: a server that is slow may not have set it by then.
            late = await call(box, "errands__hang", {"mark": str(tmp_path / "late")})
            assert late.error_class == "timeout"

            hanging = asyncio.create_task(call(box, "errands__hang", {"mark": str(mark)}, "tu_2"))
            while not mark.exists():
                await asyncio.sleep(0.01)
            await box.cancel("tu_2")
            assert (await hanging).error_class in ("cancelled", "timeout")

            task = asyncio.create_task(call(box, "errands__hang", {"mark": str(mark)}, "tu_3"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            assert text(await call(box, "errands__add", {"left": 1, "right": 1})) == "2"
            return int(mark.read_text())

    pid = run(test)
    assert not is_running(pid)


def test_last_words_are_waited_for_until_all_of_them_were_read() -> None:
    async def test() -> None:
        errors = _StderrTail()
        file = errors.file()
        last = asyncio.create_task(errors.last())
        await asyncio.sleep(0)
        file.write("out of ink\nout of paper\n")
        file.close()
        assert await last == "out of paper"

    run(test)


def test_crash_is_told_and_the_server_started_again_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, errands=program()) as kit:
            box, sum_ = kit.tools(), {"left": 1, "right": 1}
            first = await call(box, "errands__crash")
            assert first.error_class == "execution_error"
            assert text(first) == (
                "the server `errands` ended: out of paper; it is started again with the next call"
            )
            assert text(await call(box, "errands__add", sum_)) == "2"
            second = await call(box, "errands__crash")
            assert text(second).endswith("it is not started again in this session")
            third = await call(box, "errands__add", sum_)
            assert text(third) == "the server `errands` ended twice and is not started again"

    run(test)


def test_servers_that_cannot_be_used_are_told_and_the_others_serve(tmp_path: Path) -> None:
    async def test() -> None:
        servers = {
            "gone": McpServer(command=str(tmp_path / "nonesuch")),
            "loud": McpServer(command="/bin/sh", args=("-c", "echo no licence >&2; exit 1")),
            "mute": McpServer(command="/bin/sleep", args=("600",), start_timeout_s=1),
            "keyless": McpServer(command="/bin/true", env={"K": SecretRef(env="NO_SUCH_VARIABLE")}),
            "off": McpServer(command="/bin/false", enabled=False),
            "errands": program(allow_tools=("add", "pitcure")),
        }
        async with started(tmp_path, **servers) as kit:
            told = "\n".join(kit.problems)
            assert "the server `gone` cannot be started" in told
            assert "the server `loud` cannot be started: no licence" in told
            assert "the server `mute` did not answer within 1 s" in told
            assert "`keyless`: the secret `env NO_SUCH_VARIABLE` is missing" in told
            assert "`errands` has no tool `pitcure` (did you mean `picture`?)" in told
            assert len(kit.problems) == 5
            names = [each.name for each in kit.tools().definitions()]
            assert names == ["memory_add", "memory_replace", "errands__add"]

    run(test)


def test_denied_server_is_not_offered(tmp_path: Path) -> None:
    async def test() -> None:
        settings = ToolSettings(deny=("errands__*",), allow=("errands__add",))
        async with started(tmp_path, settings, errands=program()) as kit:
            names = [each.name for each in kit.tools().definitions()]
            assert names == ["memory_add", "memory_replace", "errands__add"]
            use = ToolUse("tu_1", "errands__add", Raw(b'{"left":1,"right":2}'))
            assert kit.tools().needs_confirmation(use, CONTEXT) is None

    run(test)


@contextmanager
def served_over_http() -> Iterator[str]:
    """Serve the same tools over HTTP on a free port of this machine."""
    port = free_port()
    words = [sys.executable, str(SERVER), "http", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        asyncio.run(_listening(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


async def _listening(port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            await writer.wait_closed()
            return


def test_tools_of_an_address_are_called(tmp_path: Path) -> None:
    async def test(url: str) -> None:
        async with started(tmp_path, far=McpServer(url=url, headers={"X-Who": "me"})) as kit:
            assert kit.problems == ()
            box = kit.tools()
            offered = {each.name: each for each in box.definitions()}
            assert offered["far__add"].side_effects == "network"
            assert text(await call(box, "far__add", {"left": 3, "right": 4})) == "7"

    with served_over_http() as url:
        run(lambda: test(url))


def test_address_where_nobody_listens_is_told(tmp_path: Path) -> None:
    port = free_port()

    async def test() -> None:
        url = f"http://127.0.0.1:{port}/mcp"
        async with started(tmp_path, far=McpServer(url=url, start_timeout_s=20)) as kit:
            (problem,) = kit.problems
            assert "`far`" in problem
            assert "\n" not in problem

    run(test)


def test_names_fit_every_provider_and_stay_apart() -> None:
    assert offered_name("git", "log") == "git__log"
    assert offered_name("git", "log/all") == "git__log_all"
    long = offered_name("git", "x" * 200)
    assert len(long) == LONGEST_NAME
    assert long != offered_name("git", "x" * 201)
    taken = {"git__a_b": None}
    assert offered_name("git", "a.b", taken) not in taken


def test_nothing_is_imported_before_a_server_is_connected() -> None:
    script = (
        "import sys, pointsman.conversations.equipment\n"
        "print([name for name in ('mcp', 'pydantic', 'httpx2') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    assert done.stdout.strip() == "[]"
