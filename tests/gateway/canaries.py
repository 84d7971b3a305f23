"""Marked values in every place that takes a secret or a text, and a look for them everywhere.

Secrets must be in nothing that the gateway writes or says. Texts may stand in the stores of text
under `retain: full` alone, and never in a log line, a metric or an error of ours.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2 as httpx
from tests.gateway.fault_cells import CELLS, HEAVY, Cell, placed
from tests.gateway.house import Upstream, eventually, model, upstream, write_home

from pointsman.testing import fails, says
from pointsman.testing.upstream_replies import Received, Step

SECRETS: Final = ("env", "env-two", "file", "header", "query", "admin", "caller", "basic", "key",
                  "cookie", "written")  # fmt: skip
TEXTS: Final = ("message", "system", "history", "arguments", "result", "tool", "answer", "comment",
                "memory", "goal", "job", "context")  # fmt: skip
SLOTS: Final = ("env", "env-two", "file", "header", "query")
KINDS: Final = (*SECRETS, *TEXTS)
RETAINS: Final = ("full", "redacted", "digest")
AT_ONCE: Final = 16
SLICE: Final = 12
STORES_OF_TEXT: Final = ("content.db", "conversations.db")
IN_THE_RECORD: Final = {"context": "ledger.db"}
"""What a workflow decision looked at is among its facts, whatever `retain` says: see limits.md."""
LIMITS: Final = {"connect_s": 2, "head_s": 1, "idle_s": 1, "total_s": 2}
DECISION: Final = """
decision:
  id: gate
  type: binary
  input: "{{ note }}"
  cases: [{condition: "input == 'x'", target: ship}, {condition: "input != 'x'", target: rework}]
  default: {target: rework}
"""


def canary(kind: str) -> str:
    """Return the marked value of a kind; past 24 characters, so that redaction takes it."""
    return f"canary-{hashlib.sha256(kind.encode()).hexdigest()[:32]}"


def shapes(secret: str) -> Iterator[bytes]:
    """Give a value as it could be written: plain, reversed, in hex, base64 and an address."""
    plain = secret.encode()
    yield from (plain, plain[::-1], plain.hex().encode(), quote(secret).encode())
    yield base64.b64encode(plain).rstrip(b"=")[:-2]
    tail = secret[-SLICE:].encode()
    yield from (tail, tail[::-1])


def found_in(data: bytes, values: Mapping[str, str]) -> list[str]:
    """Return the kinds of the values that stand in some bytes."""
    return [kind for kind, value in values.items() if any(s in data for s in shapes(value))]


@dataclass
class Tally:
    """What was looked through, and where a marked value was found that must not be there."""

    answers: Counter[int] = field(default_factory=Counter)
    cells: int = 0
    files: int = 0
    log_bytes: int = 0
    faults: list[str] = field(default_factory=list)


class Served:
    """A gateway in a process of its own, with everything it says."""

    def __init__(self, home: Path, log: Path) -> None:
        self._log = log.open("wb")
        environment = {
            **os.environ,
            "POINTSMAN_ADMIN_TOKEN": canary("admin"),
            "CANARY_KEY": canary("env"),
            "CANARY_KEY_TWO": canary("env-two"),
        }
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("pointsman")), "serve", "--port", "0",
             "--home", str(home)],
            stdout=self._log, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
        self.url = eventually(lambda: self._address(log), seconds=60)

    def _address(self, log: Path) -> str:
        assert self.process.poll() is None, log.read_text()
        words = log.read_text().split()
        return next((each for each in words if each.startswith("http://127.0.0.1:")), "")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


def echoes(request: Received) -> Sequence[Step]:
    """Answer a bad key by showing it."""
    shown = f"{request.header('authorization')} {request.header('x-api-key')}"
    return fails(401, "authentication_error", f"incorrect API key provided: {shown}")(request)


def reply(request: Received) -> Sequence[Step]:
    """Answer by the provider that the address names: well, with the key, or with a cell's fault."""
    where = request.path.split("/")[1]
    if where.startswith("c"):
        return placed(CELLS[int(where[1:])], request)
    return echoes(request) if where == "echo" else says(f"fine {canary('answer')}")(request)


def cells(every: int = 1) -> list[Cell]:
    """Return the cells of the faults of providers, or each so-manieth."""
    return [each for each in CELLS if each.fault not in HEAVY][::every]


def _provider(kind: str, url: str) -> dict[str, object]:
    keys = [{"env": "CANARY_KEY"}, {"env": "CANARY_KEY_TWO"}]
    key = {"file": "provider.key"} if kind == "anthropic" else keys[: 1 if "/c" in url else 2]
    more = {"headers": {"x-extra": canary("header")}, "query": {"code": canary("query")}}
    return {"kind": kind, "base_url": url, "api_key": key, **more}


