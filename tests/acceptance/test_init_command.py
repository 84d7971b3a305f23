"""`init --with`, its dialogue, and `doctor --call`, as a newcomer runs them."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
from tests.gateway.house import provider, upstream, write_home

from pointsman.testing import fails, says

POINTSMAN = str(Path(sys.executable).parent / "pointsman")
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return {**kept, **more}


def run(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [POINTSMAN, "--home", str(home), *words],
        check=False,
        capture_output=True,
        text=True,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
    )


def test_three_commands_lead_to_a_routed_turn_of_two_providers(tmp_path: Path) -> None:
    home, keys = tmp_path / "home", dict.fromkeys(KEYS, "k")
    done = run(home, "init", "--with", "openai,anthropic", **keys)
    assert done.returncode == 0, done.stderr
    assert "set      " not in done.stdout
    assert run(home, "rules", "check", **keys).returncode == 0
    chosen = json.loads(run(home, "route", "--json", "hello", **keys).stdout)
    assert chosen["chosen_model"] == "openai:gpt-5.2"
    other = json.loads(run(home, "route", "--json", "@opus hello", **keys).stdout)
    assert other["chosen_model"] == "anthropic:claude-opus-4-7"


@contextmanager
def serving(home: Path, **keys: str) -> Iterator[str]:
    """Run `serve` on a free port, and yield its address."""
    words = [POINTSMAN, "--home", str(home), "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment(**keys)) as process:
        assert process.stdout is not None
        try:
            greeting = b"".join(iter(process.stdout.readline, b"}\n"))
            yield json.loads(greeting + b"}")["address"]
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_from_nothing_to_answers_of_two_services_without_an_editor(tmp_path: Path) -> None:
    home, keys = tmp_path / "home", {"OPENAI_API_KEY": "sk-one", "ANTHROPIC_API_KEY": "sk-two"}
    with upstream(otherwise=says("from one")) as one, upstream(otherwise=says("from two")) as two:
        services = f"openai@{one.url}/v1,anthropic@{two.url}"
        assert run(home, "init", "--with", services, **keys).returncode == 0
        with serving(home, **keys) as address:
            said = [ask_over_http(address, text) for text in ("hello", "@opus hello")]
        assert said == ["from one", "from two"]
        assert one.requests[0].header("authorization") == "Bearer sk-one"
        assert two.requests[0].header("x-api-key") == "sk-two"
        assert [each.json["model"] for each in (one.requests[0], two.requests[0])] == [
            "gpt-5.2",
            "claude-opus-4-7",
        ]
    assert "Served: anthropic:claude-opus-4-7" in run(home, "why", "last").stdout


def ask_over_http(address: str, text: str) -> str:
    body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
    answer = httpx.post(f"{address}/v1/chat/completions", json=body, trust_env=False, timeout=60)
    return str(answer.json()["choices"][0]["message"]["content"])


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "init", "--with", "openai@nowhere")
    assert done.returncode == 2
    assert not (tmp_path / "models.yaml").exists()


def test_keys_that_are_missing_are_named_and_the_local_model_answers(tmp_path: Path) -> None:
    done = run(tmp_path / "h", "init", "--with", "openai", "--json")
    assert json.loads(done.stdout)["missing_keys"] == ["OPENAI_API_KEY"]
    chosen = json.loads(run(tmp_path / "h", "route", "--json", "hello").stdout)
    assert chosen["chosen_model"] == "embedded:smollm2-135m"


def test_files_that_are_there_are_never_overwritten(tmp_path: Path) -> None:
    assert run(tmp_path, "init").returncode == 0
    before = (tmp_path / "models.yaml").read_bytes()
    done = run(tmp_path, "init", "--with", "openai")
    assert done.returncode == 2
    assert "models.yaml" in done.stderr
    assert (tmp_path / "models.yaml").read_bytes() == before


def test_plain_init_writes_the_first_files_and_all_writes_the_rest(tmp_path: Path) -> None:
    first = json.loads(run(tmp_path, "init", "--json").stdout)["written"]
    assert first == ["pointsman.yaml", "models.yaml", "routing.yaml", "placement.yaml"]
    told = json.loads(run(tmp_path, "init", "--all", "--json").stdout)
    assert told["written"] == ["agents.yaml"]
    assert told["kept"] == first


def ask(home: Path, typed: str, **env: str) -> str:
    """Run `init` on a terminal of its own, and return all it printed."""
    main, side = pty.openpty()
    process = subprocess.Popen(
        [POINTSMAN, "--home", str(home), "init"],
        stdin=side, stdout=side, stderr=side, env=environment(**env),
    )  # fmt: skip
    os.close(side)
    os.write(main, typed.encode())
    printed = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        printed += piece
    assert process.wait() == 0, printed
    os.close(main)
    return printed.decode()


def test_on_a_terminal_init_offers_the_services_whose_keys_are_set(tmp_path: Path) -> None:
    printed = ask(tmp_path, "\n", ANTHROPIC_API_KEY="k")
    assert "found a key of anthropic" in printed
    text = (tmp_path / "models.yaml").read_text()
    assert "anthropic:claude-sonnet-4-6" in text
    assert "openai:" not in text


def test_the_dialogue_takes_none_for_an_answer(tmp_path: Path) -> None:
    ask(tmp_path, "none\n", ANTHROPIC_API_KEY="k")
    assert "\nproviders:" not in (tmp_path / "models.yaml").read_text()


def model() -> dict[str, Any]:
    return {"location": "cloud", "price": {"input": 1, "output": 1}}


def test_doctor_calls_each_model_once_and_says_what_to_mend(tmp_path: Path) -> None:
    refusal = fails(401, "authentication_error", "bad key", code="invalid_api_key")
    assert run(tmp_path, "init").returncode == 0
    with upstream(otherwise=says("ok")) as good, upstream(otherwise=refusal) as bad:
        write_home(
            tmp_path,
            models={
                "schema_version": 1,
                "providers": {
                    "good": provider("openai", good.url, allow_private=True),
                    "bad": provider("openai", bad.url, allow_private=True),
                },
                "models": {"good:a": model(), "good:embed-b": model(), "bad:c": model()},
            },
            routing={"schema_version": 1, "global_default": "good:a"},
        )
        done = run(tmp_path, "doctor", "--call", "--json")
        assert [each.json["model"] for each in good.requests] == ["a"]
        assert good.requests[0].json["max_tokens"] == 16
    calls = {
        each["detail"].split()[0].rstrip(":"): each
        for each in json.loads(done.stdout)
        if each["subject"] == "call"
    }
    assert calls["good:a"]["state"] == "ok"
    assert calls["bad:c"]["state"] == "fault"
    assert "key" in calls["bad:c"]["hint"]
    assert done.returncode == 1
    assert "good:a" in run(tmp_path, "cost").stdout


def test_missing_weights_are_a_fault(tmp_path: Path) -> None:
    script = (
        "from pointsman.providers.embedded import weights\n"
        "weights._packaged_weights = lambda: None\n"
        "from pointsman.cli.main import main\n"
        f"main(['--home', {str(tmp_path)!r}, 'doctor'])\n"
    )
    assert run(tmp_path, "init").returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=False, capture_output=True, text=True,
        env=environment(POINTSMAN_DATA=str(tmp_path / "missing")),
    )  # fmt: skip
    assert done.returncode == 1
    assert "pointsman local install" in done.stdout
