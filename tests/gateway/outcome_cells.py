"""The table of outcomes: each way to choose a model, each thing that can be wrong, six runs a cell.

A file of `tests/cases/outcomes` is one thing that is wrong. It is served by one gateway with three
models: `main:first`, which every way chooses; `spare:second`, the next of the default list; and
`house:local`, which runs on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw
import httpx2 as httpx
from tests.gateway.house import (
    ABLE,
    ADMIN_TOKEN,
    Running,
    Upstream,
    breaks_off,
    eventually,
    model,
    provider,
    running,
    streamed,
    upstream,
    write_home,
)

from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import SECOND, Instant
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.kernel.yaml_text import read_yaml
from pointsman.providers.messages import Text
from pointsman.recording.machine import SystemClock
from pointsman.signals.embedding import text_vector
from pointsman.storage.home import open_home
from pointsman.storage.sqlite.ledger import SqliteRows
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import ImportRow
from pointsman.testing import fails, says
from pointsman.testing.upstream_replies import (
    STREAM_HEAD,
    Close,
    Pause,
    Received,
    Reply,
    SendBytes,
    Step,
    a_response,
    does,
    head,
    json_answer,
    whole_answer,
)
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of

FOLDER = Path(__file__).parents[1] / "cases" / "outcomes"
FIRST, SECOND_MODEL, LOCAL = "main:first", "spare:second", "house:local"
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
HEALS_S = 400
"""Longer than any outage lasts that no call prolongs."""
TIMEOUT_S = 0.1
SESSION, LEARNED = "pinned", "/learned"

_SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
           "additionalProperties": False}  # fmt: skip
PIXEL_TEXT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


class Way(NamedTuple):
    """How the model is chosen: what the request says, and the slot that must speak."""

    slot: str
    model: str = "auto"
    text: str = "tell me something"
    headers: Mapping[str, str] = {}


WAYS = {
    "named": Way("manual_sticky", model=FIRST),
    "pinned": Way("manual_sticky", headers={"x-session-id": SESSION}),
    "alias": Way("per_message_override", text="@first tell me something"),
    "rule": Way("rule", text="tell me something by rule"),
    "pattern": Way("pattern", text="add the numbers 3", headers={"x-pointsman-workspace": LEARNED}),
    "default": Way("global_default"),
}


class Run(NamedTuple):
    """One of the six runs of a cell."""

    way: str
    path: str
    is_stream: bool

    def __str__(self) -> str:
        return f"{self.way}, {self.path}, {'streamed' if self.is_stream else 'whole'}"


def cases() -> dict[str, dict[str, Any]]:
    """Read every file of the table by its name."""
    found = sorted(FOLDER.glob("*.yaml"))
    return {path.stem: read_yaml(path.read_bytes(), path.name).value for path in found}


def wanted(case: dict[str, Any], way: str) -> dict[str, Any]:
    """Return the result that a file wants for one way."""
    (want,) = [row["want"] for row in case["cells"] if way in row["ways"]]
    return dict(want)


class Result(NamedTuple):
    """What came of a run, and the slots that proposed the first model."""

    run: Run
    seen: dict[str, Any]
    slots: set[str]


class MovableClock(SystemClock):
    """The machine's clock, which a test may move on."""

    moved_s = 0

    def now(self) -> Instant:
        return Instant(super().now() + self.moved_s * SECOND)


