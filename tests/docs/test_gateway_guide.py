"""What the guide to the gateway shows is what happens: its programs run, its files are valid."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.house import Running, model, provider, running, upstream, write_home

from pointsman.gateway.route_table import ROUTES
from pointsman.storage.policies.settings import read_settings
from pointsman.turns.policy import read_policy
from pointsman.turns.registry.models import read_models, registry

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "gateway.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8484"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with upstream() as openai:
        home = write_home(
            tmp_path_factory.mktemp("guide") / "home",
            models={
                "schema_version": 1,
                "providers": {"open": provider("openai", openai.url)},
                "models": {"open:big": model("local", "0")},
            },
            routing={"schema_version": 1, "global_default": "open:big"},
        )
        with running(home) as found:
            found.chat("a first turn")
            yield found


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_a_program_runs(live: Running, tmp_path: Path, number: int) -> None:
    text = blocks("python")[number].replace(ADDRESS, live.url)
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    if "OpenAI" in text:
        assert done.stdout == "open:big hello from the script\n"
    if "Anthropic" in text:
        assert done.stdout == "hello from the script\n"


def test_the_files_are_valid() -> None:
    models, keys, callers, asked = blocks("yaml models")
    assert read_models(callers.encode(), "models.yaml").providers["anthropic"].takes_callers_login
    shared = read_models(keys.encode(), "models.yaml").providers["openai"].api_key
    assert [each.weight for each in shared] == [3, 1]
    usage = [
        read_models(each.encode(), "models.yaml").providers["groq"].stream_usage
        for each in (models, asked)
    ]
    assert usage == ["ask", "as_asked"], "asked by default, unless the file says otherwise"
    known = registry(read_models(models.encode(), "models.yaml"), lambda _name: None)
    (routing,) = blocks("yaml routing")
    assert len(read_policy(routing.encode(), "routing.yaml", known, "/").budgets) == 2
    override, settings, tried, told, pooled, served = (
        read_settings(each.encode(), "pointsman.yaml") for each in blocks("yaml pointsman")
    )
    assert override.inline_override == "strict"
    assert settings.fallback.for_named_models
    assert (settings.fallback.notice, told.fallback.notice) == ("header", "in_band")
    assert tried.availability.probe_after_s == 20
    assert (pooled.upstream.idle_s, served.server.head_timeout_s) == (30, 10)
    (codex,) = blocks("toml")
    assert tomllib.loads(codex)["model_providers"]["pointsman"]["base_url"] == f"{ADDRESS}/v1"
    assert "```yaml\n" not in GUIDE


def test_every_address_in_the_guide_is_served() -> None:
    paths = {path for _, path in ROUTES}
    for path in re.findall(rf"{ADDRESS}(/[\w/.-]+)", GUIDE):
        assert path in paths or any(each.startswith(f"{path}/") for each in paths), path
