"""Every fault of a provider, in both modes and at three positions, through a real gateway.

`python -m tests.gateway.fault_cells` writes docs/reference/faults.md; the tests compare it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import httpx2 as httpx
from tests.gateway.house import eventually, running, upstream, write_home
from tests.open_files import open_files

from pointsman.testing import FAULTS, says
from pointsman.testing.upstream_faults import _RESPONSE
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Pause,
    Received,
    SendBytes,
    Step,
    answer_events,
    chunk,
    head,
    whole_answer,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"
KEY = "sk-canary-of-the-fault-cells"
AT_ONCE = 32
LIMITS = {"connect_s": 2, "head_s": 1, "idle_s": 1, "total_s": 2}

Mode = Literal["whole", "stream"]
Position = Literal["before head", "before content", "after content"]
MODES: tuple[Mode, ...] = ("whole", "stream")
POSITIONS: tuple[Position, ...] = ("before head", "before content", "after content")
DIALECTS = ("chat", "messages")
HEAVY = ("endless_body", "huge_body", "sse_long_line")
"""Faults of hundreds of megabytes: in one dialect and at the position they are about."""
WAITING = ("accept_then_silence", "slow_drip", "late_first_token", "stall_mid_body")
BATCH = 108


class Cell(NamedTuple):
    """One fault at one place."""

    number: int
    fault: str
    dialect: str
    mode: Mode
    position: Position

    @property
    def model(self) -> str:
        return f"c{self.number}:m"

    def __str__(self) -> str:
        return f"{self.fault}, {self.dialect}, {self.mode}, {self.position}"


class Seen(NamedTuple):
    """What the caller saw."""

    status: int
    decision: str
    body: bytes


class Found(NamedTuple):
    """What one cell came to: for the caller, in the ledger, and at the provider."""

    seen: Seen
    ends: list[dict[str, Any]]
    decisions: int
    asked: list[Received]

    @property
    def outcome(self) -> str:
        """Say it in two words, as the page shows it."""
        failed = self.ends[0]["error_class"]
        if self.seen.status != 200:
            return f"{self.seen.status} {failed}"
        return f"event, {failed}" if failed else "answered"


def _all_cells() -> Iterator[tuple[str, str, Mode, Position]]:
    for fault in FAULTS:
        for dialect in DIALECTS:
            for mode in MODES:
                for position in POSITIONS:
                    if fault not in HEAVY or (dialect, position) == ("chat", "before head"):
                        yield fault, dialect, mode, position


CELLS = [Cell(number, *each) for number, each in enumerate(_all_cells())]


def _without_head(data: bytes) -> bytes:
    """Give what follows a head, as chunks: it stands in the middle of another answer."""
    told, end, body = data.partition(b"\r\n\r\n")
    if not data.startswith(b"HTTP/1.1 ") or data.startswith(b"HTTP/1.1 1") or not end:
        return data
    if b"transfer-encoding: chunked" in told.lower():
        return body
    return chunk(body) + LAST_CHUNK if body else LAST_CHUNK


def placed(cell: Cell, request: Received) -> Sequence[Step]:
    """Give the steps of a fault that happens at the cell's position."""
    steps = FAULTS[cell.fault].reply(request)
    if cell.position == "before head":
        return steps
    if request.is_stream:
        pieces = answer_events(request, _RESPONSE)
        first = next(at for at, each in enumerate(pieces) if b"one two" in each)
        before = [STREAM_HEAD, *map(chunk, pieces[:1])]
        content = [STREAM_HEAD, *map(chunk, pieces[: first + 1])]
    else:
        whole = json.dumps(whole_answer(request, _RESPONSE)).encode()
        before = [head(headers={"transfer-encoding": "chunked"})]
        content = [*before, chunk(whole[: len(whole) // 2])]
    begun = before if cell.position == "before content" else content
    later = [
        SendBytes(_without_head(each.data), each.times) if isinstance(each, SendBytes) else each
        for each in steps
    ]
    # The pause lets what was begun arrive as a piece of its own.
    return [
        *map(SendBytes, begun),
        Pause(0.05),
        *(each for each in later if each != SendBytes(b"")),
    ]


def _reply(request: Received) -> Sequence[Step]:
    where = request.path.split("/")[1]
    return says("hi")(request) if where == "good" else placed(CELLS[int(where[1:])], request)


def _models(url: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """A provider for every cell, so that no outage of one is seen by another."""
    kinds = {"chat": "openai", "messages": "anthropic"}
    key, price = {"env": "FAULT_CELLS_KEY"}, {"input": 1, "output": 1}
    return {
        "schema_version": 1,
        "providers": {
            "good": {"kind": "openai", "base_url": f"{url}/good"},
        }
        | {
            f"c{each.number}": {
                "kind": kinds[each.dialect],
                "base_url": f"{url}/c{each.number}",
                "api_key": key,
            }
            for each in cells
        },
        "models": {"good:m": {"location": "cloud"}}
        | {each.model: {"location": "cloud", "price": price} for each in cells},
    }


def _body(cell: Cell) -> dict[str, Any]:
    asked = [{"role": "user", "content": f"cell {cell.number}"}]
    more = {"stream": True} if cell.mode == "stream" else {}
    return {"model": cell.model, "max_tokens": 50, "messages": asked, **more}


async def _ask(client: httpx.AsyncClient, cell: Cell) -> Seen:
    path = "/v1/messages" if cell.dialect == "messages" else "/v1/chat/completions"
    body = bytearray()
    async with client.stream("POST", path, json=_body(cell)) as told:
        async for piece in told.aiter_raw():
            body = (body + piece) if len(body) < 1 << 20 else body[-(1 << 16) :] + piece
        assert "x-pointsman-decision" in told.headers, (str(cell), told.status_code, bytes(body))
        return Seen(told.status_code, told.headers["x-pointsman-decision"], bytes(body))


async def _ask_all(url: str, cells: Sequence[Cell]) -> dict[Cell, Seen]:
    free = asyncio.Semaphore(AT_ONCE)
    seen: dict[Cell, Seen] = {}
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:

        async def one(cell: Cell) -> None:
            async with free:
                seen[cell] = await _ask(client, cell)

        await asyncio.gather(*map(one, cells))
    return seen


def _batches() -> Iterator[list[Cell]]:
    """Give cells that run together: those that wait, those that carry much, and the others."""
    yield [each for each in CELLS if each.fault in WAITING]
    for mode in MODES:
        yield [each for each in CELLS if each.fault in HEAVY and each.mode == mode]
    others = [each for each in CELLS if each.fault not in (*WAITING, *HEAVY)]
    for first in range(0, len(others), BATCH):
        yield others[first : first + BATCH]


def run_cells(folder: Path) -> dict[Cell, Found]:
    """Run every cell and give what came of it; nothing may be left open by any of them."""
    os.environ["FAULT_CELLS_KEY"] = KEY
    found: dict[Cell, Found] = {}
    for number, cells in enumerate(_batches()):
        found |= _run_batch(folder / str(number), cells)
    return found


def _limits(cells: Sequence[Cell]) -> dict[str, int]:
    """Give a busy machine the time to read as much of an endless body as is ever read of one."""
    is_read_whole = all(each.fault in HEAVY and each.mode == "whole" for each in cells)
    return {**LIMITS, "idle_s": 60, "total_s": 60} if is_read_whole else LIMITS


def _run_batch(home: Path, cells: Sequence[Cell]) -> dict[Cell, Found]:
    with upstream(otherwise=_reply) as faulty:
        write_home(home, models=_models(faulty.url, cells), pointsman={"limits": _limits(cells)})
        with running(home) as live:
            live.chat("a first request opens what stays open", model="good:m")
            live.outcomes(1)
            files, tasks = open_files(), live.tasks()
            seen = asyncio.run(_ask_all(live.url, cells))
            ends = live.outcomes(len(cells) + 1)
            eventually(lambda: len(open_files() - files) <= 2 * faulty.kept, seconds=30)
            eventually(lambda: live.tasks() <= tasks, seconds=30)
            decided = [each.id for each in live.entries("decision.turn")]
            asked = [*faulty.requests]
    return {
        cell: Found(
            told,
            [each for each in ends if each["model"] == cell.model],
            decided.count(told.decision),
            [each for each in asked if each.path.startswith(f"/c{cell.number}/")],
        )
        for cell, told in seen.items()
    }


def page(found: dict[Cell, Found]) -> str:
    """Write the matrix."""
    rows: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for cell, each in found.items():
        rows.setdefault((cell.fault, cell.dialect), {})[(cell.mode, cell.position)] = each.outcome
    lines = [*_HEADER]
    for fault in FAULTS.values():
        for dialect in DIALECTS:
            if row := rows.get((fault.name, dialect)):
                cells = [row.get((mode, place), "") for mode in MODES for place in POSITIONS]
                told = [f"F{fault.number:02d}", fault.name, dialect, *cells]
                lines.append(f"| {' | '.join(told)} |")
    return "\n".join([*lines, ""])


_TITLES = [
    *("", "fault", "format", "whole: before head", "before content", "after content"),
    *("stream: before head", "before content", "after content"),
]
_HEADER = [
    "# What a caller sees when a provider fails",
    "",
    "Written by `python -m tests.gateway.fault_cells`; the tests run every cell and compare.",
    "",
    "Each fault happens before the head of the provider's answer, after the head but before any",
    "content, and after the first content; to a whole answer and to a stream.",
    "",
    "- `answered`: the answer got through as the provider gave it.",
    "- A status and a class: nothing had been sent yet. The caller gets an error in its own wire",
    "  format; a model that the caller did not name has had its fallback before that.",
    "- `event`: content was out already. A typed error event ends the stream, no text comes twice.",
    "",
    "In every cell one decision and one outcome are recorded, no connection or task is left over,",
    "and no key goes to another host.",
    "",
    f"| {' | '.join(_TITLES)} |",
    "|" + "---|" * len(_TITLES),
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(run_cells(Path(folder))), encoding="utf-8")
    sys.stdout.write(f"{len(CELLS)} cells: {PAGE}\n")


if __name__ == "__main__":
    main()