class World:
    """A gateway in which one thing is wrong."""

    def __init__(self, case: dict[str, Any], live: Running, clock: MovableClock) -> None:
        self.case = case
        self.live = live
        self.clock = clock
        self.headers: dict[str, str] = {}

    def prepare(self) -> None:
        """Make the key and the pin, and let the calls fail that are to fail before."""
        if allowed := self.case.get("allowed_models"):
            wish = {"name": "one", "allowed_models": allowed, "scopes": ["models", "act"]}
            made = self.live.post("/api/keys", wish, authorization=f"Bearer {ADMIN_TOKEN}")
            self.headers = {"authorization": f"Bearer {made.json()['key']}"}
        pin = self.live.post(f"/api/sessions/{SESSION}/pin", {"model": FIRST}, **self.headers)
        assert pin.status_code == 200, pin.text
        if self.case.get("provider") == "silent":
            models = self.live.parts.pointsman.in_force().models
            # The shortest time that models.yaml takes is a second: 36 of them are too many.
            self.live.parts.providers.of(FIRST, models)[0]._timeout_s = TIMEOUT_S
        for _ in range(self.case.get("failures_before", 0)):
            assert self.live.chat(model=FIRST, headers=self.headers).status_code == 502
        for _ in range(self.case.get("calls_before", 0)):
            assert self.live.chat(model=FIRST, headers=self.headers).status_code == 200

    def runs(self) -> Iterator[Run]:
        """Return the runs of all cells."""
        modes = {"stream": [True], "whole": [False]}.get(self.case.get("only", ""), [False, True])
        for path, is_stream, way in product(PATHS, modes, WAYS):
            yield Run(way, path, is_stream)

    def results(self) -> list[Result]:
        """Run every cell; return what came of each run."""
        answers: dict[Run, httpx.Response] = {}
        for run in self.runs():
            answer = answers[run] = self._ask(run)
            # A call is over when its outcome is recorded: only then may the next one begin.
            with suppress(AssertionError):
                eventually(partial(self._is_recorded, run, answer), seconds=10)
            if not self.case.keys() & {"failures_before", "calls_before"}:
                self.clock.moved_s += HEALS_S
        return [self._result(run, answer) for run, answer in answers.items()]

    def _is_recorded(self, run: Run, answer: httpx.Response) -> bool:
        wish = wanted(self.case, run.way)["entries"]
        return len(entries_of(turn_of(run, answer), self.live.entries())) >= len(wish)

    def _ask(self, run: Run) -> httpx.Response:
        way = WAYS[run.way]
        headers = {**way.headers, **self.headers, **self.case.get("headers", {})}
        body = request_body(run.path, way.model, way.text, self.case.get("request", ()))
        return self.live.post(run.path, {**body, "stream": run.is_stream}, **headers)

    def _result(self, run: Run, answer: httpx.Response) -> Result:
        """Say what came of a run in the words of the files."""
        told = answer.headers
        entries = entries_of(turn_of(run, answer), self.live.entries())
        ends = [outcome_detail(each) for each in entries if each.kind == OUTCOME]
        classes = (end["error_class"] for end in ends)
        seen: dict[str, Any] = {
            "serves": told["x-pointsman-model"] if answer.status_code == 200 else "none",
            "status": answer.status_code,
            "code": error_code(run, answer),
            "fallback_from": told.get("x-pointsman-fallback-from"),
            "notice": told.get("x-pointsman-notice"),
            "should_retry": {"false": False}.get(told.get("x-should-retry", "")),
            "retry_after": True if int(told.get("retry-after", "0")) > 0 else None,
            "entries": [
                f"{each.kind} {next(classes)}".rstrip() if each.kind == OUTCOME else each.kind
                for each in entries
            ],
            "charged": charge(ends),
        }
        found = {key: value for key, value in seen.items() if value is not None}
        return Result(run, found, proposers(entries))


def turn_of(run: Run, answer: httpx.Response) -> str:
    """Return the id of a run's turn; an answer without one has it as its request id."""
    name = "request-id" if run.path == "/v1/messages" else "x-request-id"
    return answer.headers.get("x-pointsman-turn") or answer.headers[name]


def entries_of(turn: str, entries: Sequence[Entry]) -> list[Entry]:
    """Return the decisions and outcomes of a turn, in their order."""
    ids = {each.id for each in entries if each.ref == turn}
    told = [each for each in entries if each.kind.startswith(("decision.", OUTCOME))]
    return [each for each in told if each.ref == turn or each.ref in ids]


