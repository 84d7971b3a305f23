"""Real clients, unchanged, against scripted providers: `python -m campaigns.clients`.

Each client has an environment of its own below `build/clients`, made once from PyPI or npm. Then
all of them run in a network of their own that holds nothing but this machine (`unshare`), so
whatever they would send elsewhere goes nowhere. Writes `evidence/clients.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from campaigns.evidence import write
from tests.gateway.house import Running, model, provider, running, upstream, write_home

from pointsman.testing.upstream_replies import Received, Step, calls, says

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build" / "clients"
SCRIPTS: Final = Path(__file__).parent / "client_scripts"
PYTHON: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "langchain": "langchain langchain-openai langchain-anthropic",
    "openai-agents": "openai-agents",
    "pydantic-ai": "pydantic-ai-slim[openai,anthropic]",
    "instructor": "instructor openai",
    "llm": "llm",
    "aider": "aider-chat",
}
NODE: Final = (
    "openai", "@anthropic-ai/sdk", "ai", "@ai-sdk/openai", "@ai-sdk/anthropic",
    "@ai-sdk/openai-compatible", "zod", "@openai/codex", "@anthropic-ai/claude-code", "opencode-ai",
)  # fmt: skip
AFTER: Final = {"@anthropic-ai/claude-code": "install.cjs", "opencode-ai": "postinstall.mjs"}
"""What fetches the program of an agent, where npm runs no scripts of its packages."""
SDKS: Final = {
    "openai": "openai_sdk.py",
    "anthropic": "anthropic_sdk.py",
    "langchain": "langchain_sdk.py",
    "openai-agents": "openai_agents.py",
    "pydantic-ai": "pydantic_ai_sdk.py",
    "instructor": "instructor_sdk.py",
}
MODELS: Final = {
    "responses": "open:gpt-5.2",
    "chat": "chat:gpt-5.2",
    "messages": "claude:claude-sonnet-4-6",
    "gemini": "gemini:gemini-2.5-flash",
    "converse": "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
"""A model of each shape of provider."""
SAID, SEEN, SUM = "hello from the script", "a picture was seen", "the sum is 5"
PERSON: Final = {"name": "Ada", "age": 36}
FILE: Final = "made-by-the-agent.txt"
RESULTS: Final = (
    '"role":"tool"',
    "function_call_output",
    '"type":"tool_result"',
    "functionResponse",
    '"toolResult"',
)
WRITES: Final = f"echo {'done'} > {FILE}"
CALL_S: Final = 150


class Done(NamedTuple):
    """How one case of one client went."""

    client: str
    model: str
    case: str
    is_ok: bool
    told: str = ""


def answer(request: Received) -> Sequence[Step]:  # noqa: PLR0911 - one for each wish
    """Answer as a model might: by a tool, in a form that is asked for, or in words."""
    body = request.json
    text = json.dumps(body, separators=(",", ":"))
    tools = dict(_tools(body))
    if "iVBORw0KGgo" in text:
        return says(SEEN)(request)
    if any(each in text for each in RESULTS):
        return says(SUM)(request)
    for name, schema in tools.items():
        properties = schema.get("properties", {})
        if name == "add":
            return calls((name, {"a": 2, "b": 3}))(request)
        if {*properties} == {*PERSON}:
            return calls((name, PERSON))(request)
        if name == "exec_command":
            return calls((name, {"cmd": WRITES}))(request)
        if name in {"Bash", "bash"}:
            return calls((name, {"command": WRITES, "description": "write a file"}))(request)
    if '"age' in text.replace("\\", "") and not tools:
        return says(json.dumps(PERSON))(request)
    return says(SAID)(request)


def _tools(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the names and the schemas of the tools, in any of the formats."""
    for each in (body.get("toolConfig") or {}).get("tools") or ():
        yield each["toolSpec"]["name"], each["toolSpec"]["inputSchema"]["json"]
    for each in body.get("tools") or ():
        listed = each.get("functionDeclarations") or [each.get("function") or each]
        for tool in listed:
            if "name" in tool:
                found = ("parameters", "input_schema", "parametersJsonSchema")
                yield tool["name"], next((tool[key] for key in found if tool.get(key)), {})


