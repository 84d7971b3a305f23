"""Files and keys as they are: an edit counts from the next turn on (document 002 §4.8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, model, write_home
from tests.gateway.town import ADMIN

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
    providers["open"] = {**providers["open"], "api_key": {"file": "open.key"}}
    write_home(town.home, models={**town.models, "providers": providers})
    rules = [{"when": {"message_matches": "."}, "use": "open:big"}]
    routing = {"schema_version": 1, "global_default": "house:llama", "rules": rules}
    write_home(town.home, routing=routing)
    live = serve(town.home)
    assert live.chat("hello").headers["x-pointsman-model"] == "house:llama"
    key = town.home / "open.key"
    key.write_text("sk-openai-upstream-key")
    key.chmod(0o600)
    assert live.chat("hello").headers["x-pointsman-model"] == "open:big"


@pytest.mark.req(109, 125)
def test_a_preview_goes_by_the_keys_that_the_gateway_has(
    town: Town, serve: Callable[[Path], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_TEST_KEY")
    live = serve(town.home)
    facts = {"message": "@big hello"}
    shown = live.post("/api/route/preview", facts, **ADMIN).json()
    assert shown["chain"][0]["validation_failure"] == "not_configured"
    told = {**facts, "configured": ["open:big"]}
    assert live.post("/api/route/preview", told, **ADMIN).json()["chosen_model"] == "open:big"


def test_a_policy_is_tried_out_with_its_own_models_and_aliases(town: Town, live: Running) -> None:
    new = {**town.models, "models": {**town.models["models"], "open:new": model(aliases=["new"])}}
    text = json.dumps(new)
    body = {"text": text, "facts": {"message": "@new hello"}}
    tried = live.post("/api/policies/models.yaml/try", body, **ADMIN).json()
    assert tried["chosen_model"] == "open:new"
    routing = json.dumps({"schema_version": 1, "global_default": "claude:opus"})
    body = {"text": routing, "facts": {"message": "hello"}}
    tried = live.post("/api/policies/routing.yaml/try", body, **ADMIN).json()
    assert tried["chosen_model"] == "claude:opus"
    write_home(town.home, pointsman={"secrets": {"env": ["NO_SUCH_KEY"]}})
    unset = text.replace("OPENAI_TEST_KEY", "NO_SUCH_KEY")
    body = {"text": unset, "facts": {"message": "@new hello"}}
    tried = live.post("/api/policies/models.yaml/try", body, **ADMIN).json()
    assert tried["chain"][0]["validation_failure"] == "not_configured"


def test_a_policy_being_written_is_compared_with_the_one_in_force(live: Running) -> None:
    live.chat("hello")
    routing = {"schema_version": 1, "global_default": "claude:opus"}
    body = {"text": json.dumps(routing), "count_recorded": True}
    found = live.post("/api/policies/routing.yaml/difference", body, **ADMIN).json()
    first = found["kinds"][0]
    assert (first["before_model"], first["after_model"]) == ("open:big", "claude:opus")
    assert (first["recorded_turns"], found["recorded_turns"]) == (1, 1)
    broken = {"text": "schema_version: 1\nglobal_default: open:none\n"}
    answer = live.post("/api/policies/routing.yaml/difference", broken, **ADMIN)
    assert answer.status_code == 400
