"""What a tick promises beyond its values: purity, no numbers of its own, and a poisoned world."""

import ast
import builtins
import os
import random
import socket
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace
from tests.models import brainstate_runs as runs

import pointsman.brainstate
from pointsman.brainstate.constants import DEFAULTS
from pointsman.brainstate.events import (
    INPUTS_FORM,
    NOTHING,
    ActionWished,
    Insertion,
    TickInputs,
    TokensUsed,
)
from pointsman.brainstate.hints import Shallow
from pointsman.brainstate.reading import StartingAttention, create_state, read_inputs
from pointsman.brainstate.state import BrainState, ResourceBudget
from pointsman.brainstate.tick import insert_items, tick_state
from pointsman.brainstate.trace import Why
from pointsman.errors import DocumentError
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.json_text import read_json

FOLDER = Path(pointsman.brainstate.__file__).parent
RULES = ("goals", "hints", "memory", "tick")
# Not rules of document 004: how a topic is written, and how many bytes make a token.
OTHER_NUMBERS = {"TOPIC_WORDS", "LONGEST_TOPIC", "BYTES_A_TOKEN"}


def _state(**changes: Any) -> BrainState:
    budget = changes.pop("budget", ResourceBudget(2048, 3))
    return create_state("seed", (), StartingAttention(), budget, changes)[0]


@pytest.mark.req(403)
@pytest.mark.parametrize("name", RULES)
def test_rules_hold_no_number_but_nothing_one_and_minus_one(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    named = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in OTHER_NUMBERS
    ]
    skipped = {id(inner) for node in named for inner in ast.walk(node)}
    found = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and id(node) not in skipped
    ]
    assert {*found} <= {0, 1}


@pytest.mark.req(350, 352)
def test_no_module_of_the_mind_reads_floats_clocks_or_other_parts_of_the_room() -> None:
    for path in FOLDER.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        assert not [
            x for x in ast.walk(tree) if isinstance(x, ast.Constant) and type(x.value) is float
        ]
        imported = [x.module or "" for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)]
        ours = [name for name in imported if name.startswith("pointsman.")]
        allowed = ("pointsman.brainstate.", "pointsman.kernel.", "pointsman.errors")
        assert all(name.startswith(allowed) for name in ours), path.name


