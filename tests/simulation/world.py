"""One simulated life: a gateway on a simulated disk, providers, clients, and their troubles."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import uvloop
import yaml
from msgspec import Struct
from msgspec.structs import replace
from tests.simulation.ambient import AMBIENT, EPOCH_NS, begin_life
from tests.simulation.client import Answer, ask
from tests.simulation.disk import LivingDisk, SimVFS, close_as_sqlite
from tests.simulation.network import Network, SimLoop, SimSocket
from tests.simulation.providers import ITEMS, PORTS, Provider, Seen
from tests.simulation.script import PATHS, PROVIDERS, Action, Script
from tests.simulation.threads import SCHEDULER, Deadlock, Scheduler, SimThread

from pointsman.access.caps import Owners, caps_of
from pointsman.gateway import server as gateway
from pointsman.gateway.telemetry.logs import Log
from pointsman.operations.starter import starter_text
from pointsman.storage.policies.settings import read_settings
from pointsman.storage.sqlite.database import SqliteConnection
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import upstream as _upstream  # noqa: F401 - loaded before the life

PORT = 7000
ADMIN_TOKEN = "pa_simulated-admin-token-of-the-lives"
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}
LEDGER = ("ledger.db", "ledger.db-wal")
TIERS = {"fast": "open:small", "balanced": "claude:opus", "deep": "open:big"}
MOST_TASKS = 12
"""A gateway at rest has fewer tasks than this: those that keep house."""

ABLE = {
    "supports_images": True, "supports_tools": True, "supports_structured_output": True,
    "supports_thinking": True, "max_context_tokens": 200_000, "max_output_tokens": 4096,
}  # fmt: skip


class Turn(Struct):
    """A call of a client, and what came of it."""

    action: Action
    marker: int
    process: str
    answer: Answer
    ended_in: str = ""
    is_follow: bool = False
    first: Turn | None = None
    began_ns: int = 0
    ended_ns: int = 0
    content_before: str = ""
    content_after: str = ""


class Finding(Exception):
    """A promise was broken."""


class World:
    """Everything in a life but the product."""

    def __init__(self, script: Script, folder: Path) -> None:
        self.script = script
        seed = script["seed"]
        begin_life(seed)
        self.settings = script["settings"]
        self.scheduler = SCHEDULER.current = Scheduler(seed)
        self.scheduler.share = self.settings["yields"]
        self.scheduler.adopt()
        self.scheduler.on_error = self._on_thread_error
        self.network = Network(seed)
        self.network.pieces = self.settings["pieces"]
        self.loop = SimLoop(self.network, "world")
        self.disk = LivingDisk(seed)
        self.disk.slowest_s = self.settings["slow_s"]
        self.vfs = SimVFS(self.disk)
        self.folder = folder
        self.home = folder / "home"
        self.findings: list[str] = []
        self.turns: list[Turn] = []
        self.seen: list[Seen] = []
        self.acknowledged: dict[str, str] = {}
        self.process = ""
        self.processes = 0
        self.killed: set[str] = set()
        self.kept: list[Any] = []
        self.live: Any = None
        self.serving: Any = None
        self.thread: SimThread | None = None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.counts: dict[str, int] = {}
        self._faults: dict[int, list[str]] = {}
        self._tools: set[int] = set()
        self._results: dict[str, Turn] = {}
        self.providers = {name: Provider(name, self) for name in PROVIDERS}
        self._edits = 0
        self._content = ""
        self.erased: list[tuple[str, int]] = []
        self.stopped: set[str] = set()
        self.starts: list[tuple[int, int]] = []
        self.budget_cost: tuple[int, int] | None = None
        self.metrics_text: str | None = None
        self.entries_before: set[str] = set()
        self.boundaries: list[int] = []
        Log.unforeseen = lambda _log, error: self.find(told_places(error))  # type: ignore[method-assign]
        os.environ[gateway.ADMIN_TOKEN] = ADMIN_TOKEN
        SqliteConnection.close = close_as_sqlite  # type: ignore[method-assign]
        os.environ["SIM_KEY"] = "sk-simulated-provider-key"
        uvloop.new_event_loop = lambda: SimLoop(self.network, self.process)  # type: ignore[assignment]

    # What providers ask.

    def next_fault(self, marker: int) -> str:
        left = self._faults.get(marker)
        return left.pop(0) if left else ""

    def wants_tool(self, marker: int) -> bool:
        return marker in self._tools

    # Findings.

    def find(self, what: str) -> None:
        if what not in self.findings:
            self.findings.append(what)

    def had(self, *kinds: str) -> bool:
        return any(self.counts.get(each) for each in kinds)

    def is_starting_at(self, began_ns: int, ended_ns: int) -> bool:
        """Tell whether a gateway was starting in this time."""
        return any(first <= ended_ns and began_ns <= last for first, last in self.starts)

    def refused_connections(self) -> int:
        return self.network.refused

    def content(self) -> str:
        """Return a digest of the turns' policy in force: a broken file leaves the one before."""
        names = ("models", "routing")
        texts = [(self.home / f"{name}.yaml").read_bytes() for name in names]
        if texts[1] != b"{broken":
            self._content = hashlib.sha256(b"".join(texts)).hexdigest()
        return f"{self._edits}:{self._content}"

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _on_thread_error(self, thread: SimThread, error: BaseException) -> None:
        import traceback

        told = "".join(traceback.format_exception(error)[-3:])
        self.find(f"a thread died: {thread.name}: {told}")

    # The policy.

    def write_policy(self, **changes: Any) -> None:
        self.home.mkdir(exist_ok=True, mode=0o700)
        for name, value in self.policy(**changes).items():
            target = self.home / f"{name}.yaml"
            target.write_text(json.dumps(value))
            target.chmod(0o600)
            self._stamp(target)
        self._edits += 1
        self.content()

    def _stamp(self, path: Path) -> None:
        """Give a file the simulated time: two edits of one real moment must be told apart."""
        at_ns = EPOCH_NS + self.scheduler.now_ns
        os.utime(path, ns=(at_ns, at_ns))

    def policy(
        self, default: str = "open", keeps: str = "email", alias: str = ""
    ) -> dict[str, Any]:
        def model(location: str, price: str, **more: object) -> dict[str, object]:
            cost = {"input": price, "output": price, "cached_input": "0.1", "cache_write": "1.25"}
            return {"location": location, "capabilities": ABLE, "price": cost, **more}

        def url(name: str) -> str:
            return f"http://127.0.0.1:{PORTS[name]}"

        key = {"api_key": {"env": "SIM_KEY"}}
        speaks = {"speaks": ["chat", "responses"]}
        models = {
            "schema_version": 1,
            "providers": {
                "open": {"kind": "openai", "base_url": f"{url('open')}/v1", **speaks, **key},
                "claude": {"kind": "anthropic", "base_url": url("claude"), **key},
                "house": {"kind": "openai", "base_url": f"{url('house')}/v1", **speaks},
            },
            "models": {
                "open:big": model(
                    "cloud", "1", tier="deep", aliases=["big", *([alias] if alias else [])]
                ),
                "open:small": model("cloud", "0.1", tier="fast"),
                "claude:opus": model("cloud", "5", tier="deep"),
                "house:llama": model("local", "0", tier="fast"),
            },
        }
        order = ["open:big", "claude:opus"] if default == "open" else ["claude:opus", "open:big"]
        routing: dict[str, Any] = {
            "schema_version": 1,
            "global_default": [*order, "house:llama"],
            "tiers": TIERS,
            "budgets": [{"name": "day", "limit_usd": self.settings["limit_usd"]}],
        }
        if self.settings["shadow"]:
            routing["pattern"] = {"shadow": self.settings["shadow"]}
        settings: dict[str, Any] = {
            "limits": {"idle_s": 5, "head_s": 8, "total_s": 60, "connect_s": 3},
            "availability": {"probe_after_s": 5},
            "telemetry": {"logs": "off"},
            "fallback": {"for_named_models": self.settings["fallback_named"]},
        }
        if self.settings["judged"]:
            settings["judge"] = {"model": "house:llama", "share": self.settings["judged"]}
        table = yaml.safe_load(starter_text("placement.yaml"))
        table["sensitive"] = {"stays_local": [keeps]}
        return {"models": models, "routing": routing, "placement": table, "pointsman": settings}

    # The gateway's process.

    def begin_process(self) -> None:
        self.processes += 1
        self.entries_before = self._entries_now()
        self.boundaries.append(len(self.entries_before))
        self._began_ns = self.scheduler.now_ns
        name = self.process = f"gateway-{self.processes}"
        started: list[Any] = []

        def run() -> None:
            settings = read_settings((self.home / "pointsman.yaml").read_bytes(), "pointsman.yaml")
            server = replace(settings.server, port=PORT)
            with gateway.open_gateway(self.home, server=server) as (parts, application):
                serving = gateway.serving(parts, application)
                started[:] = [parts, serving]
                self.kept += [parts, serving]
                serving.run(sockets=[SimSocket(PORT)])  # type: ignore[list-item]

        thread = SimThread(target=run, name="main")
        thread.process = name
        self.thread = thread
        thread.start()
        self._started = started

    def _entries_now(self) -> set[str]:
        path = self.home / "ledger.db"
        if not path.exists():
            return set()
        with closing(LedgerReader(path)) as reader:
            return {each.entry.id for each in reader.of_kind("")}

    async def until_started(self) -> None:
        for _ in range(20_000):
            if self._started and self._started[1].started:
                self.live, self.serving = self._started
                self.starts.append((self._began_ns, self.scheduler.now_ns))
                return
            if self.thread is None or not self.thread.is_alive():
                break
            await asyncio.sleep(0.005)
        error = None if self.thread is None else self.thread.error
        raise Finding(f"the gateway did not start: {error!r}")

    async def stop_process(self) -> None:
        """Stop it as an operator does."""
        assert self.thread is not None
        self.stopped.add(self.process)
        self._began_ns = self.scheduler.now_ns
        self.serving.should_exit = True
        for _ in range(20_000):
            if not self.thread.is_alive():
                break
            await asyncio.sleep(0.01)
        else:
            raise Finding("the gateway did not stop within 200 s")
        own = [each for each in self.scheduler.threads if each.process == self.process]
        if own:
            await asyncio.sleep(1)
            own = [each for each in self.scheduler.threads if each.process == self.process]
        if own:
            self.find(f"threads outlived the gateway: {[each.name for each in own]}")
        self.network.tidy()
        left = self.network.open_of(self.process)
        if left:
            self.find(f"{left} connections outlived the gateway")

    def kill_process(self, mode: Any = None) -> None:
        """End it where it stands; with a mode, the power goes, too."""
        self.killed.add(self.process)
        self.scheduler.kill(self.process)
        self.network.drop_process(self.process)
        dead = self.folder / f"dead-{self.processes}"
        self.home.rename(dead)
        shutil.copytree(dead, self.home, ignore=shutil.ignore_patterns("*-shm"))
        self.disk.is_full = self.disk.syncs_fail = False
        if mode is None:
            return
        for name, data in self.disk.cut_power(mode).items():
            path = Path(name)
            if name.endswith("-shm") or not path.parent.exists():
                continue
            if data is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(data)

    # Clients.

    def start(self, work: Any) -> asyncio.Task[Any]:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.find(f"the simulator failed: {task.exception()!r}")

    def check_head(self, process: str, answer: Answer) -> None:
        """Look, the moment a byte of an answer is out, whether its decision is durable."""
        decision = answer.headers.get("x-pointsman-decision", "")
        if not decision or answer.status != 200:
            return
        self.acknowledged[decision] = process
        if process in self.killed:
            return
        names = tuple(f"{self.home}/{name}" for name in LEDGER)
        if not self.disk.holds_durably(decision.encode(), names):
            self.find("an answer was out before its decision was durable")

    async def do_turn(self, action: Action) -> Turn:
        marker = action["n"]
        process = self.process
        text = f"marker-{marker}-end please look at this " + "word " * action.get("words", 0)
        if "item" in action:
            text += f" write to {ITEMS[action['item']]}"
        self._faults[marker] = [*action.get("faults", ())]
        if action.get("tools"):
            self._tools.add(marker)
        path = PATHS[action["path"]]
        body = request_body(path, action, [("user", text)])
        headers = {"x-session-id": action["session"]} if "session" in action else {}
        began, content = self.scheduler.now_ns, self.content()
        answer = await ask(
            PORT, "POST", path, body, headers,
            on_head=lambda told: self.check_head(process, told),
            cancel_s=action["cancel_ms"] / 1000 if "cancel_ms" in action else None,
        )  # fmt: skip
        turn = Turn(action, marker, process, answer, self.process)
        turn.began_ns, turn.ended_ns = began, self.scheduler.now_ns
        turn.content_before, turn.content_after = content, self.content()
        self.turns.append(turn)
        self.count(f"status {answer.status}" if not answer.error else answer.error)
        return turn

    async def do_turns(self, action: Action) -> None:
        """Ask, and go on after a tool where one is wanted."""
        turn = await self.do_turn(action)
        call = find_tool_call(PATHS[action["path"]], turn.answer, is_stream=action["stream"])
        if call is None or turn.answer.error or "session" not in action:
            return
        marker = action["n"]
        result = f"tool-result-{marker} marker-{marker}-end"
        if action.get("result_item"):
            result += f" {ITEMS['email']}"
        path, process, began = PATHS[action["path"]], self.process, self.scheduler.now_ns
        body = result_body(path, action, call, f"marker-{marker}-end please look at this ", result)
        answer = await ask(
            PORT, "POST", path, body, {"x-session-id": action["session"]},
            on_head=lambda told: self.check_head(process, told),
        )  # fmt: skip
        then = Turn(action, marker, process, answer, self.process, is_follow=True, first=turn)
        then.began_ns, then.ended_ns = began, self.scheduler.now_ns
        self.turns.append(then)
        self.count("went on after a tool")

    async def call(self, method: str, path: str, body: object = None) -> Answer:
        return await ask(PORT, method, path, body, ADMIN)

    # What happens.

    async def act(self, action: Action) -> None:
        self.count(action["do"])
        do: Callable[[Action], Any] = getattr(self, "_do_" + action["do"].replace(" ", "_"))
        await do(action)

    async def _do_turn(self, action: Action) -> None:
        self.start(self.do_turns(action))

    async def _do_follow(self, action: Action) -> None:
        self.start(self.do_turns({**action, "session": "followed"}))

    async def _do_burst(self, action: Action) -> None:
        """Ask for several plain turns at once, and again when they are answered."""
        for number in range(2 * action["turns"]):
            if number == action["turns"]:
                await asyncio.sleep(0.03)
            plain = {"do": "turn", "path": action["path"], "stream": False}
            own: Action = {"session": action["session"]} if "session" in action else {}
            if number == 0 and action.get("taints"):
                own["item"] = "email"
            if number % 3 == 1 and "cancel_ms" in action:
                own["cancel_ms"] = action["cancel_ms"]
            self.start(self.do_turn({**plain, **own, "n": action["n"] * 1_000 + number}))

    async def _do_outage(self, action: Action) -> None:
        provider = self.providers[action["provider"]]
        provider.is_out = True
        self.loop.call_later(action["seconds"], setattr, provider, "is_out", False)

    async def _do_cut_network(self, action: Action) -> None:
        port = PORTS[action["provider"]]
        self.network.cut.add(port)
        self.loop.call_later(action["seconds"], self.network.cut.discard, port)

    async def _do_edit(self, action: Action) -> None:
        edit = action["edit"]
        if edit == "broken":
            (self.home / "routing.yaml").write_text("{broken")
            self._stamp(self.home / "routing.yaml")
            self._content = ""  # which content was good last depends on what was looked at
            self._edits += 1
            self.count("broken policy")
            return
        changes: dict[str, dict[str, str]] = {
            "default-claude": {"default": "claude"},
            "default-open": {"default": "open"},
            "keep-phone": {"keeps": "phone"},
            "keep-email": {"keeps": "email"},
            "alias": {"alias": f"alias-{action['n']}"},
        }
        self.write_policy(**changes[edit])

    async def _do_kill(self, action: Action) -> None:
        self.kill_process()
        await self._begin_again()

    async def _do_power(self, action: Action) -> None:
        self.kill_process(action["mode"])
        await self._begin_again()

    async def _do_restart(self, action: Action) -> None:
        await self.stop_process()
        await self._begin_again()

    async def _begin_again(self) -> None:
        self.write_policy()
        self.begin_process()
        await self.until_started()

    async def _do_full_disk(self, action: Action) -> None:
        self.disk.is_full, self.disk.troubled = True, action.get("file", "")
        await asyncio.sleep(action["seconds"])
        self.disk.is_full = False

    async def _do_failing_sync(self, action: Action) -> None:
        self.disk.syncs_fail, self.disk.troubled = True, action.get("file", "")
        await asyncio.sleep(action["seconds"])
        self.disk.syncs_fail = False

    async def _do_slow_disk(self, action: Action) -> None:
        self.disk.slowest_s = action["sync_s"]

    async def _do_clock(self, action: Action) -> None:
        AMBIENT.wall_ns += int(action["jump_s"] * 1e9)

    async def _do_rest(self, action: Action) -> None:
        await asyncio.sleep(action["seconds"])

    async def _do_erase(self, action: Action) -> None:
        self.start(self._erase(action["session"]))

    async def _erase(self, session: str) -> None:
        began = self.scheduler.now_ns
        answer = await self.call("POST", "/api/erase", {"what": "session", "value": session})
        self.count(f"erase {answer.status}")
        if answer.status == 200:
            self.erased.append((session, began))

    async def _do_feedback(self, action: Action) -> None:
        if self.turns and not self.turns[-1].answer.error:
            turn = self.turns[-1].answer.headers.get("x-pointsman-turn", "")
            body = {"turn": turn, "verdict": "accepted"}
            self.start(self.call("POST", "/api/feedback", body))

    async def _do_look(self, action: Action) -> None:
        paths = ("/api/turns", "/api/cost", "/api/decisions", "/metrics", "/health/readiness")
        self.start(self.call("GET", paths[action["n"] % len(paths)]))

    async def _do_key(self, action: Action) -> None:
        """A policy is shown, tested and left as it is."""
        self.start(self.call("POST", "/api/route/preview", {"message": "hello", "model": "auto"}))

    # A life.

    async def live_through(self) -> None:
        for provider in self.providers.values():
            await provider.begin()
        self.write_policy()
        self.begin_process()
        await self.until_started()
        for action in self.script["actions"]:
            await asyncio.sleep(action["wait_ms"] / 1000)
            await self.act(action)
        await self.heal()

    async def heal(self) -> None:
        """Let all trouble end, and wait until everything under way has ended."""
        self.disk.is_full = self.disk.syncs_fail = False
        self.disk.slowest_s = 0.001
        self.network.cut.clear()
        for provider in self.providers.values():
            provider.is_out = False
        self.write_policy()
        for _ in range(1_000):
            if not self.tasks:
                break
            await asyncio.sleep(1)
        else:
            self.find(f"{len(self.tasks)} calls were never answered")
        await asyncio.sleep(70)
        await self._check_health()

    async def _check_health(self) -> None:
        """A healed life serves again."""
        number = 1_000_000
        for model in ("house:llama", "auto"):
            number += 1
            action = {"do": "turn", "n": number, "path": 0, "stream": False, "model": model}
            turn = await self.do_turn(action)
            is_poor = turn.answer.status == 402
            if turn.answer.status != 200 and not is_poor:
                told = turn.answer.body[:300]
                self.find(f"a healed gateway refused {model}: {turn.answer.status} {told!r}")
        await asyncio.sleep(70)
        self._look_inside()
        answer = await self.call("GET", "/metrics")
        self.metrics_text = answer.body.decode() if answer.status == 200 else None
        if answer.status != 200:
            self.find(f"no metrics: {answer.status} {answer.error}")

    def _look_inside(self) -> None:
        """Read what the gateway says of itself when nothing is under way."""
        parts = self.live
        pointsman, budgets = parts.pointsman, parts.budgets
        now = pointsman.clock.now()
        if parts.metrics.in_flight:
            self.find(f"{parts.metrics.in_flight} calls are said to be under way for ever")
        caps = caps_of(pointsman.in_force().ready.policy.budgets)
        standings = budgets.standings(Owners(), caps, now)
        if standings:
            today = budgets.amount_spent(Owners(), "all", "day", now)
            self.budget_cost = (today, standings[0].left_microusd)
        own = [task.get_name() for task in asyncio.all_tasks(self.serving.loop) if not task.done()]
        if len(own) > MOST_TASKS:
            self.find(f"{len(own)} tasks are left in the gateway: {sorted(own)}")
        upstream = sum(self.network.open_of(self.process, port) for port in PORTS.values())
        if upstream:
            self.find(f"{upstream} connections to providers are held for ever")


