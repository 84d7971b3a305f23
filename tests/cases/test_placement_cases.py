"""Behaviour of the placement room, told in YAML files."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.errors import DocumentError
from pointsman.kernel.document import Document
from pointsman.kernel.instant import Instant
from pointsman.kernel.json_text import read_json
from pointsman.kernel.yaml_text import read_yaml
from pointsman.placement.compiled import CompiledPlacement, compile_policy
from pointsman.placement.decide import decide
from pointsman.placement.facts import Masking, PlacementFacts, Sensitivity, read_facts
from pointsman.placement.policy import BUILT_IN, placement_policy, read_policy
from pointsman.placement.trace import PlacementOutcome, PlacementTrace
from pointsman.signals.kinds import KINDS

FOLDER = Path(__file__).parent / "placement"
KNOWN = [each.name for each in KINDS]
TABLE: dict[str, Any] = json.loads(msgspec.json.encode(BUILT_IN))
LIMIT = 100
COUNTS = {"below": LIMIT - 1, "at": LIMIT, "above": LIMIT + 1}
INTENTS = {"supported": "informational", "other": "retrieval", "none": None}
FACTS: dict[str, Any] = {
    "question_id": "q",
    "session_id": "s",
    "content": "Project ALBA is Über",
    "privacy_level": "auto",
    "intent": None,
    "constraints_id": "",
    "asked_at": Instant(0),
    "local_model": {
        "model_name": "o:l",
        "max_tokens": None,
        "supported_intents": ["informational", "analytical"],
        "available": True,
    },
    "cloud_model": "c:m",
    "network_state": "online",
    "token_count": 50,
    "counted_by": {"tokenizer": "given", "is_exact": False},
}
GIVEN: dict[str, Any] = {
    "question": {
        "id": "q",
        "session_id": "s",
        "content": "hello",
        "privacy_level": "auto",
        "timestamp": "2026-11-15T14:05:00Z",
        "intent": "informational",
        "constraints": {"any": ["thing", 1, None]},
    },
    "state": {
        "local_model": {
            "model_name": "o:l",
            "max_tokens": 100,
            "supported_intents": ["informational"],
            "available": True,
        },
        "cloud_model": {"model_name": "c:m"},
        "network_state": "online",
        "token_count": 5,
    },
    "human_override": "none",
}


def _cases(name: str) -> list[Any]:
    cases: Any = read_yaml((FOLDER / name).read_bytes(), name).value
    return [
        pytest.param(
            case, id=f"{name}: {case['note']}", marks=pytest.mark.req(*case.get("req", []))
        )
        for case in cases
    ]


def _rows(case: dict[str, Any]) -> list[tuple[dict[str, str], list[str]]]:
    """Give the rows of a case's table: the inputs by column, and what is wanted."""
    head, *lines = (line.split() for line in case["table"].splitlines())
    width = len(head) - 1
    return [(dict(zip(head[:-1], line, strict=False)), line[width:]) for line in lines]


def _ready(table: dict[str, Any] | None = None, *, unreadable: bool = False) -> CompiledPlacement:
    text = msgspec.json.encode({**TABLE, **(table or {})})
    policy = placement_policy(read_policy(text, "placement.yaml", KNOWN))
    return compile_policy(msgspec.structs.replace(policy, is_unreadable=unreadable))


def _facts(changes: dict[str, Any]) -> PlacementFacts:
    changes = dict(changes)
    found = changes.pop("found", None)
    masking = changes.pop("masking", None)
    local = {**FACTS["local_model"], **changes.pop("local_model", {})}
    if found is not None:
        has_failed = found == "failed"
        kinds = () if has_failed else tuple(found)
        changes["sensitivity"] = Sensitivity("test", has_failed, len(kinds), kinds, ())
    if masking is not None:
        changes["masking"] = msgspec.convert({"kinds": (), **masking}, Masking)
    return msgspec.convert({**FACTS, **changes, "local_model": local}, PlacementFacts)


def _said(outcome: PlacementOutcome, trace: PlacementTrace, want: dict[str, Any]) -> dict[str, Any]:
    """Give what a placement says under the names a case asks for."""
    part = want.get("reason_part", "")
    said = {
        **msgspec.json.decode(msgspec.json.encode(outcome)),
        "reason_part": part if part in outcome.reason else outcome.reason,
        "terminated_at": trace.terminated_at,
        "steps": [f"{each.step} {each.outcome}" for each in trace.steps],
        "rules": [
            f"{each.rule_id} {'hit' if each.has_matched else 'miss'}"
            for each in trace.evaluated_rules
        ],
        "token_limit": trace.inputs.token_limit,
    }
    return {name: said[name] for name in want}


def _word(outcome: PlacementOutcome) -> str:
    return f"{outcome.error_code or outcome.route} {outcome.rule_id}"


def _in_table(
    case: dict[str, Any], row: dict[str, str]
) -> tuple[CompiledPlacement, PlacementFacts]:
    """Give the question of one row of the truth table."""
    changes = {
        "privacy_level": case["privacy_level"],
        "token_count": COUNTS[row["tokens"]],
        "intent": INTENTS[row["intent"]],
        "network_state": row["network"],
        "local_model": {"available": row["local"] == "up"},
    }
    ready = _ready({"defaults": {"token_threshold": LIMIT, "fallback_allowed": False}})
    return ready, _facts(changes)