@contextmanager
def gateway() -> Iterator[Running]:
    """Serve a home with a provider of each shape."""
    os.environ.update(CLIENTS_AK="AKIDEXAMPLE", CLIENTS_SK="scripted")
    with ExitStack() as stack:
        urls = [stack.enter_context(upstream(otherwise=answer)).url for _ in MODELS]
        providers = {
            "open": provider("openai", urls[0]),
            "chat": provider("openai", urls[1]) | {"speaks": ["chat"]},
            "claude": provider("anthropic", urls[2]),
            "gemini": {"kind": "gemini", "base_url": urls[3]},
            "bedrock": {
                "kind": "bedrock",
                "region": "eu-west-1",
                "base_url": urls[4],
                "login": {"access_key": {"env": "CLIENTS_AK"}, "secret_key": {"env": "CLIENTS_SK"}},
            },
        }
        models = {
            "schema_version": 1,
            "providers": providers,
            "models": {name: model() for name in MODELS.values()},
            "accept": {"claude-*": MODELS["messages"]},
        }
        routing = {"schema_version": 1, "global_default": MODELS["messages"]}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home = write_home(folder / "home", models=models, routing=routing)
        yield stack.enter_context(running(home))


def install() -> None:
    """Make the environments that are not there yet."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for name, packages in PYTHON.items():
        folder = BUILD / name
        if not folder.exists():
            _say([sys.executable, "-m", "venv", str(folder)])
            _say([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *packages.split()])
    node = BUILD / "node"
    node.mkdir(exist_ok=True)
    if shutil.which("npm") and not (node / "node_modules").exists():
        _say(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(node), *NODE])
        for package, script in AFTER.items():
            _say(["node", script], node / "node_modules" / package)


def _say(words: list[str], folder: Path | None = None) -> None:
    print(" ".join(words), flush=True)
    subprocess.run(words, check=False, cwd=folder, timeout=1200)


def run_scripts(live: Running) -> Iterator[Done]:
    """Run the cases of every SDK against a model of each shape."""
    node = BUILD / "node"
    for shape, name in MODELS.items():
        for client, script in SDKS.items():
            python = BUILD / client / "bin" / "python"
            if python.exists():
                yield from _cases(
                    client, shape, [str(python), str(SCRIPTS / script), live.url, name]
                )
        if (node / "node_modules").exists():
            # Modules are looked up from where a script lies.
            shutil.copy(SCRIPTS / "sdks.mjs", node / "sdks.mjs")
            for sdk in ("openai", "anthropic", "ai"):
                words = ["node", str(node / "sdks.mjs"), live.url, name, sdk]
                yield from _cases(f"{sdk} (node)", shape, words)


def _cases(client: str, shape: str, words: list[str]) -> Iterator[Done]:
    done = _run(words, SCRIPTS, {})
    found = [line.split(" ", 2) for line in done.splitlines() if line.startswith(("ok ", "fail "))]
    if not found:
        yield Done(client, shape, "start", is_ok=False, told=done[-300:])
    for line in found:
        yield Done(client, shape, line[1], line[0] == "ok", "".join(line[2:]))


def _run(words: list[str], folder: Path, more: dict[str, str]) -> str:
    with tempfile.TemporaryDirectory() as home:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        try:
            done = subprocess.run(
                words,
                cwd=folder,
                env={**kept, "HOME": home, "PYTHONWARNINGS": "ignore", **more},
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=CALL_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return f"timed out: {error.stdout!r}"[-600:]
        return done.stdout + done.stderr[-600:]


class Agent(NamedTuple):
    """A coding agent: how it is started, and what must come of it."""

    name: str
    words: tuple[str, ...]
    variables: dict[str, str]
    writes: bool


def agents(url: str, name: str, config: Path) -> Iterator[Agent]:
    """Return the agents as their users start them, for one model."""
    tools = BUILD / "node" / "node_modules" / ".bin"
    provider_of_codex = {
        "model_provider": "pointsman",
        "model_providers.pointsman.name": "Pointsman",
        "model_providers.pointsman.base_url": f"{url}/v1",
        "model_providers.pointsman.wire_api": "responses",
        "model": name,
    }
    options = [f"{key}={json.dumps(value)}" for key, value in provider_of_codex.items()]
    yield Agent(
        "Codex",
        (
            str(tools / "codex"), "exec", "--skip-git-repo-check",
            "-c", 'sandbox_mode="danger-full-access"', "-c", 'web_search="disabled"',
            *(word for each in options for word in ("-c", each)), "write a file",
        ),
        {"CODEX_HOME": str(config)},
        writes=True,
    )  # fmt: skip
    yield Agent(
        "Claude Code",
        (str(tools / "claude"), "-p", "write a file", "--allowedTools", "Bash", "--model", name),
        {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_AUTH_TOKEN": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CONFIG_DIR": str(config),
        },
        writes=True,
    )
    chosen = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {name: {"name": name, "tool_call": True}},
    }
    opencode = {
        "provider": {"pointsman": chosen},
        "model": f"pointsman/{name}",
        "autoupdate": False,
    }
    yield Agent(
        "opencode",
        (str(tools / "opencode"), "run", "write a file"),
        {"OPENCODE_CONFIG_CONTENT": json.dumps(opencode), "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        writes=True,
    )
    yield Agent(
        "aider",
        (
            str(BUILD / "aider" / "bin" / "aider"), "--openai-api-base", f"{url}/v1",
            "--openai-api-key", "none", "--model", f"openai/{name}", "--no-git", "--yes-always",
            "--no-check-update", "--analytics-disable", "--no-show-model-warnings",
            "--message", "hi",
        ),
        {},
        writes=False,
    )  # fmt: skip
    lines = [{"model_id": "p", "model_name": name, "api_base": f"{url}/v1"}]
    (config / "extra-openai-models.yaml").write_text(json.dumps(lines))
    yield Agent(
        "llm",
        (str(BUILD / "llm" / "bin" / "llm"), "-m", "p", "--key", "none", "hi"),
        {"LLM_USER_PATH": str(config)},
        writes=False,
    )


def run_agents(live: Running) -> Iterator[Done]:
    """Run each agent once with a model of each shape: one tool's call, or one answer."""
    for shape, name in MODELS.items():
        with tempfile.TemporaryDirectory() as config:
            for agent in agents(live.url, name, Path(config)):
                if not Path(agent.words[0]).exists():
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    told = _run(list(agent.words), Path(folder), agent.variables)
                    is_written = (Path(folder) / FILE).exists()
                is_told = (SUM if agent.writes else SAID) in told
                is_ok = is_told and is_written >= agent.writes
                case = "a tool and an answer" if agent.writes else "an answer"
                yield Done(agent.name, shape, case, is_ok, "" if is_ok else told[-600:])