def _poison(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise AssertionError("a tick looked at the world")


@pytest.mark.req(350, 361)
def test_ticks_come_out_the_same_with_clock_random_network_and_files_poisoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = [runs.run(seed) for seed in range(8)]
    for module, names in {
        time: ("time", "time_ns", "monotonic", "perf_counter"),
        random: ("random", "randint", "choice"),
        uuid: ("uuid4",),
        socket: ("socket",),
        os: ("urandom", "getenv", "open", "stat"),
        builtins: ("open",),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, _poison)
    again = [runs.replayed(job) for job in recorded]
    monkeypatch.undo()
    assert again == [job.evolution for job in recorded]


@pytest.mark.req(361)
def test_an_empty_tick_only_lets_attention_drift() -> None:
    before = _state()
    after, trace = tick_state(before, NOTHING)
    assert (after.tick, after.sequence) == (before.tick + 1, before.sequence + 1)
    assert (trace.happenings, trace.wishes) == ((), ())
    assert after.goals == before.goals


def test_tokens_past_every_number_are_counted_as_the_largest() -> None:
    state = _state()
    for _ in range(3):
        state, _ = tick_state(state, TickInputs(events=(TokensUsed(MAX_INT),)))
    assert state.tokens_consumed == MAX_INT


@pytest.mark.req(365)
def test_one_reference_is_enough_where_the_snapshot_says_so() -> None:
    after, trace = tick_state(
        _state(promotion_references=1), TickInputs(wm=(Insertion("fact", '"x"'),))
    )
    assert [item.value for item in after.cwm.items] == ['"x"']
    kinds = [each.event_type for each in trace.happenings]
    assert kinds == ["wm_inserted", "promotion", "cwm_recomputed"]


@pytest.mark.req(365)
@pytest.mark.parametrize(("tick", "is_promoted"), [(3, True), (4, False)])
def test_references_that_left_the_window_promote_nothing(tick: int, *, is_promoted: bool) -> None:
    known = insert_items(_state(), [Insertion("fact", '"x"', ttl_ticks=9)])
    item = replace(known.wm[0], references=2, reference_ticks=(0, 0))
    after, _ = tick_state(replace(known, tick=tick, wm=(item,)), NOTHING)
    assert bool(after.cwm.items) is is_promoted


def test_without_a_budget_nothing_fits_and_nothing_breaks() -> None:
    state = _state(budget=ResourceBudget(0, 0), promotion_references=1)
    after, _ = tick_state(state, TickInputs(wm=(Insertion("fact", '"x"'),)))
    assert (after.wm, after.cwm.items) == ((), ())


def test_an_insertion_between_ticks_takes_no_tick() -> None:
    state = insert_items(_state(), [Insertion("fact", '"x"')])
    assert (state.tick, state.wm[0].ttl_ticks) == (0, DEFAULTS.default_wm_ttl)


@pytest.mark.req(383)
def test_two_wishes_have_two_ids_and_a_reason_each() -> None:
    wish = ActionWished("set_module_policy", "agent:a", "{}", None)
    _, trace = tick_state(_state(), TickInputs(events=(wish, wish)))
    first, second = trace.wishes
    assert first.action_id != second.action_id
    assert first.timestamp_seeded < second.timestamp_seeded
    assert "for no goal" in first.justification
    _, again = tick_state(_state(), TickInputs(events=(wish, wish)))
    assert again.wishes == trace.wishes


@pytest.mark.req(404)
def test_inputs_are_all_that_can_change_a_state() -> None:
    assert set(TickInputs.__struct_fields__) == {"council_approval", "user_upvote", "wm", "events"}
    with pytest.raises(AttributeError):
        _state().tick = 5  # type: ignore[misc]


HOSTILE = {
    "nested": b'{"wm":[{"type":"fact","value":' + b"[" * 31 + b"]" * 31 + b"}]}",
    "not finite": b'{"wm":[{"type":"fact","value":NaN}]}',
    "half a pair": b'{"wm":[{"type":"fact","value":"\\ud800"}]}',
    "twice": b'{"wm":[],"wm":[]}',
    "huge number": b'{"wm":[{"type":"fact","value":99999999999999999999}]}',
    "long number": b'{"wm":[{"type":"fact","value":0.' + b"1" * 80 + b"}]}",
    "past exactness": b'{"wm":[{"type":"fact","value":[12345e64]}]}',
    "long value": b'{"wm":[{"type":"fact","value":"' + b"x" * 70_000 + b'"}]}',
    "many items": b'{"wm":[' + b",".join([b'{"type":"fact","value":1}'] * 257) + b"]}",
    "a list": b"[]",
    "nothing": b"null",
    "cut off": b'{"wm":[{"type":"fact"',
}


@pytest.mark.req(355)
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_inputs_are_refused_with_a_place(name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_inputs(read_json(HOSTILE[name], "inputs", DocumentLimits()))
    assert all(problem.place.source == "inputs" for problem in caught.value.problems)
    assert all(len(line) < 400 for line in str(caught.value).splitlines())


def test_odd_but_valid_values_are_remembered_exactly() -> None:
    text = '{"wm":[{"type":"fact","value":{"":[],"\\u0000":"\\n","ä\U0001f600":1e-9}}]}'
    inputs = read_inputs(read_json(text.encode(), "inputs"))
    state, _ = tick_state(_state(), inputs)
    assert INPUTS_FORM.decode(INPUTS_FORM.encode(inputs)) == inputs
    assert state.wm[0].value == '{"":[],"\\u0000":"\\n","ä\U0001f600":"d:0.000000001"}'


def test_every_code_says_what_it_means() -> None:
    assert all(each.meaning for each in (*Why, *Shallow))
    assert all(each.startswith("brainstate.") for each in Why)
