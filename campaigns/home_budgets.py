"""Sixteen gateways on one home, one budget a round: `python -m campaigns.home_budgets [rounds]`.

Each round makes a key with a small budget and spends it through every gateway at once: whole
answers, streams, streams whose caller hangs up, fallbacks. Every tenth round kills a gateway that
has money set aside. Then nothing is under way, and what the budget says is left must be exactly
what was not spent. Writes `evidence/home_budgets.json`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
from campaigns.evidence import write
from tests.gateway.house import ADMIN_TOKEN, eventually, model, provider, upstream, write_home
from tests.servers import free_port

from pointsman.gateway import server as gateway
from pointsman.providers.messages import Usage
from pointsman.storage.policies.settings import Server
from pointsman.testing import says
from pointsman.testing.upstream_replies import Received, Step, fails

GATEWAYS = 16
CALLS = 3
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}


def serve(home: Path, port: int) -> None:
    """Serve until killed or told to stop; in a process of its own."""
    os.environ[gateway.ADMIN_TOKEN] = ADMIN_TOKEN
    server = Server(port=port)
    with (
        gateway.bind_socket(server) as listening,
        gateway.open_gateway(home, server=server) as (parts, application),
    ):
        print("serving", flush=True)
        gateway.serve(parts, application, listening)


def answer(request: Received) -> Sequence[Step]:
    """Fail where the text wants it and the model is the first; else answer and tell the usage."""
    text = json.dumps(request.json)
    if "fail" in text and request.json["model"] == "big":
        return fails(500, "server_error", "no")(request)
    return says("a word or two " * 20, usage=Usage(10, 400))(request)


class Gateways:
    """The processes of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.running: dict[int, subprocess.Popen[str]] = {}
        for _ in range(GATEWAYS):
            self.begin()
        for each in [*self.running]:
            self.wait(each)

    def begin(self) -> int:
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "campaigns.home_budgets",
            "serve",
            str(self.home),
            str(port),
        ]
        self.running[port] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        return port

    def wait(self, port: int) -> None:
        out = self.running[port].stdout
        assert out is not None
        assert out.readline().strip() == "serving"
        threading.Thread(target=out.read, daemon=True).start()

    def kill(self) -> None:
        """Kill one as it stands, and begin another."""
        port = random.choice([*self.running])
        self.running.pop(port).kill()
        self.wait(self.begin())

    def end(self) -> None:
        for each in self.running.values():
            each.terminate()
        for each in self.running.values():
            each.wait(60)


def ask(port: int, headers: dict[str, str], kind: str, seen: Counter[str]) -> None:
    text = "fail first" if kind == "fallback" else "hello"
    body = {
        "model": "auto",
        "max_tokens": 1000,
        "stream": kind in {"stream", "abort"},
        "messages": [{"role": "user", "content": text}],
    }
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    with (
        suppress(httpx.HTTPError),
        httpx.Client(timeout=60, trust_env=False) as client,
        client.stream("POST", url, json=body, headers=headers) as told,
    ):
        seen[f"{kind} {told.status_code}"] += 1
        for _ in told.iter_bytes():
            if kind == "abort":
                return


def run_round(gateways: Gateways, number: int, seen: Counter[str]) -> tuple[int, int]:
    """Spend a budget; return by how much it was passed, and how much money is left in error."""
    limit = random.randint(1_000, 12_000)
    ports = [*gateways.running]
    with httpx.Client(base_url=f"http://127.0.0.1:{ports[0]}", timeout=60, trust_env=False) as own:
        given = {"name": f"round {number}", "budgets": [{"limit_usd": limit / 1e6, "per": "day"}]}
        made = own.post("/api/keys", json=given, headers=ADMIN).json()
    headers = {"authorization": f"Bearer {made['key']}"}
    for port in ports:
        # A key made elsewhere is known within a quarter of a second.
        eventually(lambda port=port: _models(port, headers) == 200)
    kinds = ["whole", "stream", "abort", "fallback"]
    jobs = [(port, kinds[(at + i) % 4]) for at, port in enumerate(ports) for i in range(CALLS)]
    threads = [
        threading.Thread(target=ask, args=(port, headers, kind, seen)) for port, kind in jobs
    ]
    for each in threads:
        each.start()
    if number % 10 == 9:
        time.sleep(random.random() / 5)
        gateways.kill()
        seen["kills"] += 1
    for each in threads:
        each.join(120)
    return _check(gateways, made["id"], limit)


def _models(port: int, headers: dict[str, str]) -> int:
    url = f"http://127.0.0.1:{port}/v1/models"
    with suppress(httpx.HTTPError):
        return httpx.get(url, headers=headers, trust_env=False).status_code
    return 0


def _check(gateways: Gateways, key_id: str, limit: int) -> tuple[int, int]:
    """Wait until every call has ended, and compare what is left with what was spent."""
    found: dict[str, int] = {}

    def is_settled() -> bool:
        shown = set()
        for port in gateways.running:
            rows = _get(port, "/api/budgets")["budgets"]
            (row,) = [each for each in rows if each["key_id"] == key_id]
            shown.add(round(float(row["left_usd"]) * 1e6))
        spent = sum(
            each["amounts"][-1]
            for each in _get(port, "/api/cost")["by_key"]
            if each["what"] == key_id
        )
        found.update(spent=spent, left=min(shown), most=max(shown))
        return shown == {limit - spent}

    with suppress(AssertionError):
        eventually(is_settled, seconds=20)
    return max(0, found["spent"] - limit), abs(limit - found["spent"] - found["left"])


def _get(port: int, path: str) -> Any:
    url = f"http://127.0.0.1:{port}{path}"
    return httpx.get(url, headers=ADMIN, timeout=60, trust_env=False).json()


def main(rounds: int) -> int:
    random.seed(20261118)
    seen: Counter[str] = Counter()
    overshoot = wrong = 0
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        script = stack.enter_context(upstream())
        script.scripted._otherwise = answer
        models = {
            "schema_version": 1,
            "providers": {"open": provider("openai", script.url)},
            "models": {"open:big": model(price="2"), "open:small": model(price="1")},
        }
        routing = {"schema_version": 1, "global_default": ["open:big", "open:small"]}
        home = write_home(folder / "home", models=models, routing=routing,
                          pointsman={"telemetry": {"logs": "off"},
                                     "availability": {"probe_after_s": 1}})  # fmt: skip
        gateways = Gateways(home)
        stack.callback(gateways.end)
        for number in range(rounds):
            passed, left = run_round(gateways, number, seen)
            overshoot, wrong = overshoot + passed, wrong + left
            if passed or left:
                print(f"round {number}: passed by {passed}, {left} lost", flush=True)
    value: dict[str, object] = {
        "rounds": rounds,
        "processes": GATEWAYS,
        "calls": dict(sorted(seen.items())),
        "overshoot_microusd": overshoot,
        "left_other_than_what_was_not_spent_microusd": wrong,
        "seconds": round(time.monotonic() - began, 1),
    }
    write("home_budgets", value)
    print(json.dumps(value))
    return 1 if overshoot or wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