def proposers(entries: Sequence[Entry]) -> set[str]:
    """Name the slots that proposed the first model in a turn's first decision."""
    first = [each for each in entries if each.kind == "decision.turn"][:1]
    chain = [slot for each in first for slot in _trace(each)["chain"]]
    return {slot["policy"] for slot in chain if FIRST in {slot["candidate_model"], *_lost(slot)}}


def _trace(entry: Entry) -> dict[str, Any]:
    trace = json.loads(entry.payload)["decision"]["trace"]
    assert isinstance(trace, dict)
    return trace


def _lost(slot: dict[str, Any]) -> list[str]:
    return [each["candidate_model"] for each in slot["rule_attempts"]]


def outcome_detail(entry: Entry) -> dict[str, Any]:
    detail = json.loads(bytes(OUTCOME_FORM.read(entry.payload).detail))
    assert isinstance(detail, dict)
    return detail


def charge(ends: Sequence[dict[str, Any]]) -> int | str:
    """Return what the calls of a turn were charged in micro-dollars; `estimate` if guessed."""
    spent = [end["spent"] for end in ends if end["spent"] is not None]
    cost = sum(each["cost_microusd"] for each in spent)
    is_guess = any(each["is_estimated"] for each in spent)
    return "estimate" if is_guess and cost else cost


def error_code(run: Run, answer: httpx.Response) -> str | None:
    """Return our code for what went wrong, from the place where the vendor's shape has it."""
    if answer.status_code == 200:
        if not run.is_stream:
            return None
        last = streamed(answer)[-1]
        if "error" not in {last.get("type"), *last}:
            return None
        # Anthropic's shape has no place for a code in the middle of a stream.
        named = {"api_error": "upstream_error"} if run.path == "/v1/messages" else {}
        told = last.get("error", last)
        return named.get(told["type"]) or str(told["code"])
    error = answer.json()["error"]
    if run.path == "/v1/messages":
        code, colon, _ = str(error["message"]).partition(": ")
        return code if colon else None
    return str(error["code"])


def request_body(path: str, name: str, text: str, needs: Sequence[str]) -> dict[str, Any]:
    """Write a request that needs some capabilities, in the words of a path."""
    if "long" in needs:
        text = f"{text} {'word ' * 400}"
    written = {"/v1/responses": _responses, "/v1/messages": _messages}.get(path, _chat)
    body, asked = written(text)
    for need in needs:
        body |= asked.get(need, {})
    return {**body, "model": name}


def _chat(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    words = {"type": "text", "text": text}
    seen = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL_TEXT}"}}
    function = {"name": "look", "parameters": _SCHEMA}
    wish = {"name": "a", "schema": _SCHEMA, "strict": True}
    system = {"role": "system", "content": "be brief"}
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 50}, {
        "images": {"messages": [{"role": "user", "content": [words, seen]}]},
        "tools": {"tools": [{"type": "function", "function": function}]},
        "system": {"messages": [system, {"role": "user", "content": text}]},
        "structured": {"response_format": {"type": "json_schema", "json_schema": wish}},
    }


def _responses(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    words = {"type": "input_text", "text": text}
    seen = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL_TEXT}"}
    wish = {"type": "json_schema", "name": "a", "schema": _SCHEMA, "strict": True}
    return {"input": text, "max_output_tokens": 50}, {
        "images": {"input": [{"role": "user", "content": [words, seen]}]},
        "tools": {"tools": [{"type": "function", "name": "look", "parameters": _SCHEMA}]},
        "system": {"instructions": "be brief"},
        "structured": {"text": {"format": wish}},
    }


def _messages(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL_TEXT}
    parts = [{"type": "text", "text": text}, {"type": "image", "source": source}]
    wish = {"type": "json_schema", "schema": _SCHEMA}
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 50}, {
        "images": {"messages": [{"role": "user", "content": parts}]},
        "tools": {"tools": [{"name": "look", "input_schema": _SCHEMA}]},
        "system": {"system": "be brief"},
        "structured": {"output_config": {"format": wish}},
    }