def _under_policy(
    case: dict[str, Any], row: dict[str, str]
) -> tuple[CompiledPlacement, PlacementFacts]:
    """Give a question under one policy rule and one override."""
    rules = [{"id": "it", "action": row["policy"], "message": "said so"}]
    ready = _ready({"policy_rules": [] if row["policy"] == "none" else rules})
    changes = {"privacy_level": case["privacy_level"], "human_override": row["override"]}
    return ready, _facts(changes)


def _with_rule(case: dict[str, Any]) -> tuple[CompiledPlacement, PlacementFacts]:
    """Give a question under a policy rule with the conditions of a case."""
    conditions = [
        dict(zip(("field", "operator", "value"), when.split(" ", 2), strict=True))
        for when in case["when"]
    ]
    rule = {"id": "it", "action": "warn", "conditions": conditions}
    return _ready({"policy_rules": [rule]}), _facts({"intent": "analytical"})


@pytest.mark.parametrize("case", _cases("truth_table.yaml"))
def test_the_table_decides_as_told(case: dict[str, Any]) -> None:
    for row, want in _rows(case):
        outcome, trace = decide(*_in_table(case, row))
        said = [*_word(outcome).split(), *(["fallback"] if outcome.fallback_allowed else [])]
        assert said == want, row
        assert outcome.model == {"local": "o:l", "cloud": "c:m", "": ""}[outcome.route]
        assert trace.inputs.is_within_limit == (row["tokens"] != "above")
        assert trace.inputs.is_intent_supported == (row["intent"] != "other")
        assert not outcome.log_escalation


@pytest.mark.req(70, 97)
def test_the_cases_are_the_whole_table() -> None:
    rows = [
        (case.values[0]["privacy_level"], *row.values())
        for case in _cases("truth_table.yaml")
        for row, _ in _rows(case.values[0])
    ]
    assert len(set(rows)) == len(rows) == 3 * 3 * 2 * 3 * 3


@pytest.mark.parametrize("case", _cases("policy_first.yaml"))
def test_policy_comes_first_as_told(case: dict[str, Any]) -> None:
    for row, want in _rows(case):
        outcome, trace = decide(*_under_policy(case, row))
        flags = {
            "fallback": outcome.fallback_allowed,
            "confirm": outcome.requires_confirmation,
        }
        said = [*_word(outcome).split(), outcome.gate, *(name for name in flags if flags[name])]
        assert said == want, row
        assert trace.warnings == (("said so",) if row["policy"] == "warn" else ())
        assert trace.prompts == (("said so",) if row["policy"] == "require_confirmation" else ())
        assert trace.inputs.human_override == row["override"]


@pytest.mark.parametrize("case", _cases("behaviour.yaml"))
def test_questions_are_placed_as_told(case: dict[str, Any]) -> None:
    ready = _ready(case.get("table"), unreadable=case.get("unreadable", False))
    facts = _facts(case["facts"])
    outcome, trace = decide(ready, facts)
    assert _said(outcome, trace, case["want"]) == case["want"]
    assert (outcome.route == "") == (outcome.model == "") == (outcome.error_code != "")
    assert decide(ready, facts) == (outcome, trace)


@pytest.mark.parametrize("case", _cases("policy_rules.yaml"))
def test_policy_rules_hold_as_told(case: dict[str, Any]) -> None:
    _, trace = decide(*_with_rule(case))
    assert trace.warnings == (("it",) if case["holds"] else ())


def _changed(value: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    value = deepcopy(value)
    for name in ("set", "also", "drop"):
        if name in case:
            path = case[name] if name == "drop" else case[name]["path"]
            part: Any = value
            for step in path[:-1]:
                part = part[step]
            if name == "drop":
                del part[path[-1]]
            else:
                part[path[-1]] = case[name]["to"]
    return value


def _check_refused(case: dict[str, Any], document: Document, read: Callable[[], object]) -> None:
    """Compare the problems: each with its code, at the value named or at its key."""
    if not case["want"]:
        read()
        return
    with pytest.raises(DocumentError) as caught:
        read()
    problems = caught.value.problems
    wanted = [
        f".{want}".rpartition(" ") if " " in want else ("", "", want) for want in case["want"]
    ]
    assert [problem.code for problem in problems] == [code for _, _, code in wanted]
    for problem, (named, _, _) in zip(problems, wanted, strict=True):
        path = tuple(int(step) if step.isdigit() else step for step in named.split(".")[1:])
        assert problem.place in {document.place(path), document.place(path, key=True)}, path
    assert case.get("text_part", "") in str(caught.value)
    assert case.get("hint_part", "") in " ".join(problem.hint for problem in problems)


@pytest.mark.parametrize("case", _cases("tables_refused.yaml"))
def test_tables_are_refused_as_told(case: dict[str, Any]) -> None:
    text = case.get("text") or json.dumps(_changed(TABLE, case), indent=1)
    if "text" in case:
        with pytest.raises(DocumentError, match=case["text_part"]):
            read_policy(text.encode(), "t", KNOWN)
        return
    document = read_yaml(text.encode(), "t")
    _check_refused(case, document, lambda: read_policy(text.encode(), "t", KNOWN))


@pytest.mark.parametrize("case", _cases("facts_refused.yaml"))
def test_facts_are_refused_as_told(case: dict[str, Any]) -> None:
    document = read_json(
        json.dumps(_changed(GIVEN, case), indent=1, default=float).encode(), "facts"
    )
    _check_refused(case, document, lambda: read_facts(document))


def test_the_facts_that_the_refused_ones_come_from_are_good() -> None:
    given = read_facts(Document("facts", GIVEN, {}, {}))
    assert given.question.intent == "informational"
