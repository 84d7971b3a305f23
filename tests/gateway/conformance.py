"""The conformance table: one decision for each predicate and each veto, whichever way a turn comes.

A file of `tests/cases/conformance` is a policy and the turns that are sent under it. Each turn is
sent through every surface: as facts that are stated, as a preview of a message, as a conversation
and over HTTP. A surface that cannot carry a fact is listed in the file with its reason.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import yaml
from click.testing import CliRunner
from tests.gateway.house import (
    ABLE,
    ADMIN_TOKEN,
    PATIENT,
    Running,
    Upstream,
    eventually,
    keeps,
    model,
    provider,
    running,
    upstream,
    write_home,
)
from tests.gateway.outcome_cells import (
    FIRST,
    LOCAL,
    PATHS,
    PIXEL_TEXT,
    SECOND_MODEL,
    MovableClock,
    Run,
    entries_of,
    request_body,
    turn_of,
)
from tests.mcp_surface.depot import done, over_http

from pointsman.cli.main import main
from pointsman.conversations import conversations
from pointsman.conversations.conversations import open_conversations
from pointsman.kernel.entry import Entry
from pointsman.kernel.record import OUTCOME
from pointsman.providers.messages import Usage
from pointsman.testing import calls, fails, says
from pointsman.testing.upstream_replies import Received, Reply

FOLDER = Path(__file__).parents[1] / "cases" / "conformance"
SURFACES = ("route --facts", "route", "mcp facts", "mcp", "chat", *PATHS)
"""`route` and `mcp` preview a message; with facts they decide on exactly these."""
NOON = "12:00"
"""The time of every turn that states none, by the clock and by `route --facts`."""
FREE = {**model("local"), "price": {"input": "0", "output": "0"}}
_READ = ("call_1", "read_file")


class Seen(NamedTuple):
    """A decision, in the words of the files; `reasons` are those of the vetoes.

    `served` is the model that answered, empty where none was called.
    """

    chosen: str
    winner: str
    chain: list[str]
    reasons: list[str]
    served: str = ""

    def told(self) -> dict[str, Any]:
        """Return the decision as a file states it: without the slots that had nothing to say."""
        spoke = [line for line in self.chain if not line.endswith(" not_applicable")]
        return {"chosen": self.chosen, "winner": self.winner, "chain": spoke}


class End(NamedTuple):
    """A turn that called a model, and the model that answered; `none` where it was refused."""

    turn_id: str
    served: str


def cases() -> dict[str, dict[str, Any]]:
    """Read every file of the table by its name."""
    found = sorted(FOLDER.glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in found}


def seen(outcome: Mapping[str, Any], chain: list[dict[str, Any]]) -> Seen:
    """Say a decision in the words of the files."""
    winner = outcome["winner_index"]
    lines, reasons = [], []
    for slot in chain:
        said = (slot["policy"], slot["verdict"], slot.get("candidate_model"), slot.get("rule_name"))
        lines.append(" ".join(filter(None, (*said, slot.get("validation_failure")))))
        for lost in slot.get("rule_attempts") or ():
            said = (lost["rule_name"], lost["candidate_model"], lost["validation_failure"], "")
            lines.append(" ".join(filter(None, ("attempt", *said))))
            reasons.append(lost["reason"])
        if slot.get("validation_failure"):
            reasons.append(slot["reason"])
    won = chain[winner]["policy"] if winner >= 0 else "none"
    return Seen(outcome["chosen_model"] or "none", won, lines, reasons)


def is_as_wanted(turn: Mapping[str, Any], found: Seen) -> bool:
    """Tell whether a decision, and the reason of a veto, are those of the file."""
    reason = turn["want"].get("because")
    wanted = {key: value for key, value in turn["want"].items() if key != "because"}
    is_told = reason is None or any(fnmatchcase(each, reason) for each in found.reasons)
    return found.told() == wanted and is_told and found.served in {"", found.chosen}


class World:
    """A gateway, and a command line beside it, in one home."""

    def __init__(
        self, case: dict[str, Any], live: Running, first: FirstProvider, clock: MovableClock
    ) -> None:
        self.case = case
        self.live = live
        self.first = first
        self.clock = clock
        self.headers: dict[str, str] = {}
        self.keys: dict[str, dict[str, str]] = {}
        self._noon_s = clock.moved_s
        self._session = 0

    def prepare(self) -> None:
        """Make the keys; the first is the one of every turn that names none."""
        allowed = self.case.get("allowed_models")
        for named in self.case.get("keys", [{"name": "one"}] if allowed else []):
            wish = {**named, "scopes": ["models", "act"]}
            if allowed:
                wish["allowed_models"] = allowed
            made = self.live.post("/api/keys", wish, authorization=f"Bearer {ADMIN_TOKEN}")
            self.keys[named["name"]] = {"authorization": f"Bearer {made.json()['key']}"}
        self.headers = next(iter(self.keys.values()), {})

    def decisions(self, turn: dict[str, Any]) -> Iterator[tuple[str, Seen]]:
        """Send a turn through every surface."""
        self._session += 1
        self._bring_about(turn)
        sent, facts = turn["sends"], _stated(turn, self.live.home)
        text = _text(sent)
        yield "route --facts", self._command("route", "--facts", "-", given=json.dumps(facts))
        yield "route", self._command("route", "--", text)
        about = {**self.headers, **self._about(sent)}
        for name, asked in (("mcp facts", {"facts": facts}), ("mcp", {"message": text})):
            yield name, asyncio.run(self._preview(asked, about))
        for name in ("chat", *PATHS):
            with self.first.doing(turn.get("provider")):
                end = self._chat(sent) if name == "chat" else self._post(name, sent, about)
            recorded = self._recorded(end.turn_id, is_last=turn.get("provider") is not None)
            yield name, recorded._replace(served=end.served)

    def _bring_about(self, turn: dict[str, Any]) -> None:
        """Let the time come and the calls be made that the turn's facts arise from."""
        self.clock.moved_s = self._noon_s + _seconds(turn["sends"].get("at", NOON)) - _seconds(NOON)
        before = turn.get("before", {})
        with self.first.doing(before.get("provider")):
            for _ in range(before.get("calls", 0)):
                self._call_first()
        if pinned := before.get("pin"):
            for path in PATHS:
                name = f"/api/sessions/{self._session_of(path)}/pin"
                told = self.live.post(name, {"model": pinned}, **self.headers)
                assert told.status_code == 200, told.text
        if stopped := before.get("stop"):
            given = {"scope": "provider", "name": stopped, "reason": "drill"}
            told = self.live.post("/api/stops", given, authorization=f"Bearer {ADMIN_TOKEN}")
            assert told.status_code == 201, told.text
        if gone := before.get("remove"):
            target = self.live.home / "models.yaml"
            models = json.loads(target.read_text())
            del models["models"][gone]
            write_home(self.live.home, models=models)

    def _call_first(self) -> None:
        """Call the first model; return when what it spent can be read beside the gateway."""
        answer = self.live.chat(model=FIRST, headers=self.headers)
        turn_id = turn_of(Run("", PATHS[0], is_stream=False), answer)
        eventually(lambda: any(each.kind == OUTCOME for each in self._entries(turn_id)))
        spent = sum(end["spent"]["cost_microusd"] for end in self.live.outcomes(0) if end["spent"])
        pointsman = self.live.parts.pointsman
        eventually(lambda: pointsman.facts("").cost_today_microusd >= spent)

    def _entries(self, turn_id: str) -> list[Entry]:
        return entries_of(turn_id, self.live.entries())

    def _command(self, *words: str, given: str | None = None) -> Seen:
        found = CliRunner().invoke(
            main, [words[0], "--json", "--home", str(self.live.home), *words[1:]], input=given
        )
        assert found.exit_code in {0, 1}, found.output
        told = json.loads(found.stdout)
        return seen(told, told["chain"])

    async def _preview(self, asked: dict[str, Any], about: dict[str, str]) -> Seen:
        async with over_http(self.live.url, **about) as client:
            told = await done(client, "route_preview", **asked)
        return seen(told, told["chain"])

    def _chat(self, sent: dict[str, Any]) -> End:
        """Take the turn in a conversation."""
        place = _workspace(self.live.home, sent.get("workspace", "work"))
        line = ["chat", "--json", "--home", str(self.live.home), "--workspace", str(place)]
        resumed: list[str] = []
        if touched := sent.get("touched"):
            (place / touched).write_text("select 1\n")
            self.first.then(calls(("read_file", {"path": touched})), says("read"))
            begun = ["--allow", "read", "--message", f"@first read {touched}"]
            resumed = ["--resume", _told(CliRunner().invoke(main, [*line, *begun]))["session_id"]]
        if "images" in sent.get("needs", ()):
            (place / "dot.png").write_bytes(b64decode(PIXEL_TEXT))
            resumed += ["--image", str(place / "dot.png")]
        asked = CliRunner().invoke(main, [*line, *resumed, "--message", "-"], input=_text(sent))
        told = _told(asked)
        return End(told["turn_id"], told["model"] if told["status"] == "completed" else "none")

    def _post(self, path: str, sent: dict[str, Any], about: dict[str, str]) -> End:
        """Send the turn over HTTP."""
        body = request_body(path, "auto", _text(sent), sent.get("needs", ()))
        if touched := sent.get("touched"):
            key = "input" if path == "/v1/responses" else "messages"
            body[key] = [*_history(path, touched), {"role": "user", "content": _text(sent)}]
        named = {"x-session-id": self._session_of(path), **about}
        answer = self.live.post(path, body, **named)
        served = answer.headers["x-pointsman-model"] if answer.status_code == 200 else "none"
        return End(turn_of(Run("", path, is_stream=False), answer), served)

    def _session_of(self, path: str) -> str:
        """Name a session of its own for each turn and path: one that is tainted stays so."""
        return f"{self._session}{path.replace('/', '-')}"

    def _about(self, sent: dict[str, Any]) -> dict[str, str]:
        found = {}
        if "workspace" in sent:
            found["x-pointsman-workspace"] = str(_workspace(self.live.home, sent["workspace"]))
        if "privacy" in sent:
            found["x-pointsman-privacy"] = sent["privacy"]
        if "agent" in sent:
            found["x-pointsman-agent"] = sent["agent"]
        return {**found, **self.keys.get(sent.get("key", ""), {})}

    def _recorded(self, turn_id: str, *, is_last: bool) -> Seen:
        """Read a turn's decision back: the first one, or the last of those that followed it."""
        told = [each for each in self._entries(turn_id) if each.kind.startswith("decision.turn")]
        decision = json.loads(told[-1 if is_last else 0].payload)["decision"]
        return seen(decision["outcome"], decision["trace"]["chain"])


