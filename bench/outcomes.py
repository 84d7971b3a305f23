"""The table of outcomes against other gateways: what a caller gets for each thing that goes wrong.

One scripted upstream a model on loopback; every cell has a newly started gateway, so no cell knows
of another. Pointsman must give what tests/cases/outcomes wants, or the run fails. Writes
bench/results/outcomes.json and docs/reference/outcomes-compared.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import product
from typing import Any, NamedTuple, get_args

import httpx2 as httpx
from gateway_load import HERE, ROOT, NotPossible
from gateway_systems import last_words
from outcome_systems import COMPARED, PRICE, TIMEOUT_S, Compared, ComparedPointsman, Sides, Way
from outcomes_page import CUT_AFTER_S, CUT_STREAM, PATIENCE_S, page, table
from tests.gateway.house import Upstream, upstream
from tests.gateway.outcome_cells import FIRST, PROVIDERS, SECOND_MODEL, cases, wanted

from pointsman.testing import says
from pointsman.testing.upstream_replies import USAGE, Pause, Received, Reply, Step

RESULTS = HERE / "results" / "outcomes.json"
PAGE = ROOT / "docs" / "reference" / "outcomes-compared.md"
TEXT = "tell me something"
TOKENS = USAGE.input_tokens + USAGE.output_tokens
RECORD_S, SETTLE_S = 3.0, 0.3
"""How long a system has to record the end of a request, and to add to it."""

CAUSES = (
    "01_nothing", "02_provider_400", "03_provider_401", "04_provider_429", "05_provider_500",
    "06_timeout", "07_refused", "08_cut_before_content", "09_cut_whole", CUT_STREAM,
)  # fmt: skip
"""The files of the table whose cause is the provider: what the other gateways have, too."""

BILLED = {"01_nothing", "09_cut_whole", CUT_STREAM}
"""The causes in which the first upstream sends content, which a provider bills."""

IN_TABLE: dict[Way, str] = {"named": "named", "named, list set": "named", "list": "default"}
Facts = dict[str, Any]


class Cell(NamedTuple):
    """One thing wrong, one way to choose the model, whole or streamed."""

    cause: str
    way: Way
    is_stream: bool

    def __str__(self) -> str:
        return f"{self.cause}, {self.way}, {'stream' if self.is_stream else 'whole'}"


def cells() -> Iterator[Cell]:
    """Return every cell, cause by cause."""
    for cause, way, is_stream in product(CAUSES, get_args(Way), (False, True)):
        only = cases()[cause].get("only")
        if only is None or (only == "stream") == is_stream:
            yield Cell(cause, way, is_stream)


def run_cell(kind: type[Compared], cell: Cell) -> Facts:
    """Start a system and its upstreams, ask once, and return the facts."""
    asked = cases()[cell.cause].get("provider")
    with ExitStack() as stack:
        reply = PROVIDERS.get(asked, says("from the first"))
        if cell.cause == CUT_STREAM:
            reply = cut_later(reply)
        first = stack.enter_context(upstream(otherwise=reply, listens=asked != "refuses"))
        second = stack.enter_context(upstream(otherwise=says("from the second")))
        sides = Sides(first.scripted.port, second.scripted.port)
        system = kind(cell.way, sides)
        folder = stack.enter_context(system.folder())
        try:
            running = stack.enter_context(system.running(sides.first, folder))
        except NotPossible as error:
            raise NotPossible(f"{system.name}: {error}: {last_words(folder)}") from error
        target = running.target
        headers = dict(each.split(": ", 1) for each in target.headers)
        url = f"http://127.0.0.1:{target.port}{target.path}"
        facts = ask(url, headers, target.model, is_stream=cell.is_stream)
        wait_until_recorded(system, folder)
        facts["headers"] = telling_headers(system, facts["headers"], sides)
        facts["error"] = without_ports(facts["error"], sides) if facts["error"] else None
        facts |= calls_and_bill(cell, first, second)
        facts |= system.own_charge(folder)._asdict()
    facts["replaced"] = cell.way != "list" and facts["served"] == "second"
    return {"cause": cell.cause, "way": cell.way, "stream": cell.is_stream, **facts}


def cut_later(reply: Reply) -> Reply:
    """Cut a stream only when its content has had the time to reach the client."""

    def pause_before_cut(request: Received) -> list[Step]:
        *content, cut = reply(request)
        return [*content, Pause(CUT_AFTER_S), cut]

    return pause_before_cut


def wait_until_recorded(system: Compared, folder: Any) -> None:
    """Wait until the system has recorded the request's end, then for later entries."""
    until = time.monotonic() + RECORD_S
    while not system.has_recorded(folder) and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(SETTLE_S if system.has_own_count else 0)


def telling_headers(system: Compared, headers: dict[str, str], sides: Sides) -> dict[str, str]:
    """Keep the headers that name a model, a retry, a fallback or a cost; ports become names."""
    found = {}
    for name in (*system.telling, "x-litellm-response-cost", "retry-after"):
        if name in headers:
            found[name] = without_ports(headers[name], sides)
    return found


def without_ports(text: str, sides: Sides) -> str:
    """Write names for the ports, which differ in every run."""
    return text.replace(str(sides.first), "FIRST").replace(str(sides.second), "SECOND")