def _cut_early(request: Received) -> Sequence[Step]:
    if request.is_stream:
        return [SendBytes(STREAM_HEAD), Close()]
    return [SendBytes(head(headers={"content-length": "100"})), Close()]


def _cut_late(request: Received) -> Sequence[Step]:
    if request.is_stream:
        return breaks_off("alpha beta gamma", "close")(request)
    whole = json_answer(whole_answer(request, a_response(Text("alpha beta gamma"))))
    return [SendBytes(whole[: len(whole) - 20]), Close()]


PROVIDERS: dict[object, Reply] = {
    "silent": does(Pause()),
    "cut before content": _cut_early,
    "cut after content": _cut_late,
    400: fails(400, "invalid_request_error", "bad thing"),
    401: fails(401, "authentication_error", "bad key"),
    429: fails(429, "rate_limit_error", "slow down", headers={"retry-after": "7"}),
    500: fails(500, "api_error", "broken"),
}
"""What the first model's provider does, by the word of the files; `refuses` is no reply at all."""


def write_files(home: Path, case: dict[str, Any], urls: Mapping[str, str]) -> None:
    """Write the home: the plain one, with the changes of the file to models and settings."""
    first = {**model(aliases=["first"]), **case.get("model", {})}
    first["capabilities"] = {**ABLE, "supports_system_prompt": True, **case.get("lacks", {})}
    if case.get("has_no_price"):
        del first["price"]
    second = {**model(price="2"), **case.get("second_model", {})}
    models = {FIRST: first, SECOND_MODEL: second, LOCAL: model("local", "0")}
    given = {name.partition(":")[0]: url for name, url in urls.items()}
    rule = {"name": "by rule", "when": {"message_matches": "by rule"}, "use": FIRST}
    routing = {
        "schema_version": 1,
        "global_default": [FIRST, SECOND_MODEL],
        "rules": [rule],
        "pattern": {"mode": "off"},
        "workspaces": {LEARNED: {"pattern": {"mode": "apply"}}},
        **case.get("routing", {}),
    }
    providers = {name: provider("openai", url) for name, url in given.items()}
    providers["main"] |= case.get("first_provider", {})
    write_home(
        home,
        models={"schema_version": 1, "providers": providers, "models": models},
        routing=routing,
        pointsman=case.get("settings", {}),
    )


def learn(home: Path) -> None:
    """Fill the pattern store: the first model is good at adding, the second is not."""
    rows = [
        ImportRow(
            f"{name} {number}",
            fingerprint_of(f"add the numbers {number}", Surroundings()),
            text_vector(f"add the numbers {number}"),
            name,
            Billionths(success),
            MicroUsd(1_000),
            5,
        )
        for number in range(8)
        for name, success in ((FIRST, 10**9), (SECOND_MODEL, 0))
    ]
    with closing(PatternStore(open_home(home).patterns)) as store:
        store.import_rows(rows, Instant(0))


@contextmanager
def world(case: dict[str, Any], home: Path) -> Iterator[World]:
    """Serve a home in which one thing is wrong."""
    asked, clock = case.get("provider"), MovableClock()
    with ExitStack() as stack:
        first = upstream(otherwise=PROVIDERS.get(asked), listens=asked != "refuses")
        sides: dict[str, Upstream] = {
            FIRST: stack.enter_context(first),
            SECOND_MODEL: stack.enter_context(upstream(otherwise=says("from the second"))),
            LOCAL: stack.enter_context(upstream(otherwise=says("from here"))),
        }
        write_files(home, case, {name: side.url for name, side in sides.items()})
        learn(home)
        stack.enter_context(patch("pointsman.app.SystemClock", lambda: clock))
        live = stack.enter_context(running(home))
        found = World(case, live, clock)
        found.prepare()
        if case.get("ledger") == "down":
            full = apsw.FullError("disk full")
            stack.enter_context(patch.object(SqliteRows, "append", side_effect=full))
        yield found
