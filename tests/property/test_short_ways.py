"""Every short way of the hot path gives what the long way gives, byte for byte."""

from __future__ import annotations

import hashlib
import hmac
from typing import get_args

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import seal_text
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import (
    DECISION_FORM,
    RECORDED_FORM,
    Aside,
    DecisionPayload,
    DecisionRecord,
    Names,
    Room,
    decision_draft,
    recorded_bytes,
)
from pointsman.placement.compiled import compile_policy as compile_placement
from pointsman.placement.decide import decide
from pointsman.placement.facts import CountedBy, LocalModel, PlacementFacts, Taint
from pointsman.placement.policy import BUILT_IN, placement_policy
from pointsman.placement.trace import OUTCOME_FORM, TRACE_FORM, Placed
from pointsman.providers.dialects.conversation import ConversationEntry, entry_words, plain_words
from pointsman.providers.dialects.look import look
from pointsman.providers.dialects.spans import with_model
from pointsman.recording.recorder import MadeDecision
from pointsman.recording.ruling import PlacementRuling, Policies, Ruling, turn_draft, turn_record
from pointsman.turns import trace as turn_trace
from pointsman.turns.chain.validation import _VETOES, rejection
from pointsman.turns.compiled import compile_policy as compile_turns
from pointsman.turns.decide import decide as decide_turn
from pointsman.turns.decide import encode_decision, run_chain
from pointsman.turns.facts import BudgetLeft, Override, TurnFacts
from pointsman.turns.policy import NO_ROUTING, turn_policy
from pointsman.turns.registry.catalogue import Capabilities
from pointsman.turns.registry.models import Model

texts = st.text(max_size=40)
counts = st.integers(0, 2**40)
ids = st.binary(max_size=8).map(content_id)
asides = st.builds(
    Aside,
    elapsed_us=counts,
    trace_id=texts,
    session_id=texts,
    is_preview=st.booleans(),
    product_version=texts,
)


@given(
    st.builds(
        DecisionRecord,
        kind=st.sampled_from(get_args(Room)),
        decision_version=counts,
        policy_id=ids,
        facts_id=ids,
        snapshot_ids=st.dictionaries(st.sampled_from(["prices", "skills"]), ids, max_size=1),
        outcome=st.sampled_from([Raw(b"{}"), Raw(b'{"a":"\xc3\xa4"}')]),
        trace=st.sampled_from([Raw(b"[]"), Raw(b'{"chain":[]}')]),
    ),
    asides,
)
def test_a_decision_written_in_one_go_has_the_bytes_of_its_forms(
    record: DecisionRecord, aside: Aside
) -> None:
    told = RECORDED_FORM.encode(DecisionPayload(Raw(DECISION_FORM.encode(record)), aside))
    assert recorded_bytes(record, aside) == told


@given(st.text(), st.binary(max_size=200))
def test_a_seal_is_an_hmac(text: str, key: bytes) -> None:
    data = text.encode("utf-8", "surrogatepass")
    told = hmac.new(key, data, hashlib.sha256).hexdigest()
    assert seal_text(text, key).digest == f"hmac-sha256:{told}"


READY = compile_placement(placement_policy(BUILT_IN))
placements = st.builds(
    PlacementFacts,
    question_id=texts,
    session_id=texts,
    content=texts,
    privacy_level=st.sampled_from(["local", "cloud", "auto"]),
    intent=st.sampled_from([None, "informational", "retrieval"]),
    constraints_id=st.just(""),
    asked_at=counts.map(Instant),
    local_model=st.builds(
        LocalModel,
        st.sampled_from(["o:a", "o:b"]),
        st.sampled_from([None, 10, 1000]),
        st.sampled_from([(), ("retrieval",)]),
        st.booleans(),
    ),
    cloud_model=st.sampled_from(["", "c:m"]),
    network_state=st.sampled_from(["online", "offline", "degraded"]),
    token_count=st.sampled_from([0, 5, 11, 5000]),
    counted_by=st.just(CountedBy("given", is_exact=False)),
    human_override=st.sampled_from(["none", "force_local", "force_remote"]),
    taint=st.sampled_from([None, Taint("t", "r")]),
)


@given(placements)
def test_a_placement_given_again_is_the_one_decided_anew(facts: PlacementFacts) -> None:
    """READY has decided other facts before, and may know these by now."""
    anew = decide(compile_placement(READY.policy), facts)
    for again in (decide(READY, facts), decide(READY, facts)):
        assert OUTCOME_FORM.encode(again[0]) == OUTCOME_FORM.encode(anew[0])
        assert TRACE_FORM.encode(again[1]) == TRACE_FORM.encode(anew[1])


