"""`pointsman providers`, `route` and `chat` as processes of one home: they know the same."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Upstream, entries, model, provider, running, upstream, write_home

from pointsman.recording.health import RECOVERED, UNAVAILABLE
from pointsman.storage.home import open_home
from pointsman.testing import fails, says

POINTSMAN = Path(sys.executable).with_name("pointsman")
RULES = [{"name": "big", "when": {"message_matches": "^big"}, "use": "far:big"}]


class Household:
    """A home with a provider that may fail and one that does not, and the command."""

    def __init__(self, path: Path, far: Upstream, near: Upstream) -> None:
        self.far = far
        self.path = write_home(
            path,
            models={
                "schema_version": 1,
                "providers": {
                    "far": provider("openai", far.url),
                    "near": provider("openai", near.url),
                },
                "models": {"far:big": model(), "near:small": model("local", "0")},
            },
            routing={"schema_version": 1, "global_default": "near:small", "rules": RULES},
        )
        open_home(self.path)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [POINTSMAN, *words, "--home", str(self.path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=dict(os.environ),
        )

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json").stdout)

    def states(self) -> dict[str, str]:
        rows = self.json("providers")
        return {
            row["provider"] if row["model"] == "*" else row["model"]: row["state"] for row in rows
        }


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Household]:
    with upstream() as far, upstream(otherwise=says("here")) as near:
        yield Household(tmp_path / "home", far, near)


def test_what_one_chat_found_out_the_next_commands_know(home: Household) -> None:
    home.far.then(*[fails(401, "authentication_error")] * 3)
    for _ in range(3):
        done = home.run("chat", "--message", "big question")
        assert done.returncode == 0, done.stderr
    assert len(home.far.requests) == 1
    states = home.states()
    assert [states[name] for name in ("far", "far:big", "near", "near:small")] == [
        "unavailable", "healthy", "healthy", "healthy",
    ]  # fmt: skip
    routed = home.json("route", "big question")
    assert routed["chosen_model"] == "near:small"
    (rule,) = [each for each in routed["chain"] if each["policy"] == "rule"]
    assert rule["reason"] == 'rule "big" matched, all far models temporarily unavailable'
    assert [each.kind for each in entries(home.path, "event.routing.")] == [UNAVAILABLE]


def test_providers_route_and_the_gateway_agree(home: Household) -> None:
    home.far.then(fails(401, "authentication_error"))
    assert not (home.path / "health.db").exists()
    assert home.states()["far"] == "healthy"
    with running(home.path) as live:
        assert live.chat("big question").headers["x-pointsman-model"] == "near:small"
        own = {
            (row["provider"], row["model"]): (row["state"], row["cause"], row["clears_at"])
            for row in live.get("/api/providers").json()["rows"]
        }
        shown = {
            (row["provider"], row["model"]): (row["state"], row["cause"], row["clears_at"])
            for row in home.json("providers")
        }
        assert own == shown
        assert own["far", "*"][:2] == ("unavailable", "auth_error")
        assert home.json("route", "big question")["chosen_model"] == "near:small"
        assert live.chat("big question").headers["x-pointsman-model"] == "near:small"
        told = home.run("providers", "clear", "far")
        assert told.returncode == 0
        assert told.stdout.startswith("far may be called again; it was out for ")
        assert live.chat("big question").headers["x-pointsman-model"] == "far:big"
    assert home.json("route", "big question")["chosen_model"] == "far:big"
    kinds = [each.kind for each in entries(home.path, "event.routing.")]
    assert kinds == [UNAVAILABLE, RECOVERED]
    assert home.run("verify").returncode == 0


def test_the_table_says_why_and_until_when(home: Household) -> None:
    home.far.then(fails(403, "permission_error"))
    home.run("chat", "--message", "big question")
    (line,) = [each for each in home.run("providers").stdout.splitlines() if "far " in each][:1]
    assert line.split()[:5] == ["far", "*", "unavailable", "key", "refused"]
    assert " in 4 min " in line or " in 5 min 0 s" in line


def test_clearing_a_model_tells_that_its_provider_is_still_out(home: Household) -> None:
    home.far.then(fails(401, "authentication_error"))
    home.run("chat", "--message", "big question")
    for name in ("far:big", "far/big"):
        done = home.run("providers", "clear", name)
        assert done.returncode == 0
        assert done.stdout.splitlines() == [
            f"{name} was not out by itself",
            "far is out as a whole (key refused): clear it, too",
        ]
    assert home.states()["far"] == "unavailable"
    (back,) = home.json("providers", "clear", "far")["cleared"]
    assert (back["scope"], back["models_recovered"]) == ("provider_wide", ["far:big"])
    assert home.json("providers", "clear", "far") == {"name": "far", "cleared": []}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fra", "did you mean `far`?"),
        ("farr:big", "did you mean `far:big`?"),
        ("x" * 99, "known: "),
    ],
)
def test_an_unknown_name_is_bad_input_with_the_nearest_ones(
    home: Household, name: str, hint: str
) -> None:
    done = home.run("providers", "clear", name)
    assert done.returncode == 2
    assert f"there is no provider or model `{name}`" in done.stderr
    assert hint in done.stderr