def calls_and_bill(cell: Cell, first: Upstream, second: Upstream) -> Facts:
    """Count the upstreams' requests, and their bill; a refused one is not seen."""
    calls = {"first": completions(first), "second": completions(second)}
    billed = {"first": calls["first"] if cell.cause in BILLED else 0, "second": calls["second"]}
    seen = calls | ({"first": None} if cell.cause == "07_refused" else {})
    paid = sum(TOKENS * PRICE[name] * count for name, count in billed.items())
    return {"calls": seen, "paid_microusd": paid}


def completions(side: Upstream) -> int:
    """Count the completions asked for; a gateway may ask for the list of models when it starts."""
    return sum(request.method == "POST" for request in side.requests)


def ask(url: str, headers: dict[str, str], model: str, *, is_stream: bool) -> Facts:
    """Send one request and return all that its client sees."""
    body = {"model": model, "messages": [{"role": "user", "content": TEXT}], "stream": is_stream}
    begun = time.monotonic()
    received, ending = b"", "complete"
    with (
        httpx.Client(timeout=PATIENCE_S) as client,
        client.stream("POST", url, json=body, headers=headers) as answer,
    ):
        try:
            for piece in answer.iter_bytes():
                received += piece
        except httpx.ReadTimeout:
            ending = "no end"
        except httpx.TransportError:
            ending = "broken off"
        status, got = answer.status_code, dict(answer.headers)
    text = received.decode(errors="replace")
    if is_stream and status == 200 and ending == "complete" and "data: [DONE]" not in text:
        ending = "no [DONE]"
    seen = {"status": status, "ending": ending, "seconds": round(time.monotonic() - begun, 2)}
    return {**seen, "headers": got, **read_answer(text)}


def read_answer(text: str) -> Facts:
    """Read who served, the models that the body names, and its error."""
    lines = [line.removeprefix("data:").strip() for line in text.replace("\r", "").split("\n")]
    is_events = text.lstrip().startswith(("data:", "event:", ":"))
    parts = [part for part in map(parse_facts, lines if is_events else [text]) if part]
    content = "".join(contents(part) for part in parts)
    models = list(dict.fromkeys(str(part["model"]) for part in parts if part.get("model")))
    errors = [part["error"] for part in parts if part.get("error")]
    served = served_by(content)
    return {"served": served, "body_models": models, "error": error_text(errors, text, served)}


def served_by(content: str) -> str:
    """Return the model whose text it is; a stream may go on with the other one's."""
    before, second, _ = content.partition("from the second")
    if second:
        return "first, then second" if before else "second"
    return "first" if content else "none"


def parse_facts(text: str) -> Facts:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def contents(part: Facts) -> str:
    """Return the text of a whole answer or of one event."""
    pieces = [
        (each.get("message") or each.get("delta") or {}) for each in part.get("choices") or ()
    ]
    return "".join(str(piece.get("content") or "") for piece in pieces)


def error_text(errors: list[Any], text: str, served: str) -> str | None:
    """Return the error as the client reads it: its code or type, and its message."""
    if not errors:
        return None if served != "none" else text.strip()[:300] or None
    error = errors[-1]
    if not isinstance(error, dict):
        return str(error)
    code = error.get("code") or error.get("type")
    return f"{code}: {error.get('message')}"


def check_ours(cell: Cell, facts: Facts) -> None:
    """Fail when Pointsman does not give what the table of outcomes wants."""
    want = wanted(cases()[cell.cause], IN_TABLE[cell.way])
    serves = {"first": FIRST, "second": SECOND_MODEL}.get(facts["served"], "none")
    found = {"serves": serves, "status": facts["status"]}
    if facts["error"]:
        found["code"] = facts["error"].partition(":")[0]
    if facts["headers"].get("x-pointsman-fallback-from"):
        found["fallback_from"] = facts["headers"]["x-pointsman-fallback-from"]
    found["charged"] = "estimate" if facts["is_estimate"] else facts["microusd"]
    asked = {key: want[key] for key in want if key in {*found, "code", "fallback_from"}}
    if found != asked:
        raise RuntimeError(f"{cell}: {found} is not {asked}")


def run_system(kind: type[Compared]) -> list[Facts]:
    """Run every cell of a system."""
    found = []
    for cell in cells():
        facts = run_cell(kind, cell)
        if kind is ComparedPointsman:
            check_ours(cell, facts)
        found.append(facts)
        shown = {key: facts[key] for key in ("status", "served", "calls", "microusd", "seconds")}
        print(f"{kind.name:10} {cell}: {shown} {facts['error'] or ''}"[:240], flush=True)
    return found


def conditions() -> Facts:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "timeout_s": TIMEOUT_S,
        "tokens": {"in": USAGE.input_tokens, "out": USAGE.output_tokens},
        "price_microusd_a_token": PRICE,
        "causes": {cause: cases()[cause]["note"] for cause in CAUSES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="these systems; writes nothing")
    only = parser.parse_args().only
    whole: Facts = {"conditions": conditions(), "systems": {}, "skipped": {}}
    for kind in COMPARED:
        if only and kind.name not in only:
            continue
        try:
            version = kind("named", Sides(0, 0)).prepare()
            found = {"version": version, "cells": run_system(kind)}
        except NotPossible as error:
            if kind is ComparedPointsman:
                raise
            whole["skipped"][kind.name] = str(error)
            print(f"{kind.name} is skipped: {error}", flush=True)
            continue
        whole["systems"][kind.name] = found
    if only:
        print(f"\n{table(whole)}\na trial: nothing was written")
        return
    RESULTS.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except NotPossible as error:
        sys.exit(f"bench-outcomes: {error}")