class FirstProvider:
    """The provider of the first model; what it does can be changed between two calls."""

    def __init__(self) -> None:
        self.side: Upstream
        self._reply: Reply = says("from the first")

    def reply(self, request: Received) -> Any:
        """Do what it is to do now."""
        return self._reply(request)

    def then(self, *replies: Reply) -> None:
        """Do these first."""
        self.side.then(*replies)

    @contextmanager
    def doing(self, asked: int | str | None) -> Iterator[None]:
        """Fail with a status, or tell a usage, as long as this lasts."""
        plain = self._reply
        if isinstance(asked, int):
            self._reply = fails(asked)
        elif asked is not None:
            tokens = int(asked.removesuffix(" tokens"))
            self._reply = says("at length", usage=Usage(input_tokens=12, output_tokens=tokens))
        try:
            yield
        finally:
            self._reply = plain


@contextmanager
def world(case: dict[str, Any], home: Path) -> Iterator[World]:
    """Serve the home of a case."""
    first, clock = FirstProvider(), MovableClock()
    with ExitStack() as stack:
        first.side = stack.enter_context(upstream(otherwise=first.reply))
        second = stack.enter_context(upstream(otherwise=says("from the second")))
        local = stack.enter_context(upstream(otherwise=says("from here")))
        _write_files(home, case, {"main": first.side.url, "spare": second.url, "house": local.url})
        stack.enter_context(patch("pointsman.app.SystemClock", lambda: clock))
        # A conversation of the command line opens its providers itself: they do not wait either.
        patient = partial(open_conversations, surroundings=PATIENT)
        stack.enter_context(patch.object(conversations, "open_conversations", patient))
        clock.moved_s = _seconds(NOON) - _seconds(time.strftime("%H:%M"))
        found = World(case, stack.enter_context(running(home)), first, clock)
        found.prepare()
        yield found