def told_places(error: BaseException) -> str:
    """Say where an error that the product did not foresee comes from."""
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{Path(code.co_filename).name}:{code.co_name}")
        trace = trace.tb_next
    return f"unforeseen {type(error).__name__}: {error}: {' '.join(places[-14:])}"


def request_body(path: str, action: Action, said: list[tuple[str, str]]) -> dict[str, Any]:
    """Write a request in the words of its path."""
    body: dict[str, Any] = {"model": action.get("model", "auto"), "stream": action["stream"]}
    messages = [{"role": role, "content": text} for role, text in said]
    schema = {"type": "object"}
    if path == "/v1/responses":
        body |= {"input": messages, "max_output_tokens": 300}
        tools = [{"type": "function", "name": "look", "parameters": schema}]
    elif path == "/v1/messages":
        body |= {"messages": messages, "max_tokens": 300}
        tools = [{"name": "look", "input_schema": schema}]
    else:
        body |= {"messages": messages, "max_tokens": 300}
        tools = [{"type": "function", "function": {"name": "look", "parameters": schema}}]
    if action.get("tools"):
        body["tools"] = tools
    return body


def find_tool_call(path: str, answer: Answer, *, is_stream: bool) -> str | None:
    """Return the id of the tool call that an answer asks for."""
    value = answer.json
    if is_stream or answer.status != 200 or not isinstance(value, dict):
        return None
    if path == "/v1/chat/completions":
        made = value["choices"][0]["message"].get("tool_calls") or []
        return made[0]["id"] if made else None
    parts = value.get("output") if path == "/v1/responses" else value.get("content")
    for part in parts or []:
        if part.get("type") in ("function_call", "tool_use"):
            return str(part.get("call_id") or part.get("id"))
    return None


