"""A gateway with a provider of each kind: OpenAI's format, Anthropic's, and one that is local."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from tests.gateway.house import Running, Upstream, model, provider, running, upstream, write_home


class Town(NamedTuple):
    """Three providers, and the files of a home that knows them."""

    openai: Upstream
    anthropic: Upstream
    local: Upstream
    home: Path
    models: dict[str, Any]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: each gateway syncs five databases as it opens."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    monkeypatch.setenv("OPENAI_TEST_KEY", "sk-openai-upstream-key")
    monkeypatch.setenv("ANTHROPIC_TEST_KEY", "sk-ant-upstream-key")
    with opened_town(tmp_path) as found:
        yield found


@contextmanager
def opened_town(folder: Path) -> Iterator[Town]:
    """Start three providers, and write a home that knows them."""
    with upstream() as openai, upstream() as anthropic, upstream() as local:
        models = {
            "schema_version": 1,
            "providers": {
                "open": provider("openai", openai.url, api_key={"env": "OPENAI_TEST_KEY"}),
                "claude": provider(
                    "anthropic", anthropic.url, api_key={"env": "ANTHROPIC_TEST_KEY"}
                ),
                "house": provider("openai", local.url),
            },
            "models": {
                "open:big": model(aliases=["big"], tier="deep"),
                "open:small": model(price="0.1", aliases=["small"], tier="fast"),
                "claude:opus": model(price="5", aliases=["opus"], tier="deep"),
                "house:llama": model("local", "0", aliases=["llama"], tier="fast"),
            },
            "accept": {"gpt-*": "auto", "claude-*": "claude:opus"},
        }
        home = write_home(
            folder / "home",
            models=models,
            routing={"schema_version": 1, "global_default": "open:big"},
        )
        yield Town(openai, anthropic, local, home, models)


@pytest.fixture
def serve() -> Iterator[Callable[[Path], Running]]:
    with ExitStack() as stack:
        yield lambda home: stack.enter_context(running(home))


@pytest.fixture
def live(town: Town, serve: Callable[[Path], Running]) -> Running:
    return serve(town.home)