def _write_files(home: Path, case: dict[str, Any], urls: Mapping[str, str]) -> None:
    able = {**ABLE, "supports_system_prompt": True, **case.get("lacks", {})}
    first = {**model(aliases=["first"]), "capabilities": able}
    first["price"] = case.get("price", first["price"])
    if case.get("has_no_price"):
        del first["price"]
    providers = {name: provider("openai", url) for name, url in urls.items()}
    providers["main"].update(case.get("provider", {}))
    models = {FIRST: first, SECOND_MODEL: model(price="2"), LOCAL: FREE}
    for name, zone in case.get("zones", {}).items():
        models[name] = {**models[name], "zone": zone}
    routing = {
        "schema_version": 1,
        "global_default": case.get("default", SECOND_MODEL),
        "rules": [{"name": "asked", "use": FIRST, "when": case["when"]}],
        "pattern": {"mode": "off"},
        **case.get("routing", {}),
    }
    files = {"routing": routing}
    if placement := case.get("placement"):
        files["placement"] = {**keeps(), **placement}
    written = {"schema_version": 1, "providers": providers, "models": models}
    write_home(home, models=written, **files)
    for name, text in case.get("skills", {}).items():
        folder = home / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text)


def _stated(turn: dict[str, Any], home: Path) -> dict[str, Any]:
    """Write the facts of a turn, as a caller of `route --facts` does."""
    sent = turn["sends"]
    facts = {"message": _text(sent), **turn.get("facts", {})}
    if "workspace" in sent:
        facts["session"] = {"workspace_path": str(_workspace(home, sent["workspace"]))}
    if "at" in sent:
        facts["local_time"] = sent["at"]
    if "privacy" in sent:
        facts["privacy_level"] = sent["privacy"]
    return facts


