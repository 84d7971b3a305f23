"""The pure decision: complete, replayable, and deaf to everything but its facts."""

import random
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from tests.absent_texts import no_texts

from pointsman.audit.replay import REGISTRY
from pointsman.branches.compiled import compile_policy, plain
from pointsman.branches.decide import DECIDER, DECISION_VERSION, decide
from pointsman.branches.facts import FACTS_FORM, read_facts
from pointsman.branches.policy import (
    POLICY_FORM,
    BranchPolicy,
    branch_policy,
    definition_id,
    milliseconds,
    read_document,
    read_policy,
)
from pointsman.branches.trace import OUTCOME_FORM, TRACE_FORM, BranchOutcome, BranchTrace
from pointsman.errors import DocumentError, InputError, NotFound, ValueRefused
from pointsman.kernel.document import Document


def a_policy(**fields: Any) -> BranchPolicy:
    given = {
        "id": "d",
        "type": "rule_table",
        "default": {"target": "otherwise"},
        "rules": [
            {"condition": "input.score >= 0.8", "target": "deploy"},
            {"condition": "input.kind == 'x'", "target": "check"},
        ],
    } | fields
    if given["type"] != "rule_table" and "cases" in given:
        given.pop("rules")
    document = Document("d.yaml", {"decision": given}, {}, {("decision",): (1, 1)})
    return branch_policy([read_document(document)])


def decided(context: dict[str, Any], **fields: Any) -> tuple[BranchOutcome, BranchTrace]:
    return decide(compile_policy(a_policy(**fields)), read_facts("d", context))


@pytest.mark.req(308)
def test_logging_is_on_and_the_cache_off_with_an_hour_to_live() -> None:
    (decision,) = a_policy().decisions
    assert msgspec.structs.asdict(decision.logging) == {
        "log_decision": True, "include_inputs": True, "include_evaluation": True
    }  # fmt: skip
    assert (decision.cache.enabled, decision.cache.ttl_ms) == (False, 3_600_000)


DURATIONS = [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("24h", 86_400_000)]


@pytest.mark.parametrize(("text", "wanted"), [*DURATIONS, ("7d", 604_800_000)])
def test_durations(text: str, wanted: int) -> None:
    assert milliseconds(text) == wanted


def test_a_duration_without_a_unit_is_refused() -> None:
    with pytest.raises(DocumentError, match="ttl"):
        a_policy(cache={"enabled": True, "ttl": "60"})


@pytest.mark.parametrize(
    ("ttl", "ttl_ms"), [("1h30m", 5_400_000), ("1d2h3m4s5ms", 93_784_005), ("90m", 5_400_000)]
)
def test_a_duration_may_have_several_parts(ttl: str, ttl_ms: int) -> None:
    policy = a_policy(cache={"enabled": True, "ttl": ttl})
    assert policy.decisions[0].cache.ttl_ms == ttl_ms


@pytest.mark.parametrize("ttl", ["0s", "0h0m", "", "30m1h", "1h 30m", "h", "1h1h"])
def test_a_cache_that_keeps_nothing_and_a_duration_that_is_none_are_refused(ttl: str) -> None:
    with pytest.raises(DocumentError, match="ttl"):
        a_policy(cache={"enabled": True, "ttl": ttl})


@pytest.mark.req(321, 322)
def test_a_decision_names_everything_it_rests_on() -> None:
    outcome, trace = decided({"score": Decimal("0.5"), "kind": "x", "more": [1]})
    assert outcome.decision_id == "d"
    assert (outcome.selected_targets, outcome.selected_labels) == (("check",), ("check",))
    assert outcome.selected_indexes == (1,)
    assert plain(outcome.input_value) == {"score": Decimal("0.5"), "kind": "x", "more": [1]}
    assert [(each.condition, each.result) for each in trace.cases] == [
        ("input.score >= 0.8", False),
        ("input.kind == 'x'", True),
    ]
    assert [(each.path, plain(each.value)) for each in trace.read] == [
        ("input.score", Decimal("0.5")),
        ("input.kind", "x"),
    ]


def test_a_list_that_was_read_goes_by_its_content() -> None:
    rules = [{"condition": "input.tags contains 'a'", "target": "t"}]
    _, trace = decided({"tags": ["a", Decimal("0.5")]}, rules=rules)
    assert trace.read[0].content_id.startswith("sha256:")
    _, trace = decided({}, rules=rules)
    assert trace.read[0].is_missing


def test_without_evaluation_only_what_fired_or_is_unknown_is_told() -> None:
    _, trace = decided({"kind": "x"}, logging={"include_evaluation": False})
    assert [(each.index, each.result) for each in trace.cases] == [(0, None), (1, True)]
    traced, _ = decided({"score": 1, "kind": "x"})
    untraced, _ = decided({"score": 1, "kind": "x"}, logging={"include_evaluation": False})
    assert traced == untraced


@pytest.mark.req(325)
def test_the_context_of_the_caller_stays_his_own() -> None:
    context = {"kind": "x", "list": [1, {"a": Decimal("1.0")}]}
    before = repr(context)
    facts = read_facts("d", context)
    ready = compile_policy(a_policy())
    first = decide(ready, facts)
    assert repr(context) == before
    context["kind"] = "y"
    context["list"].clear()
    assert decide(ready, facts) == first


