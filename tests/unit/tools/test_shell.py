"""`run_shell` ends with everything it started, in bounded time and memory, and leaks nothing."""

from __future__ import annotations

import asyncio
import os
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.open_files import open_files, opened_since
from tests.processes import is_running

from pointsman.sessions.tools.excerpt import MOST_CHARACTERS
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.process import MARK, ShellInput, Timeouts, environment, run_shell
from pointsman.sessions.tools.stop import Stop, in_thread

QUICK = Timeouts(command_s=30, term_s=0.3, kill_s=5, drain_s=0.3)


def run(folder: Path, command: str, timeout_s: int | None = None) -> str:
    return run_shell(folder, ShellInput(command, timeout_s), QUICK, Stop())


def failure(folder: Path, command: str, timeout_s: int | None = None) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        run(folder, command, timeout_s)
    return caught.value


def children() -> set[int]:
    """Give the processes that this one started and has not reaped."""
    me = os.getpid()
    return {int(each) for each in Path(f"/proc/{me}/task/{me}/children").read_text().split()}


def pids(folder: Path, *names: str) -> list[int]:
    return [int((folder / name).read_text()) for name in names]


async def until(check: Callable[[], bool]) -> None:
    """Wait until something is so; a test that waits in vain fails by its time."""
    async with asyncio.timeout(20):
        while not check():
            await asyncio.sleep(0.01)