def _text(sent: dict[str, Any]) -> str:
    return str(sent["text"]) + " word" * sent.get("words", 0)


def _workspace(home: Path, name: str) -> Path:
    place = home.parent / name
    place.mkdir(exist_ok=True)
    return place


def _told(result: Any) -> dict[str, Any]:
    assert result.exit_code in {0, 1}, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def _seconds(clock_time: str) -> int:
    hours, minutes = map(int, clock_time.split(":"))
    return (hours * 60 + minutes) * 60


def _history(path: str, touched: str) -> list[dict[str, Any]]:
    """Write what was said before: the client's own tool read a file."""
    (name, tool), asked = _READ, {"path": touched}
    begun = {"role": "user", "content": f"read {touched}"}
    if path == "/v1/responses":
        call = {"type": "function_call", "call_id": name, "name": tool}
        result = {"type": "function_call_output", "call_id": name, "output": "select 1"}
        return [begun, {**call, "arguments": json.dumps(asked)}, result]
    if path == "/v1/messages":
        use = {"type": "tool_use", "id": name, "name": tool, "input": asked}
        result = {"type": "tool_result", "tool_use_id": name, "content": "select 1"}
        told = {"role": "user", "content": [result]}
        read = {"role": "assistant", "content": "it was read"}
        return [begun, {"role": "assistant", "content": [use]}, told, read]
    function = {"name": tool, "arguments": json.dumps(asked)}
    call = {"id": name, "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": name, "content": "select 1"}
    read = {"role": "assistant", "content": "it was read"}
    return [begun, {"role": "assistant", "content": None, "tool_calls": [call]}, result, read]
