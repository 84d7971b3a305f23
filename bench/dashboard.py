"""The dashboard over a long ledger: API pages, first paint, and a backtest with its progress.

Records so many turns with their calls (100,000 unless told), serves them, and asks as the pages do.
Writes bench/results/dashboard.json. First paint needs Chromium and Playwright; without them it is
left out and said so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
from msgspec import Raw
from tests.gateway.house import running, write_home

from pointsman.access.book import Spent
from pointsman.app import Pointsman
from pointsman.calls.call_end import END_FORM, CallEnd
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.record import Aside, Names, OutcomeRecord, outcome_draft
from pointsman.recording.placing import PlacedTurn
from pointsman.recording.ruling import decide_turn, policies_in_force
from pointsman.recording.waiting import BlockingWaiter
from pointsman.turns.facts import GivenFacts, GivenSession
from pointsman.version import VERSION

RESULTS = Path(__file__).parent / "results"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
MODELS = ["acme:large", "acme:medium", "acme:small", "home:tiny"]
ABLE = {"supports_tools": True, "max_context_tokens": 200_000}
RULES = [
    {"name": f"topic {n}", "when": {"message_matches": f"topic-{n}\\b"}, "use": MODELS[n % 4]}
    for n in range(20)
]
WAITING = 2_000


def write_bench_home(home: Path) -> Path:
    models = {
        name: {
            "location": "local" if name.startswith("home") else "cloud",
            "capabilities": ABLE,
            "price": {"input": str(n + 1), "output": str(4 * (n + 1))},
        }
        for n, name in enumerate(reversed(MODELS))
    }
    providers = {name: {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}
                 for name in ("acme", "home")}  # fmt: skip
    return write_home(
        home,
        pointsman={"telemetry": {"logs": "off"}, "retain": "full"},
        models={"schema_version": 1, "providers": providers, "models": models},
        routing={"schema_version": 1, "global_default": "acme:medium", "rules": RULES},
    )


def record_turns(home: Path, many: int) -> float:
    """Record so many turns, each with its call; give the seconds it took."""
    began = time.perf_counter()
    with Pointsman(home) as pointsman:
        in_force, waits = pointsman.in_force(), BlockingWaiter()
        policies, decision_recorder = policies_in_force(in_force), pointsman.decision_recorder
        for number in range(many):
            text = f"please look at topic-{number % 31} of case {number % 997}"
            session = GivenSession(workspace_path=f"/code/{number % 7}")
            facts = pointsman.given_facts(GivenFacts(text, session, estimated_input_tokens=300))
            about = PlacedTurn(
                pointsman.ids.new_id(), f"session-{number % 800}", pointsman.clock.now()
            )
            ruling = decide_turn(
                policies, pointsman.gather_placement(in_force, facts, about), facts
            )
            names = Names(pointsman.ids.new_id(), about.turn_id, about.asked_at)
            aside = Aside(80, about.turn_id, about.session_id, False, VERSION)  # noqa: FBT003
            decision_recorder.hand_in(names, in_force, ruling, aside, waits)
            end = _call_end(ruling.model, about, number)
            ended = Names(pointsman.ids.new_id(), names.id, about.asked_at)
            decision_recorder.recorder().append(
                outcome_draft(ended, OutcomeRecord("done", Raw(END_FORM.encode(end))))
            )
            if number % WAITING == WAITING - 1:
                waits.wait()
                waits = BlockingWaiter()
        waits.wait()
    return time.perf_counter() - began


def _call_end(model: str, about: PlacedTurn, number: int) -> CallEnd:
    spent = Spent(
        model, "", about.session_id, "", 300, 50 + number % 400, 0, 0,
        MicroUsd(100 + number % 9000), "bench", is_estimated=False, at=about.asked_at,
    )  # fmt: skip
    return CallEnd(
        model, "cloud", 1, is_stream=False, status=200, error_class="", attempts=1,
        stop_reason="end", elapsed_us=900_000, first_byte_us=200_000, spent=spent,
    )  # fmt: skip


PAGES = {
    "turns": "/api/turns?limit=100",
    "turns of a model": "/api/turns?limit=100&model=acme:large",
    "turns of a rule": "/api/turns?limit=100&rule=topic+3",
    "turns of a session": "/api/turns?limit=100&session=session-77",
    "turns of a workspace": "/api/turns?limit=100&workspace=/code/3",
    "turns of a text": "/api/turns?limit=100&text=please+look+at+topic-5+of+case+5",
    "dear turns of a rule": "/api/turns?limit=100&rule=topic+3&min_cost_usd=0.009",
    "turns that nobody had": "/api/turns?limit=100&min_cost_usd=900",
    "filters": "/api/filters",
    "overview": "/api/overview",
    "rules": "/api/rules",
    "why": "/api/turns/last",
    "record": "/api/turns/last/record",
    "sessions": "/api/sessions?limit=200",
    "session": "/api/sessions/session-77",
    "ledger": "/api/ledger",
}


def time_requests(client: httpx.Client, path: str, times: int) -> dict[str, float]:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        answer = client.get(path)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.text
    took.sort()
    return {
        "p50_ms": round(statistics.median(took), 2),
        "p99_ms": round(took[min(len(took) - 1, int(len(took) * 0.99))], 2),
    }


def deep(client: httpx.Client, times: int) -> dict[str, float]:
    """Walk back page by page: a page deep in the past costs as much as the first."""
    took, cursor = [], ""
    for _ in range(times):
        began = time.perf_counter()
        told = client.get(f"/api/turns?limit=100&cursor={cursor}").json()
        took.append((time.perf_counter() - began) * 1000)
        cursor = told["next"] or ""
    return {"p50_ms": round(statistics.median(took), 2), "p99_ms": round(max(took), 2)}


def caught_up(client: httpx.Client) -> dict[str, float]:
    """Have the rows made for the first time, as the page does: step by step."""
    began, steps = time.perf_counter(), 0
    while client.get("/api/filters").status_code == 200:
        steps += 1
        if client.get("/api/turns?limit=1").json()["behind"] == 0:
            break
    return {"seconds": round(time.perf_counter() - began, 2), "steps": steps}


def time_backtest(client: httpx.Client) -> dict[str, float]:
    policy = {"schema_version": 1, "global_default": "acme:small", "rules": RULES[:10]}
    headers = {"accept": "text/event-stream"}
    began, told = time.perf_counter(), 0
    body = {"policy": json.dumps(policy)}
    with client.stream("POST", "/api/backtest", json=body, headers=headers) as answer:
        for line in answer.iter_lines():
            told += line == "event: progress"
            if line.startswith("data: ") and '"changed_count"' in line:
                result = json.loads(line[6:])
    seconds = round(time.perf_counter() - began, 2)
    return {"seconds": seconds, "progress_events": told, "turns": result["turns"],
            "changed": result["changed_count"]}  # fmt: skip


@contextmanager
def browsing() -> Iterator[Callable[[str], dict[str, float]] | None]:
    path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as running_playwright:
        browser = running_playwright.chromium.launch(executable_path=path, args=FLAGS)

        def time_page(url: str) -> dict[str, float]:
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            page = context.new_page()
            began = time.perf_counter()
            page.goto(url)
            page.locator("tr[data-row]").first.wait_for()
            rows = (time.perf_counter() - began) * 1000
            first = page.evaluate(
                "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            context.close()
            return {"first_paint_ms": round(first, 1), "rows_shown_ms": round(rows, 1)}

        yield time_page
        browser.close()


def measure_home(home: Path, times: int) -> dict[str, Any]:
    with ExitStack() as stack:
        live = stack.enter_context(running(home))
        client = stack.enter_context(httpx.Client(base_url=live.url, timeout=600, trust_env=False))
        found: dict[str, Any] = {"rows made for the first time": caught_up(client)}
        found["pages"] = {name: time_requests(client, path, times) for name, path in PAGES.items()}
        found["pages"]["turns, page by page"] = deep(client, times)
        time_page = stack.enter_context(browsing())
        if time_page is not None:
            runs = [time_page(f"{live.url}/#/turns") for _ in range(7)]
            found["turns page"] = {
                name: round(statistics.median(each[name] for each in runs), 1) for name in runs[0]
            }
        found["backtest"] = time_backtest(client)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--home", type=Path, help="keep the ledger here, and use it if it is there")
    given = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        home = given.home or Path(folder) / "home"
        seconds = 0.0
        if not (home / "ledger.db").exists():
            seconds = record_turns(write_bench_home(home), given.turns)
        found = {
            "conditions": {
                "turns": given.turns, "cpus": os.cpu_count(), "machine": platform.machine(),
                "python": platform.python_version(),
                "ledger_bytes": (home / "ledger.db").stat().st_size,
                "recorded_in_s": round(seconds, 1), "times": given.times,
                "load_average_before": round(os.getloadavg()[0], 1),
            },
            **measure_home(home, given.times),
        }  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "dashboard.json").write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