@pytest.mark.parametrize("context", [
    {"score": Decimal("0.80"), "kind": "x"},
    {"score": Decimal("1.0"), "kind": "d:1.5"},
    {"score": 1, "kind": "s:x", "big": Decimal("1e40"), "ünïcode": {"\U0001f642": [None, True]}},
    {"kind": None}, {},
])  # fmt: skip
def test_live_and_replayed_bytes_are_equal(context: dict[str, Any]) -> None:
    policy = a_policy(input="{{ context }}", variables=None)
    facts = read_facts("d", context)
    outcome, trace = decide(compile_policy(policy), facts)
    again = DECIDER.under(POLICY_FORM.form.encode(policy))
    found = again(FACTS_FORM.encode(facts.to_recorded()), no_texts)
    assert found == (OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))
    assert OUTCOME_FORM.decode(found.outcome) == outcome
    assert TRACE_FORM.decode(found.trace) == trace


def test_the_order_of_declared_variables_does_not_matter() -> None:
    names = {"score": "number", "kind": ["x", "y"]}
    one, other = dict(names), dict(reversed(names.items()))
    assert POLICY_FORM.id(a_policy(variables=one)) == POLICY_FORM.id(a_policy(variables=other))


def test_a_changed_definition_has_another_id() -> None:
    one, two = a_policy().decisions[0], a_policy(name="x").decisions[0]
    assert definition_id(one) != definition_id(two)
    assert definition_id(one) == definition_id(a_policy().decisions[0])


def test_an_input_without_an_exact_form_is_unknown() -> None:
    deep: Any = 1
    for _ in range(62):
        deep = [deep]
    outcome, trace = decided({"deep": deep}, input="[[[deep]]]")
    assert outcome.is_default
    assert "nested deeper" in trace.input_reason


@pytest.mark.parametrize("context", [{"x": 1.5}, {"x": 2**53}, {"x": float("nan")}, {"x": {1: 2}}])
def test_a_context_that_is_not_exact_is_refused(context: dict[str, Any]) -> None:
    with pytest.raises(ValueRefused):
        read_facts("d", context)


def test_recorded_facts_must_hold_a_mapping() -> None:
    again = DECIDER.under(POLICY_FORM.form.encode(a_policy()))
    with pytest.raises(InputError):
        again(b'{"approved":[],"context":[1],"decision_id":"d"}', no_texts)


def test_an_unknown_decision_is_not_found_with_the_nearest_name() -> None:
    ready = compile_policy(a_policy(id="quality-gate"))
    with pytest.raises(NotFound) as caught:
        decide(ready, read_facts("quality-gat", {}))
    assert caught.value.hint == "did you mean `quality-gate`?"


def test_the_registry_of_replay_knows_branches() -> None:
    assert REGISTRY.decider("branch", DECISION_VERSION) is DECIDER


def test_ids_are_unique_over_files() -> None:
    cases = b"cases: [{condition: 'true', target: y}]"
    text = b"decision: {id: d, type: switch, default: {target: x}, %s}" % cases
    read_policy(text, "a.yaml")
    with pytest.raises(DocumentError, match="is taken"):
        read_policy(text, "b.yaml", taken=["d"])
    with pytest.raises(DocumentError, match="not a known target"):
        read_policy(text, "b.yaml", targets=["x"])


@pytest.mark.req(312, 313)
def test_weighted_shares_and_stickiness_over_10000_ids() -> None:
    cases = [{"target": t, "weight": w} for t, w in (("v1", 70), ("v2", 20), ("v3", 10))]
    ready = compile_policy(a_policy(type="weighted", input="{{ request.id }}", cases=cases))
    ids = [f"r{n}" for n in range(10_000)]
    found = {i: decide(ready, read_facts("d", {"request": {"id": i}}))[0] for i in ids}
    counts = [sum(o.selected_targets == (t,) for o in found.values()) for t in ("v1", "v2", "v3")]
    for count, share in zip(counts, (0.7, 0.2, 0.1), strict=True):
        assert abs(count - 10_000 * share) < 4 * (10_000 * share * (1 - share)) ** 0.5
    random.Random(1).shuffle(ids)
    assert all(
        decide(ready, read_facts("d", {"request": {"id": i}}))[0] == found[i] for i in ids[:500]
    )


def test_ranges_move_only_the_slots_that_move() -> None:
    def placed(cases: list[dict[str, Any]]) -> list[str]:
        ready = compile_policy(a_policy(type="weighted", input="id", slots=100, cases=cases))
        facts = [read_facts("d", {"id": n}) for n in range(2_000)]
        return [decide(ready, each)[0].selected_targets[0] for each in facts]

    before = placed([{"target": "a", "ranges": [[0, 70]]}, {"target": "b", "ranges": [[70, 90]]},
                     {"target": "c", "ranges": [[90, 100]]}])  # fmt: skip
    after = placed([{"target": "a", "ranges": [[0, 50]]},
                    {"target": "b", "ranges": [[50, 55], [70, 90]]},
                    {"target": "c", "ranges": [[55, 70], [90, 100]]}])  # fmt: skip
    moved = {(b, a) for b, a in zip(before, after, strict=True) if a != b}
    assert moved == {("a", "b"), ("a", "c")}