def versions() -> dict[str, str]:
    """Return the versions of the clients that are here."""
    found: dict[str, str] = {}
    for name, packages in PYTHON.items():
        first = packages.split(maxsplit=1)[0].partition("[")[0]
        asked = f"import importlib.metadata as m; print(m.version({first!r}))"
        python = BUILD / name / "bin" / "python"
        if python.exists():
            found[first] = _run([str(python), "-c", asked], BUILD, {}).strip()
    for name in NODE:
        about = BUILD / "node" / "node_modules" / name / "package.json"
        if about.exists():
            found[f"{name} (npm)"] = msgspec.json.decode(about.read_bytes())["version"]
    return found


def main(stage: str) -> int:
    if stage == "install":
        install()
        return 0
    with gateway() as live:
        done = [*run_scripts(live), *run_agents(live)]
        turns = len(live.entries("decision.turn"))
    failed = [each for each in done if not each.is_ok]
    by_client: dict[str, dict[str, list[str]]] = {}
    for each in done:
        state = by_client.setdefault(each.client, {"ok": [], "failed": []})
        state["ok" if each.is_ok else "failed"].append(f"{each.model}: {each.case}")
    write(
        "clients",
        {
            "network": "this machine alone" if _is_fenced() else "open",
            "versions": versions(),
            "cases": len(done),
            "failed": [each._asdict() for each in failed],
            "turns_recorded": turns,
            "left_out": {
                "gemini-cli": "speaks Google's own format, which no caller can speak here"
            },
            "clients": by_client,
        },
    )
    for each in failed:
        print(f"FAILED {each.client} on {each.model}: {each.case}: {each.told}")
    print(f"{len(done)} cases of {len(by_client)} clients, {len(failed)} failed, {turns} turns")
    return 1 if failed else 0


def _is_fenced() -> bool:
    return [each.name for each in Path("/sys/class/net").iterdir()] == ["lo"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "run"))
