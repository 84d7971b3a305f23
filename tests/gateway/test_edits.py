"""An edited file and a key that was set count from the next turn on (document 002 §4.8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, model, write_home

NAMES = ("house:one", "house:two")


def _say(home: Path, name: str) -> None:
    write_home(home, routing={"schema_version": 1, "global_default": name})


@pytest.mark.req(106, 157)
def test_every_edit_rules_the_very_next_turn(town: Town, serve: Callable[[Path], Running]) -> None:
    known = dict.fromkeys(NAMES, model("local", "0"))
    write_home(town.home, models={**town.models, "models": {**town.models["models"], **known}})
    _say(town.home, NAMES[0])
    live = serve(town.home)
    # The texts are of one size, and come faster than the clock of most file systems ticks.
    for turn in range(24):
        name = NAMES[turn % 2]
        _say(town.home, name)
        assert live.chat("hello").headers["x-pointsman-model"] == name, turn


@pytest.mark.req(158)
def test_a_broken_edit_changes_nothing(town: Town, live: Running) -> None:
    assert live.chat("hello").headers["x-pointsman-model"] == "open:big"
    (town.home / "routing.yaml").write_text("schema_version: 1\nglobal_default:\n")
    assert live.chat("hello").headers["x-pointsman-model"] == "open:big"
    (town.home / "models.yaml").write_text("schema_version: 1\nproviders: {a: {base_url: x}}\n")
    assert live.chat("hello").headers["x-pointsman-model"] == "open:big"
    _say(town.home, "house:llama")
    write_home(town.home, models=town.models)
    assert live.chat("hello").headers["x-pointsman-model"] == "house:llama"


def test_a_key_that_is_set_counts_from_the_next_turn(
    town: Town, serve: Callable[[Path], Running]
) -> None:
    providers = {**town.models["providers"]}
    providers["open"] = {**providers["open"], "api_key": {"file": "keys/open"}}
    write_home(town.home, models={**town.models, "providers": providers})
    rules = [{"when": {"message_matches": "."}, "use": "open:big"}]
    routing = {"schema_version": 1, "global_default": "house:llama", "rules": rules}
    write_home(town.home, routing=routing)
    live = serve(town.home)
    assert live.chat("hello").headers["x-pointsman-model"] == "house:llama"
    key = town.home / "keys" / "open"
    key.write_text("sk-openai-upstream-key")
    key.chmod(0o600)
    assert live.chat("hello").headers["x-pointsman-model"] == "open:big"