def write_canaries(home: Path, retain: str, url: str, tried: Sequence[Cell]) -> None:
    """Write a home with a marked value in every slot, and a provider for each cell."""
    kinds = {"chat": "openai", "messages": "anthropic"}
    providers = {f"c{each.number}": _provider(kinds[each.dialect], f"{url}/c{each.number}")
                 for each in tried}  # fmt: skip
    providers |= {
        "open": _provider("openai", f"{url}/good"),
        "claude": _provider("anthropic", f"{url}/good"),
        "echo": _provider("openai", f"{url}/echo"),
        "down": _provider("openai", "http://127.0.0.1:9"),
    }
    # Short ones for the cells: a file has at most 256 KiB.
    price = {"input": 1, "output": 1}
    models: dict[str, object] = {
        f"{name}:m": {"location": "cloud", "price": price} if name[1:].isdigit() else model()
        for name in providers
    }
    write_home(
        home,
        models={"schema_version": 1, "providers": providers, "models": models},
        routing={"schema_version": 1, "global_default": "open:m"},
        pointsman={"retain": retain, "limits": LIMITS},
    )
    (home / "provider.key").write_text(canary("file"))
    (home / "provider.key").chmod(0o600)
    (home / "decisions").mkdir()
    (home / "decisions" / "gate.yaml").write_text(DECISION)


def chat_body(name: str, *, is_stream: bool = False) -> dict[str, Any]:
    """Return a chat request with a marked text wherever one can stand."""
    asked = {"name": "look", "arguments": json.dumps({"at": canary("arguments")})}
    call = {"id": "call_1", "type": "function", "function": asked}
    function = {"name": "look", "description": canary("tool"), "parameters": {"type": "object"}}
    return {
        "model": name,
        "max_tokens": 50,
        "stream": is_stream,
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": canary("system")},
            {"role": "user", "content": canary("history")},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": canary("result")},
            {"role": "user", "content": canary("message")},
        ],
    }


def messages_body(name: str, *, is_stream: bool = False) -> dict[str, Any]:
    """Return the same request as Anthropic writes it."""
    use = {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": canary("arguments")}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": canary("result")}
    schema = {"name": "look", "description": canary("tool"), "input_schema": {"type": "object"}}
    return {
        "model": name,
        "max_tokens": 50,
        "stream": is_stream,
        "system": canary("system"),
        "tools": [schema],
        "messages": [
            {"role": "user", "content": canary("history")},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result, {"type": "text", "text": canary("message")}]},
        ],
    }


def responses_body(name: str, *, is_stream: bool = False) -> dict[str, Any]:
    """Return the same request as the Responses API has it."""
    call = {"type": "function_call", "call_id": "call_1", "name": "look",
            "arguments": json.dumps({"at": canary("arguments")})}  # fmt: skip
    result = {"type": "function_call_output", "call_id": "call_1", "output": canary("result")}
    user = [{"role": "user", "content": canary(kind)} for kind in ("history", "message")]
    tool = {"type": "function", "name": "look", "description": canary("tool"),
            "parameters": {"type": "object"}}  # fmt: skip
    asked = [user[0], call, result, user[1]]
    given = {"instructions": canary("system"), "input": asked, "tools": [tool]}
    return {"model": name, "stream": is_stream, **given}


READ: Final = ("/api/turns", "/metrics", "/api/cost", "/api/keys", "/api/providers", "/v1/models",
               "/health/readiness", "/api/policies/models.yaml")  # fmt: skip
ASKED: Final = ("/api/place", "/api/feedback", "/api/route/preview", "/router/decide",
                "/brainstate/tick", "/api/backtest", "/api/decisions/gate/evaluate")  # fmt: skip

BODIES: Final = {
    "/v1/chat/completions": chat_body,
    "/v1/messages": messages_body,
    "/v1/responses": responses_body,
}