def test_output_and_exit_code_are_told(tmp_path: Path) -> None:
    assert run(tmp_path, "echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"
    assert run(tmp_path, "true") == "[exit code 0]"
    assert run(tmp_path, "kill -9 $$") == "[killed by SIGKILL]"


def test_command_runs_in_the_folder(tmp_path: Path) -> None:
    assert run(tmp_path, "pwd").startswith(f"{tmp_path.resolve()}\n")


def test_command_has_no_input(tmp_path: Path) -> None:
    assert run(tmp_path, "cat; echo end") == "end\n[exit code 0]"


def test_environment_holds_only_what_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("POINTSMAN_ADMIN_TOKEN", "pm-secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "aws-secret")
    printed = run(tmp_path, "env")
    assert "secret" not in printed
    names = {line.partition("=")[0] for line in printed.splitlines() if "=" in line}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} <= {*environment(), MARK}


def test_no_descriptor_of_ours_is_inherited(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        assert run(tmp_path, f"echo x >&{write} || echo closed").startswith(("closed", "/bin/sh"))
    finally:
        os.close(read)
        os.close(write)


def test_command_past_its_time_is_killed_and_told_with_its_output(tmp_path: Path) -> None:
    error = failure(tmp_path, "echo begun; sleep 600", 1)
    assert error.error_class == "timeout"
    assert error.message == "the command took longer than 1 s\nit had printed:\nbegun"


def test_command_that_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    error = failure(tmp_path, "trap '' TERM; echo $$ > pid; while true; do sleep 1; done", 1)
    assert error.error_class == "timeout"
    asyncio.run(until(lambda: not is_running(*pids(tmp_path, "pid"))))


def test_command_may_clean_up_when_it_is_asked_to_end(tmp_path: Path) -> None:
    failure(tmp_path, "trap 'echo bye > last; exit' TERM; sleep 600 & wait", 1)
    assert (tmp_path / "last").read_text() == "bye\n"


def test_what_was_left_in_the_background_ends_with_the_command(tmp_path: Path) -> None:
    started = time.monotonic()
    assert run(tmp_path, "sleep 600 & echo $! > pid; echo done") == "done\n[exit code 0]"
    assert time.monotonic() - started < 20
    asyncio.run(until(lambda: not is_running(*pids(tmp_path, "pid"))))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_what_left_the_group_ends_too(tmp_path: Path) -> None:
    command = (
        "setsid sh -c 'echo $$ > pid; exec sleep 600' & while [ ! -s pid ]; do sleep 0.01; done"
    )
    run(tmp_path, command)
    (pid,) = pids(tmp_path, "pid")
    asyncio.run(until(lambda: not is_running(pid)))


def cancelled_by(tmp_path: Path, end: Callable[[Stop, asyncio.Task[str]], None]) -> BaseException:
    """Cancel a command with a child and a grandchild; give what came of it."""
    command = (
        "echo $$ > one; (echo $(exec sh -c 'echo $PPID') > two; "
        "sh -c 'echo $$ > three; exec sleep 600') & wait"
    )

    async def go() -> BaseException:
        stop = Stop()
        asked = ShellInput(command)
        task = asyncio.create_task(
            in_thread(lambda each: run_shell(tmp_path, asked, QUICK, each), stop)
        )
        three = tmp_path / "three"
        await until(lambda: three.exists() and three.read_text().endswith("\n"))
        end(stop, task)
        (result,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(result, BaseException)
        return result

    return asyncio.run(go())


def test_wish_to_stop_kills_child_and_grandchild(tmp_path: Path) -> None:
    result = cancelled_by(tmp_path, lambda stop, _: stop.request())
    assert isinstance(result, CallFailed)
    assert result.error_class == "cancelled"
    asyncio.run(until(lambda: not any(map(is_running, pids(tmp_path, "one", "two", "three")))))


def test_cancelled_task_kills_child_and_grandchild_before_it_lets_go(tmp_path: Path) -> None:
    result = cancelled_by(tmp_path, lambda _, task: task.cancel() and None)
    assert isinstance(result, asyncio.CancelledError)
    asyncio.run(until(lambda: not any(map(is_running, pids(tmp_path, "one", "two", "three")))))


def test_huge_output_is_cut_in_flat_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    text = run(tmp_path, "echo first; yes 0123456789abcdef | head -c 50000000; echo last")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert text.startswith("first\n")
    assert text.endswith("last\n[exit code 0]")
    assert "characters left out here" in text
    assert len(text) < MOST_CHARACTERS + 200
    assert peak < 3_000_000


def test_output_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    assert run(tmp_path, r"printf 'a\377b\303\274'") == "a\ufffdb\u00fc\n[exit code 0]"


@pytest.mark.parametrize(
    ("command", "timeout_s"),
    [("", None), ("  ", None), ("x\0y", None), ("\ud800", None), ("true", 0), ("true", 601),
     ("x" * 40_000, None)],
    ids=["empty", "blank", "zero", "half", "too short", "too long", "huge"],
)  # fmt: skip
def test_unusable_input_is_refused(tmp_path: Path, command: str, timeout_s: int | None) -> None:
    assert failure(tmp_path, command, timeout_s).error_class == "validation_error"


def test_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    error = failure(tmp_path / "gone", "true")
    assert error.message.startswith("the command could not be started: no such file")


def test_no_descriptor_or_zombie_is_left(tmp_path: Path) -> None:
    run(tmp_path, "true")
    before, earlier = open_files(), children()
    for _ in range(5):
        run(tmp_path, "sleep 600 & true")
        failure(tmp_path / "gone", "true")
    assert not opened_since(before)
    assert not [each for each in children() - earlier if not is_running(each)]


class TestThread:
    def test_result_and_error_come_back(self) -> None:
        assert asyncio.run(in_thread(lambda _: 7, Stop())) == 7
        with pytest.raises(CallFailed, match="no"):
            asyncio.run(in_thread(_failing, Stop()))

    def test_tool_that_hangs_is_given_up(self) -> None:
        """The work heeds no wish; whoever waits is told, and the thread left alone."""
        release = os.pipe()

        async def go() -> None:
            stop = Stop()
            call = in_thread(lambda _: os.read(release[0], 1), stop, give_up_s=0.05)
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            stop.request()
            await task

        try:
            with pytest.raises(CallFailed) as caught:
                asyncio.run(go())
            assert caught.value.error_class == "cancelled"
            assert "may still run" in caught.value.message
        finally:
            os.write(release[1], b"x")
            for descriptor in release:
                os.close(descriptor)

    def test_calls_run_beside_each_other(self) -> None:
        """Each waits for the other: in one thread they would wait for ever."""
        one, two = os.pipe(), os.pipe()

        def ping(_: Stop) -> bytes:
            os.write(one[1], b"a")
            return os.read(two[0], 1)

        def pong(_: Stop) -> bytes:
            os.write(two[1], b"b")
            return os.read(one[0], 1)

        async def go() -> list[bytes]:
            both: list[Awaitable[bytes]] = [in_thread(ping, Stop()), in_thread(pong, Stop())]
            return list(await asyncio.gather(*both))

        try:
            assert asyncio.run(go()) == [b"b", b"a"]
        finally:
            for descriptor in (*one, *two):
                os.close(descriptor)


def _failing(_: Stop) -> str:
    raise CallFailed("execution_error", "no")
