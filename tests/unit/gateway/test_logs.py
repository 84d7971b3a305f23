"""Lines of the log are gathered, bounded, and never hold what an error says."""

import asyncio
import json

from pointsman.gateway.telemetry import logs
from pointsman.gateway.telemetry.logs import Log, LogLine
from pointsman.kernel.instant import Instant
from pointsman.testing import FrozenClock


def line(**more) -> LogLine:
    return LogLine(Instant(0), "chat", **{"status": 200, "elapsed_us": 1500, **more})


def test_lines_are_written_together_a_moment_later(monkeypatch):
    monkeypatch.setattr(logs, "GATHERED_S", 0.001)
    written: list[bytes] = []

    async def scenario() -> None:
        log = Log(FrozenClock(), is_on=True, write=written.append)
        log.request(line())
        log.request(line(status=404))
        log.request(line(status=503))
        log.request(line(error_class="network"))
        assert written == []
        while not written:
            await asyncio.sleep(0.001)

    asyncio.run(scenario())
    assert len(written) == 1
    found = [json.loads(each) for each in written[0].splitlines()]
    assert [each["level"] for each in found] == ["info", "warning", "error", "warning"]
    assert (found[0]["time"], found[0]["elapsed_ms"]) == ("1970-01-01T00:00:00.000000Z", 1.5)


def test_what_is_too_much_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(logs, "MOST_WAITING", 2)
    written: list[bytes] = []

    async def scenario() -> None:
        log = Log(FrozenClock(), is_on=True, write=written.append)
        for _ in range(5):
            log.request(line())
        log.flush()

    asyncio.run(scenario())
    found = [json.loads(each) for each in written[0].splitlines()]
    assert [each["event"] for each in found] == ["request", "request", "lines_dropped"]
    assert found[-1]["lines"] == 3


def test_an_unforeseen_error_is_told_by_its_kind_and_place_alone():
    written: list[bytes] = []
    log = Log(FrozenClock(), is_on=False, write=written.append)
    try:
        {}["what a user wrote"]
    except KeyError as error:
        log.unforeseen(error)
    told = json.loads(written[0])
    assert (told["error"], told["event"]) == ("KeyError", "unforeseen")
    assert told["places"][0].startswith("test_logs.py:")
    assert b"what a user wrote" not in written[0]


def test_a_line_is_one_line_whatever_a_name_holds():
    written: list[bytes] = []

    async def scenario() -> None:
        log = Log(FrozenClock(), is_on=True, write=written.append)
        log.request(line(requested_model="a\nb\r\x00\x1b[31m" + "x" * 500))
        log.flush()

    asyncio.run(scenario())
    assert written[0].count(b"\n") == 1
    assert len(json.loads(written[0])["requested_model"]) == logs.MOST_NAME