class Attack:
    """Calls of one gateway, each answer looked through."""

    def __init__(self, client: httpx.Client, tally: Tally, retain: str) -> None:
        self._client = client
        self._tally = tally
        self._retain = retain
        self.secrets = {kind: canary(kind) for kind in SECRETS}
        self.admin = {"authorization": f"Bearer {canary('admin')}"}

    def key(self, **terms: object) -> dict[str, str]:
        """Make a key; its secret half counts as one more canary."""
        told = self._client.post("/api/keys", json={"name": "k", **terms}, headers=self.admin)
        assert told.status_code == 201, told.text
        token = told.json()["key"]
        self.secrets[f"virtual {len(self.secrets)}"] = token.rpartition("_")[2]
        return {"authorization": f"Bearer {token}"}

    def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Call, and note what an answer tells that it must not."""
        content = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        asked = self._client.build_request(
            method, path, content=content, headers=dict(headers or {})
        )
        told = self._client.send(asked)
        seen = str(told.headers).encode() + told.content
        where = f"{self._retain}: {method} {path} answers {told.status_code}"
        self._tally.answers[told.status_code] += 1
        self._tally.faults += [f"{where} with {kind}" for kind in found_in(seen, self.secrets)]
        if told.status_code >= 400:
            texts = {kind: canary(kind) for kind in TEXTS}
            self._tally.faults += [f"{where} with {kind}" for kind in found_in(seen, texts)]
        return told

    def call_cells(self, headers: Mapping[str, str], tried: Sequence[Cell]) -> None:
        """Meet every fault of a provider, some at one time."""

        def one(cell: Cell) -> None:
            path = "/v1/messages" if cell.dialect == "messages" else "/v1/chat/completions"
            body = BODIES[path](cell.model, is_stream=cell.mode == "stream")
            self.call("POST", path, body, headers)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, tried))
        self._tally.cells += len(tried)

    def call_well_and_badly(self, own: Mapping[str, str]) -> None:
        """Have every wire format served, translated, refused by a provider and not reached."""
        given = [
            {"authorization": f"Bearer {canary('caller')}"},
            {"authorization": f"Basic {canary('basic')}"},
            {"x-api-key": canary("key")},
            {**own, "cookie": f"session={canary('cookie')}"},
        ]
        for headers in given:
            for path, body in BODIES.items():
                for name in ("open:m", "claude:m", "echo:m", "down:m", "no:m", "auto"):
                    for is_stream in (False, True):
                        self.call("POST", path, body(name, is_stream=is_stream), headers)
                self.call("POST", path, b'{"model": "' + canary("message").encode(), headers)
                self.call("POST", path, {"model": "open:m", "messages": canary("message")}, headers)
            for path in READ:
                self.call("GET", path, None, headers)

    def be_refused(self) -> None:
        """Meet every refusal of ours: 400 to 429, on model routes and on others."""
        poor = self.key(budgets=[{"limit_usd": "0.000001", "per": "day"}])
        narrow = self.key(allowed_models=["claude:m"])
        slow, local = self.key(limits={"rpm": 1}), self.key(privacy="local")
        for path, body in BODIES.items():
            for headers in (poor, narrow, slow, slow, local):
                self.call("POST", path, body("open:m"), headers)
            self.call("POST", path, body("open:m"), {**narrow, "x-pointsman-privacy": "secret"})
            self.call("POST", path, {**body("claude:m"), canary("system"): []}, narrow)
        admin, text = self.admin, canary("message")
        self.call("POST", "/v1/chat/completions", text.encode() * 1_000_000, admin)
        self.call("POST", f"/api/nothing?q={text}", {"message": text}, admin)
        for method, path, body in self._bad_calls(text):
            self.call(method, path, body, admin)

    def _bad_calls(self, text: str) -> Iterator[tuple[str, str, object]]:
        yield from (("POST", path, b"{" + text.encode()) for path in ASKED)
        yield "POST", "/api/feedback", {"turn_id": "none", "thumbs": "up", "comment": text}
        yield "POST", "/api/feedback", {"turn_id": "none", "comment": {"a": text}}
        yield "POST", "/api/place", {"question": {"content": text}}
        yield "POST", "/api/decisions/gate/evaluate", {"input": [text]}
        yield "POST", "/api/decisions/none/evaluate", {"input": {"note": text}}
        yield "POST", "/router/decide", {"query_text": text, "brainstate_snapshot_id": "none"}
        yield "POST", "/brainstate/tick", {"inputs": {"wm": [{"value": text}]}}
        key = canary("written")
        written = {"kind": "openai", "base_url": "http://127.0.0.1:9", "api_key": key}
        models = {"schema_version": 1, "providers": {"p": written}, "models": {}}
        yield "PUT", "/api/policies/models.yaml", json.dumps(models).encode()
        yield "PUT", "/api/policies/models.yaml", f"providers: {{p: {{api_key: {key}".encode()
        header = {**written, "api_key": {"env": "CANARY_KEY"}, "base_url": f"http://u:{key}@h"}
        models["providers"] = {"p": header}
        yield "PUT", "/api/policies/models.yaml", json.dumps(models).encode()

    def leave_texts(self, own: Mapping[str, str]) -> None:
        """Leave a text in everything that keeps one: turns, comments, minds, jobs, decisions."""
        turn = self.call("POST", "/v1/chat/completions", chat_body("open:m"), own)
        assert turn.status_code == 200, turn.text
        comment = {"turn_id": turn.headers["x-pointsman-turn"], "thumbs": "up"}
        comment["comment"] = canary("comment")
        self.answered("/api/feedback", comment)
        preview = {"message": canary("message"), "record": True}
        self.call("POST", "/api/route/preview", preview, self.admin)
        goal = {"goal_id": "g1", "priority": 0.8, "type": "answer", "status": "active",
                "origin": "user", "metadata": {"note": canary("goal")}}  # fmt: skip
        budget = {"token_budget": 2048, "max_depth_allowed": 2}
        begun = {"job_seed": "seed", "goals": [goal], "resource_budget": budget}
        mind = self.answered("/brainstate/create_snapshot", begun)["brainstate_snapshot_id"]
        item = {"type": "fact", "value": canary("memory"), "token_estimate": 5}
        ticked = {"brainstate_snapshot_id": mind, "inputs": {"wm": [item]}}
        mind = self.answered("/brainstate/tick", ticked)["brainstate_snapshot_id"]
        agent = {"type": "agent", "version": "1", "status": "healthy", "apt": 0.9,
                 "capabilities": ["text"], "policy": {"allowed_actions": []}}  # fmt: skip
        modules = {"modules": {"agent:a": agent}, "edges": []}
        house = self.answered("/selfrep/create_snapshot", modules)
        self.answered("/router/decide", {
            "job_id": "job-1", "job_seed": "seed", "query_text": canary("job"), "trace_id": "t",
            "candidate_list": [], "brainstate_snapshot_id": mind,
            "selfrep_snapshot_id": house["selfrep_snapshot_id"],
        })  # fmt: skip
        for _ in range(2):
            context = {"input": {"note": canary("context")}, "workflow_id": "w"}
            self.answered("/api/decisions/gate/evaluate", context)

    def answered(self, path: str, body: object) -> Any:
        told = self.call("POST", path, body, self.admin)
        assert told.status_code < 300, (path, told.text)
        return told.json()


def attack(folder: Path, retain: str, tried: Sequence[Cell], tally: Tally) -> dict[str, bool]:
    """Run one mode of keeping text; tell of each kind whether it stood where it may."""
    home, log = folder / "home", folder / "log"
    with upstream(otherwise=reply) as faulty:
        write_canaries(home, retain, faulty.url, tried)
        served = Served(home, log)
        try:
            with httpx.Client(base_url=served.url, trust_env=False, timeout=90) as client:
                one = Attack(client, tally, retain)
                own = one.key(scopes=["models", "read", "act"])
                one.leave_texts(own)
                one.call_well_and_badly(own)
                one.be_refused()
                one.call_cells(own, tried)
                # Beside the running gateway, with its logs and marks, and after its end.
                _look(home, retain, one.secrets, tally)
        finally:
            served.stop()
    kept = _look(home, retain, one.secrets, tally)
    told = log.read_bytes()
    tally.log_bytes += len(told)
    everything = {**one.secrets, **{kind: canary(kind) for kind in TEXTS}}
    tally.faults += [f"{retain}: the log tells {kind}" for kind in found_in(told, everything)]
    return kept | _was_sent(faulty)


def _look(home: Path, retain: str, secrets: Mapping[str, str], tally: Tally) -> dict[str, bool]:
    """Look through every file of a home."""
    given = {home / "provider.key", home / "models.yaml", *home.glob("last-good/*")}
    texts = {kind: canary(kind) for kind in TEXTS}
    kept = dict.fromkeys(TEXTS, False)
    for path in sorted(home.rglob("*")):
        if not path.is_file() or path in given:
            continue
        tally.files += 1
        data, where = path.read_bytes(), f"{retain}: {path.relative_to(home)}"
        tally.faults += [f"{where} holds {kind}" for kind in found_in(data, secrets)]
        seen = found_in(data, texts)
        kept |= dict.fromkeys(seen, True)
        if retain != "full" or not path.name.startswith(STORES_OF_TEXT):
            wrong = [e for e in seen if not path.name.startswith(IN_THE_RECORD.get(e, "no file"))]
            tally.faults += [f"{where} holds {kind}" for kind in wrong]
    return kept


def _was_sent(faulty: Upstream) -> dict[str, bool]:
    """Tell of each secret whether a provider got it: else its slot was not in use."""
    sent = str(faulty.requests)
    return {kind: canary(kind) in sent for kind in SLOTS}