ABLE = Capabilities(
    max_context_tokens=100, supports_images=True, supports_tools=True,
    supports_system_prompt=True, supports_structured_output=True,
)  # fmt: skip
UNABLE = Capabilities(
    max_context_tokens=10, supports_images=False, supports_tools=False,
    supports_system_prompt=False, supports_structured_output=False,
)  # fmt: skip
MODELS = {
    f"{location}:{name}": Model(tier="mid", location=location, capabilities=able)
    for location in ("local", "cloud")
    for name, able in (("able", ABLE), ("unable", UNABLE))
}
turns = st.builds(
    TurnFacts,
    message=st.just("hello"),
    has_images=st.booleans(),
    estimated_input_tokens=st.sampled_from([{}, {"*": 5}, {"*": 50}, {"*": 500}]),
    has_tool_definitions=st.booleans(),
    has_system_prompt=st.booleans(),
    requires_structured_output=st.booleans(),
    privacy_level=st.sampled_from(["local", "cloud", "auto"]),
    network_state=st.sampled_from(["online", "offline", "degraded"]),
    availability=st.sampled_from([{}, {"cloud": "unavailable"}, {"local:able": "unavailable"}]),
    configured=st.sampled_from([None, (), ("cloud:able", "local:able")]),
    allowed_models=st.sampled_from([None, ("cloud:able", "cloud:unable")]),
    budgets=st.sampled_from([(), (BudgetLeft("day", 0),)]),
    excluded_models=st.sampled_from([(), ("cloud:able",)]),
    placement=st.sampled_from(
        [None, *(Placed("p", "R", gate, "why") for gate in ("open", "local", "closed"))]
    ),
)


@given(turns, st.sampled_from(sorted(MODELS)))
def test_what_passes_as_plain_passes_every_veto(facts: TurnFacts, candidate: str) -> None:
    model = MODELS[candidate]
    asked = (veto(candidate, model, facts) for veto in _VETOES)
    assert rejection(candidate, MODELS, facts) == next((one for one in asked if one), None)


READY_TURNS = compile_turns(turn_policy(NO_ROUTING, MODELS, "/home/user"))
named_turns = st.builds(
    lambda facts, sticky, override, is_worker: replace(
        facts, sticky_model=sticky, override=override, is_worker=is_worker
    ),
    turns,
    st.sampled_from([None, "cloud:gone", *MODELS]),
    st.sampled_from([None, None, Override("able", "cloud:able")]),
    st.sampled_from([False, False, True]),
)


@given(named_turns)
def test_a_model_that_was_named_is_decided_as_the_whole_chain_decides(facts: TurnFacts) -> None:
    outcome, trace = run_chain(READY_TURNS, facts)
    again = decide_turn(READY_TURNS, facts)
    assert again == (outcome, trace)
    told = (turn_trace.OUTCOME_FORM.encode(outcome), turn_trace.TRACE_FORM.encode(trace))
    assert encode_decision(*again) == encode_decision(outcome, trace) == told


@given(named_turns, asides, placements, st.sampled_from(["", "fallback"]))
def test_a_turn_written_in_one_go_has_the_bytes_of_its_forms(
    facts: TurnFacts, aside: Aside, about: PlacementFacts, linked: str
) -> None:
    policies = Policies(READY, content_id(b"placement"), READY_TURNS, content_id(b"turns"))
    outcome, trace = run_chain(READY_TURNS, facts)
    ruling = Ruling(PlacementRuling(about, *decide(READY, about)), facts, outcome, trace)
    names, seal = Names("d", "t", Instant(7)), seal_text("hello", b"key")
    made: MadeDecision = turn_record(policies, ruling, seal, "0" * 32)
    told = decision_draft(names, made.record, aside, made.facts, linked)
    quick = Ruling(ruling.placing, facts, *decide_turn(READY_TURNS, facts))
    assert turn_draft(names, policies, quick, seal, aside, linked) == told


@given(st.text(), st.booleans())
def test_the_words_of_a_plain_entry_are_those_found_by_taking_it_apart(
    text: str, calls: bool
) -> None:
    raw = Raw(msgspec.json.encode(text.encode("utf-8", "replace").decode()))
    entry = (
        ConversationEntry("user", "", raw, Raw(b'[{"id":"1"}]'))
        if calls
        else ConversationEntry("user", "", raw)
    )
    plain = plain_words(entry)
    assert plain is None if calls else plain is None or [plain] == [*entry_words(entry)]


@given(
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.sampled_from(['"model"', '"stream"', '"x"']),
    st.text(alphabet="ab:/", max_size=5),
)
def test_a_name_is_replaced_where_members_are_known_as_where_they_are_not(
    space: tuple[str, str], first: str, name: str
) -> None:
    comma, colon = space
    members = [f"{first}{colon}false" if first == '"stream"' else f'{first}{colon}"a"']
    members.append(f'"messages"{colon}[{{"role"{colon}"user"{comma}"content"{colon}"hi"}}]')
    body = ("{" + comma.join(members) + "}").encode()
    assert look("chat", body).with_model(name) == with_model(body, name)


@given(placements)
def test_what_was_decided_does_not_depend_on_who_asks(facts: PlacementFacts) -> None:
    other = replace(facts, question_id="q", session_id="s", content="c", asked_at=Instant(0))
    assert decide(READY, facts) == decide(READY, other)
