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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import httpx

from pointsman.testing import FAULTS
from pointsman.testing.upstream_faults import _SAID, _parts
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Received,
    Send,
    Step,
    chunk,
    head,
    said_events,
    said_whole,
)
from tests.gateway.house import PATIENT, Running, Upstream, running, upstream, write_home

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"
KEY = "sk-canary-of-the-fault-cells"
AT_ONCE = 8
LIMITS = {"connect_s": 1, "head_s": 1, "idle_s": 1, "total_s": 3}

Mode = Literal["whole", "stream"]
Position = Literal["before head", "before content", "after content"]
MODES: tuple[Mode, ...] = ("whole", "stream")
POSITIONS: tuple[Position, ...] = ("before head", "before content", "after content")
DIALECTS = ("chat", "messages")
HEAVY = ("endless_body", "huge_body", "sse_long_line")
"""Faults of hundreds of megabytes: in one dialect and at the position they are about."""


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


class Run(NamedTuple):
    """What all cells came to."""

    seen: dict[Cell, Seen]
    ends: dict[str, list[dict[str, Any]]]
    decisions: list[str]
    live: Running
    upstream: Upstream
    leaked: str


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
    if not data.startswith(b"HTTP/1.1 "):
        return data
    told, _, body = data.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in told.lower():
        return body
    return chunk(body) + LAST_CHUNK if body else LAST_CHUNK


def placed(cell: Cell, request: Received) -> Sequence[Step]:
    """Give the steps of a fault that happens at the cell's position."""
    steps = FAULTS[cell.fault].reply(request)
    if cell.position == "before head":
        return steps
    if request.is_stream:
        pieces = said_events(request, _SAID)
        first = next(at for at, each in enumerate(pieces) if b"one two" in each)
        before = [STREAM_HEAD, *map(chunk, pieces[:1])]
        content = [STREAM_HEAD, *map(chunk, pieces[: first + 1])]
    else:
        whole = json.dumps(said_whole(request, _SAID)).encode()
        before = [head(headers={"transfer-encoding": "chunked"})]
        content = [*before, chunk(whole[: len(whole) // 2])]
    begun = before if cell.position == "before content" else content
    later = [
        Send(_without_head(each.data), each.times) if isinstance(each, Send) else each
        for each in steps
    ]
    return [*map(Send, begun), *(each for each in later if each != Send(b""))]


def _reply(request: Received) -> Sequence[Step]:
    number = int(request.path.split("/")[1][1:])
    return placed(CELLS[number], request)


def _models(url: str) -> dict[str, Any]:
    """A provider for every cell, so that no outage of one is seen by another."""
    kinds = {"chat": "openai", "messages": "anthropic"}
    key, price = {"env": "FAULT_CELLS_KEY"}, {"input": 1, "output": 1}
    return {
        "schema_version": 1,
        "providers": {
            f"c{each.number}": {
                "kind": kinds[each.dialect],
                "base_url": f"{url}/c{each.number}",
                "api_key": key,
            }
            for each in CELLS
        },
        "models": {each.model: {"location": "cloud", "price": price} for each in CELLS},
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


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only counted


@contextmanager
def run_cells(folder: Path) -> Iterator[Run]:
    """Run every cell and give what came of it; the gateway still runs."""
    os.environ["FAULT_CELLS_KEY"] = KEY
    with upstream(otherwise=_reply) as faulty:
        home = write_home(folder / "home", models=_models(faulty.url), pointsman={"limits": LIMITS})
        with running(home, PATIENT) as live:
            seen = asyncio.run(_ask_all(live.url, CELLS))
            found = live.outcomes(len(CELLS))
            ends: dict[str, list[dict[str, Any]]] = {}
            for each in found:
                ends.setdefault(each["model"], []).append(each)
            decisions = [each.id for each in live.entries("decision.turn")]
            yield Run(seen, ends, decisions, live, faulty, "")


def outcome(cell: Cell, seen: Seen, end: dict[str, Any]) -> str:
    """Say what a cell came to, as the caller and the ledger see it."""
    failed = end["error_class"]
    if seen.status != 200:
        return f"{seen.status} {failed}"
    if not failed:
        return "answered"
    return f"event, {failed}"


def page(run: Run) -> str:
    """Write the matrix."""
    rows: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for cell, seen in run.seen.items():
        (end,) = run.ends[cell.model]
        row = rows.setdefault((cell.fault, cell.dialect), {})
        row[(cell.mode, cell.position)] = outcome(cell, seen, end)
    lines = [*_HEADER]
    for fault in FAULTS.values():
        for dialect in DIALECTS:
            row = rows.get((fault.name, dialect))
            if row is not None:
                cells = [row.get((m, p), "") for m in MODES for p in POSITIONS]
                lines.append(
                    f"| F{fault.number:02d} | {fault.name} | {dialect} | {' | '.join(cells)} |"
                )
    return "\n".join([*lines, ""])


_HEADER = [
    "# What a caller sees when a provider fails",
    "",
    "Written by `python -m tests.gateway.fault_cells`; the tests run every cell and compare.",
    "",
    "Each fault happens before the head of the provider's answer, after the head but before any",
    "content, and after the first content; to a whole answer and to a stream. `answered` means that",
    "the answer got through as the provider gave it. A status and a class mean that nothing had been",
    "sent yet: the caller gets an error of its own wire format, and a model that was not named by",
    "the caller would have had a fallback. `event` means that content was out already: a typed error",
    "event ends the stream, and no text is sent twice. In every cell one decision and one outcome",
    "are recorded, no connection stays open, and no key goes to another host.",
    "",
    "| | fault | format | whole: before head | before content | after content"
    " | stream: before head | before content | after content |",
    "|---|---|---|---|---|---|---|---|---|",
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, run_cells(Path(folder)) as run:
        PAGE.write_text(page(run), encoding="utf-8")
    sys.stdout.write(f"{len(CELLS)} cells: {PAGE}\n")


if __name__ == "__main__":
    main()
