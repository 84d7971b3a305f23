"""`run -- COMMAND`: the agent calls a gateway, and the end says what that cost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.gateway.house import Upstream, model, provider, running, upstream, write_home

from pointsman.operations.agent_start import agent_start
from pointsman.storage.announcement import announced_gateway, gateway_address
from pointsman.testing import says

POINTSMAN = str(Path(sys.executable).parent / "pointsman")
AGENT = (
    "import json, os, sys, urllib.request\n"
    "def ask(url, key):\n"
    "    body = {'model': 'auto', 'max_tokens': 9,"
    " 'messages': [{'role': 'user', 'content': 'hello'}]}\n"
    "    headers = {'content-type': 'application/json', 'x-api-key': key}\n"
    "    request = urllib.request.Request(url, json.dumps(body).encode(), headers)\n"
    "    print(urllib.request.urlopen(request).headers['x-pointsman-model'])\n"
    "env = os.environ\n"
    "ask(env['OPENAI_BASE_URL'] + '/chat/completions', env['OPENAI_API_KEY'])\n"
    "ask(env['ANTHROPIC_BASE_URL'] + '/v1/messages', env['ANTHROPIC_API_KEY'])\n"
    "sys.exit(7)\n"
)


def a_home(path: Path, side: Upstream) -> Path:
    subprocess.run([POINTSMAN, "--home", str(path), "init"], check=True, capture_output=True)
    return write_home(
        path,
        models={
            "schema_version": 1,
            "providers": {"open": provider("openai", side.url)},
            "models": {"open:big": model()},
        },
        routing={"schema_version": 1, "global_default": "open:big"},
    )


def run(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [POINTSMAN, "--home", str(home), "run", "--", *words],
        check=False, capture_output=True, text=True, env={**os.environ, **more},
    )  # fmt: skip


def test_an_agent_runs_through_a_gateway_of_its_own_and_its_cost_is_told(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as side:
        home = a_home(tmp_path / "home", side)
        done = run(home, sys.executable, "-c", AGENT)
        assert done.returncode == 7, done.stderr
        assert done.stdout.split() == ["open:big", "open:big"]
        assert "run: 2 turns, $0.0" in done.stderr
        assert "2 by open:big (global default)" in done.stderr
        assert gateway_address(home) == ""
        assert run(home, "true").stderr.splitlines()[-1] == "run: no turn was decided"


def test_a_program_that_is_not_there_and_a_home_with_keys_are_refused(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as side:
        home = a_home(tmp_path / "home", side)
        done = run(home, "no-such-program-here")
        assert done.returncode == 2
        assert "no-such-program-here" in done.stderr
        made = subprocess.run(
            [POINTSMAN, "--home", str(home), "keys", "create", "me", "--json"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        assert "POINTSMAN_API_KEY" in run(home, "true").stderr
        key = json.loads(made.stdout)["key"]
        code = "import os; print(os.environ['OPENAI_API_KEY'])"
        assert run(home, sys.executable, "-c", code, POINTSMAN_API_KEY=key).stdout.strip() == key


def test_the_gateway_that_serves_a_home_is_known_while_it_does(tmp_path: Path) -> None:
    assert gateway_address(tmp_path) == ""
    with announced_gateway(tmp_path, "http://127.0.0.1:1"):
        assert gateway_address(tmp_path) == "http://127.0.0.1:1"
        with announced_gateway(tmp_path, "http://127.0.0.1:2"):
            assert gateway_address(tmp_path) == "http://127.0.0.1:1"
    assert gateway_address(tmp_path) == ""


def test_a_gateway_that_serves_already_is_used(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as side:
        home = a_home(tmp_path / "home", side)
        with running(home) as live, announced_gateway(home, live.url):
            code = "import os; print(os.environ['ANTHROPIC_BASE_URL'])"
            assert run(home, sys.executable, "-c", code).stdout.strip() == live.url


@pytest.mark.parametrize(
    ("command", "options", "variables"),
    [
        (
            ("claude", "-p", "x"),
            (),
            {"ANTHROPIC_AUTH_TOKEN": "k", "ANTHROPIC_BASE_URL": "http://g"},
        ),
        (("/usr/bin/codex", "exec"), ("-c", 'model_provider="pointsman"'), {}),
        (("aider",), ("--model", "openai/auto"), {"OPENAI_API_BASE": "http://g/v1"}),
        (("llm", "hi"), (), {"OPENAI_BASE_URL": "http://g/v1", "OPENAI_API_KEY": "k"}),
    ],
)
def test_each_agent_gets_what_it_reads(
    command: tuple[str, ...], options: tuple[str, ...], variables: dict[str, str]
) -> None:
    start = agent_start(command, "http://g", "k")
    assert start.command[: 1 + len(options)] == (command[0], *options)
    assert start.command[-len(command) + 1 :] == command[1:] or len(command) == 1
    assert variables.items() <= start.variables.items()
    assert ("ANTHROPIC_API_KEY" in start.variables) is (command[0] != "claude")


def test_an_agent_keeps_the_model_it_was_given_and_gemini_is_told_about() -> None:
    assert agent_start(("aider", "--model", "x"), "http://g", "k").command == (
        "aider",
        "--model",
        "x",
    )
    config = json.loads(
        agent_start(("opencode",), "http://g", "k").variables["OPENCODE_CONFIG_CONTENT"]
    )
    assert config["provider"]["pointsman"]["options"] == {"baseURL": "http://g/v1", "apiKey": "k"}
    assert "Google" in agent_start(("gemini",), "http://g", "k").notes[0]


def test_an_agent_keeps_its_own_login_where_the_provider_takes_it() -> None:
    start = agent_start(["claude"], "http://127.0.0.1:1", "pk", frozenset({"anthropic"}))
    assert start.variables["ANTHROPIC_CUSTOM_HEADERS"] == "x-pointsman-key: pk"
    assert start.variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert "ANTHROPIC_AUTH_TOKEN" not in start.variables
    assert start.variables["OPENAI_API_KEY"] == "pk"
    assert "OPENAI_API_KEY" not in agent_start(["x"], "", "pk", frozenset({"openai"})).variables


def test_the_home_says_whose_login_an_agent_keeps(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as side:
        home = write_home(
            tmp_path / "home",
            models={
                "schema_version": 1,
                "providers": {
                    "claude": provider("anthropic", side.url, api_key={"from": "caller"})
                },
                "models": {"claude:opus": model()},
            },
            routing={"schema_version": 1, "global_default": "claude:opus"},
        )
        code = AGENT.replace("ask(env['OPENAI_BASE_URL']", "0 and ask(env['OPENAI_BASE_URL']")
        done = run(home, sys.executable, "-c", code, ANTHROPIC_API_KEY="login-of-the-agent")
        assert done.returncode == 7, done.stderr
        (request,) = side.requests
        assert dict(request.headers)["x-api-key"] == "login-of-the-agent"
