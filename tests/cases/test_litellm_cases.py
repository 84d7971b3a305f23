"""LiteLLM configurations as people write them: the files made of them, and the report."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pointsman.operations.litellm.config import import_config
from pointsman.storage.policies.settings import read_settings
from pointsman.turns.policy import read_policy
from pointsman.turns.registry.models import read_models, registry

FILES = sorted((Path(__file__).parent / "litellm").glob("*.yaml"))
CASES = [pytest.param(yaml.safe_load(path.read_text()), id=path.stem) for path in FILES]


def test_there_are_at_least_twelve_files() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize("case", CASES)
def test_a_configuration_comes_over_as_told(case: dict[str, Any]) -> None:
    found = import_config(case["config"].encode(), "/w/config.yaml", case.get("environment", {}))
    files = {name: yaml.safe_load(text) for name, text in found.files.items()}
    models, routing = files["models.yaml"], files["routing.yaml"]
    said = {
        "providers": models["providers"],
        "models": models["models"],
        "accept": models.get("accept"),
        "default": routing["global_default"],
        "budgets": routing.get("budgets"),
        "settings": files.get("pointsman.yaml"),
        "notes": [f"{each.kind} {each.where}" for each in found.notes],
    }
    want = {name: value for name, value in case["want"].items() if name != "without"}
    assert {name: said[name] for name in want} == want
    written = b"".join(found.files.values()).decode() + repr(found.notes)
    assert [each for each in case["want"].get("without", []) if each in written] == []


@pytest.mark.parametrize("case", CASES)
def test_the_files_made_of_a_configuration_hold(case: dict[str, Any]) -> None:
    found = import_config(case["config"].encode(), "/w/config.yaml", case.get("environment", {}))
    models = read_models(found.files["models.yaml"], "models.yaml")
    known = registry(models, lambda _name: None)
    read_policy(found.files["routing.yaml"], "routing.yaml", known, "/home/me")
    if "pointsman.yaml" in found.files:
        read_settings(found.files["pointsman.yaml"], "pointsman.yaml")