def result_body(path: str, action: Action, call: str, text: str, result: str) -> dict[str, Any]:
    """Write the request that brings a tool's result."""
    body = request_body(path, action, [("user", text)])
    if path == "/v1/responses":
        body["input"] += [
            {"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": call, "output": result},
        ]
    elif path == "/v1/messages":
        used = {"type": "tool_use", "id": call, "name": "look", "input": {}}
        told = {"type": "tool_result", "tool_use_id": call, "content": result}
        body["messages"] += [
            {"role": "assistant", "content": [used]},
            {"role": "user", "content": [told]},
        ]
    else:
        function = {"name": "look", "arguments": "{}"}
        made = {"id": call, "type": "function", "function": function}
        body["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call, "content": result},
        ]
    return body


def run_life(script: Script, folder: Path, check: Callable[[World], None]) -> World:
    """Live a life, and check what it left."""
    world = World(script, folder)
    try:
        world.loop.run_until_complete(world.live_through())
        world.loop.run_until_complete(world.stop_process())
        check(world)
    except Finding as finding:
        world.find(str(finding))
    except Deadlock as deadlock:
        world.find(f"deadlock: {deadlock}")
    except apsw.Error as error:
        world.find(f"the store cannot be read: {error!r}")
    with contextlib.suppress(KeyError):
        os.environ.pop(gateway.ADMIN_TOKEN)
    return world
