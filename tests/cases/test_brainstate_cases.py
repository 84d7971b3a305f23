"""Behaviour of BrainState, told in YAML files."""

import json
from copy import deepcopy
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models.brainstate_start import read_start

from pointsman.brainstate.hints import routing_hints
from pointsman.brainstate.reading import read_inputs, start_state
from pointsman.brainstate.state import BrainState
from pointsman.brainstate.tick import insert_items, tick_state
from pointsman.brainstate.trace import TickTrace
from pointsman.brainstate.view import JSON, hints_view, state_view
from pointsman.errors import DocumentError
from pointsman.kernel.document import Document
from pointsman.kernel.json_text import read_json
from pointsman.kernel.yaml_text import read_yaml

FOLDER = Path(__file__).parent / "brainstate"
START: dict[str, Any] = {
    "job_seed": "seed",
    "goals": [],
    "attention": {"attention_gain": Decimal("0.5"), "explore_bias": Decimal("0.15")},
    "resource_budget": {"token_budget": 2048, "max_depth_allowed": 2},
}


def _cases(*names: str) -> list[Any]:
    return [
        pytest.param(
            case, id=f"{name}: {case['note']}", marks=pytest.mark.req(*case.get("req", []))
        )
        for name in names
        for case in _read(name)
    ]


def _read(name: str) -> Any:
    return read_yaml((FOLDER / name).read_bytes(), name).value


def _document(value: Any) -> Document:
    return read_json(JSON.encode(value), "given")


def _began(case: dict[str, Any]) -> BrainState:
    changes = case.get("start", {})
    attention = {**START["attention"], **changes.get("attention", {})}
    state, _ = start_state(read_start(_document({**START, **changes, "attention": attention})))
    items = read_inputs(_document({"wm": case.get("insert", [])})).wm
    return insert_items(state, items)


def _plain(state: BrainState) -> Any:
    return json.loads(JSON.encode(state_view(state)), parse_float=Decimal)


def _named(value: Any, ids: dict[str, str]) -> Any:
    """Put ids where `$text` stands."""
    if isinstance(value, dict):
        return {key: _named(each, ids) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each, ids) for each in value]
    return ids[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def _ids(state: BrainState) -> dict[str, str]:
    view = state_view(state)
    return {str(item.value): item.wm_id for item in (*view.cwm.items, *view.wm)}


def _short(code: str) -> str:
    return code.removeprefix("brainstate.")


def _said(state: BrainState, trace: TickTrace | None, name: str, want: Any) -> Any:
    """Give what a state and a trace say under a name that a case asks for."""
    view = _plain(state)
    happened = [f"{x.event_type} {_short(x.why)}" for x in trace.happenings] if trace else []
    known = {
        "WM": lambda: [f"{item['value']} {item['ttl_ticks']}" for item in view["WM"]],
        "WM.count": lambda: len(view["WM"]),
        "CWM": lambda: [f"{x['value']} {x['references']}" for x in view["CWM"]["items"]],
        "goals": lambda: [f"{goal['goal_id']} {goal['status']}" for goal in view["goals"]],
        "failures": lambda: [f"{x['node_id']} {x['reason']}" for x in view["recent_failures"]],
        "happened": lambda: happened,
        "happened_last": lambda: happened[-len(want) :],
        "counted": lambda: trace and trace.reward.is_user_counted,
        "wishes": lambda: [msgspec.to_builtins(each) for each in trace.wishes] if trace else None,
    }
    if name in known:
        return known[name]()
    for step in name.split("."):
        view = view[int(step) if step.isdigit() else step]
    return view


def _check(state: BrainState, trace: TickTrace | None, want: dict[str, Any]) -> None:
    assert {name: _said(state, trace, name, want[name]) for name in want} == want


@pytest.mark.parametrize(
    "case", _cases("golden.yaml", "memory.yaml", "attention.yaml", "goals.yaml")
)
def test_a_job_goes_as_told(case: dict[str, Any]) -> None:
    state, trace = _began(case), None
    _check(state, trace, case.get("want", {}))
    for step in case.get("ticks", []):
        inputs = _named(step.get("inputs", {}), _ids(state))
        state, trace = tick_state(state, read_inputs(_document(inputs)))
        _check(state, trace, step.get("want", {}))
    if "hints" in case:
        _check_hints(case, state)


@pytest.mark.parametrize("case", _cases("hints.yaml"))
def test_hints_are_as_told(case: dict[str, Any]) -> None:
    _check_hints(case, _began(case))


def _check_hints(case: dict[str, Any], state: BrainState) -> None:
    hints = json.loads(JSON.encode(hints_view(routing_hints(state))))
    assert {name: hints[name] for name in case["hints"]} == case["hints"]
    flat = {name: hints[name] for name in ("prefer_high_APT", "allow_explore")}
    assert hints["candidate_bias"] == flat


def _changed(good: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    """Give a good body with one thing set or dropped."""
    value = deepcopy(good)
    for change in case["set"]:
        *path, last = change["path"]
        inner: Any = value
        for step in path:
            inner = inner[step]
        if "to" in change:
            inner[last] = change["to"]
        else:
            del inner[last]
    return value


GOOD = {
    "start": {
        **START,
        "goals": [{"goal_id": "g", "type": "answer", "priority": Decimal("0.5")}],
        "constants": {"a_decay": Decimal("0.05")},
    },
    "inputs": {
        "council_approval": True,
        "user_upvote": None,
        "wm": [{"type": "fact", "value": "x"}],
        "events": [
            {"type": "reference", "wm_id": "w"},
            {"type": "goal_created", "goal": {"goal_id": "h", "type": "plan"}},
            {"type": "action", "action_type": "sem_write", "origin": "a", "payload": {}},
        ],
    },
}
READERS = {"start": read_start, "inputs": read_inputs}


@pytest.mark.parametrize("case", _cases("refused.yaml"))
def test_bodies_are_refused_as_told(case: dict[str, Any]) -> None:
    document = _document(_changed(GOOD[case["body"]], case))
    with pytest.raises(DocumentError) as caught:
        READERS[case["body"]](document)
    problems = caught.value.problems
    assert [str(problem.code) for problem in problems] == [x.split()[-1] for x in case["want"]]
    for problem, want in zip(problems, case["want"], strict=True):
        named = want.rpartition(" ")[0]
        path = tuple(int(x) if x.isdigit() else x for x in named.split(".") if x)
        assert problem.place in {document.place(path), document.place(path, key=True)}, want
    assert case.get("text_part", "") in str(caught.value)


@pytest.mark.parametrize("body", sorted(READERS))
def test_the_bodies_that_refused_ones_come_from_are_good(body: str) -> None:
    READERS[body](_document(GOOD[body]))
