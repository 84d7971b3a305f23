"""Behaviour of the turns room, told in YAML files."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.errors import DocumentError
from pointsman.kernel.document import Document
from pointsman.kernel.yaml_text import read_yaml
from pointsman.turns.decide import decide
from pointsman.turns.facts import read_facts, turn_facts
from pointsman.turns.override import split_override
from pointsman.turns.policy import NO_ROUTING, read_routing, turn_policy
from pointsman.turns.ready import ReadyPolicy
from pointsman.turns.registry import NO_MODELS, read_models, registry

FOLDER = Path(__file__).parent / "turns"


def _cases(name: str) -> list[Any]:
    cases: Any = read_yaml((FOLDER / name).read_bytes(), name).value
    return [
        pytest.param(case, id=case["note"], marks=pytest.mark.req(*case.get("req", [])))
        for case in cases
    ]


def _text(case: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_text" in case:
        return str(case[f"{name}_text"]).encode()
    return msgspec.json.encode(case[name]) if name in case else None


def _policy(case: dict[str, Any]) -> Any:
    models_text, routing_text = _text(case, "models"), _text(case, "routing")
    models = NO_MODELS if models_text is None else read_models(models_text, "models.yaml")
    known = registry(models, lambda _name: None)
    if routing_text is None:
        return ReadyPolicy(turn_policy(NO_ROUTING, known, "/home/me"))
    routing = read_routing(routing_text, "routing.yaml", known, "/home/me")
    return ReadyPolicy(turn_policy(routing, known, "/home/me"))


@pytest.mark.parametrize("case", _cases("global_default.yaml"))
def test_turns_are_decided_as_told(case: dict[str, Any]) -> None:
    given = read_facts(Document("facts", case["facts"], {}, {}))
    policy = _policy(case)
    outcome, trace = decide(
        policy, turn_facts(given, *split_override(given.message, policy.aliases))
    )
    last = trace.chain[-1]
    want = case["want"]
    assert outcome.chosen_model == want["chosen_model"]
    assert len(trace.chain) == 7
    for name in ("policy", "validation_failure", "reason"):
        if name in want:
            assert getattr(last, name) == want[name]
    assert (outcome.winner_index == -1) == (outcome.chosen_model == "")


@pytest.mark.parametrize("case", _cases("files_refused.yaml"))
def test_files_are_refused_as_told(case: dict[str, Any]) -> None:
    with pytest.raises(DocumentError) as caught:
        _policy(case)
    assert [problem.code for problem in caught.value.problems] == case["want_codes"]
    assert case.get("want_text", "") in str(caught.value)
