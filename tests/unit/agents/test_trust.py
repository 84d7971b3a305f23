"""Trust, status and record: what events do to a module, and who may say what about it."""

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.models.agents_jobs import a_router

from pointsman.agents.modules.folding import fold_events
from pointsman.agents.modules.module import Metrics
from pointsman.agents.modules.selfrep import SelfRep
from pointsman.agents.modules.trust import (
    DEFAULT_TRUST,
    EventType,
    TrustEvent,
    apt_after,
    event_id,
    status_after,
)
from pointsman.errors import InputError, IntegrityFailure, NotFound, PermissionDenied
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ONE, SCALE, Billionths, billionths

MODULES = {
    "modules": {
        "agent:a": {"apt": "0.5", "status": "healthy"},
        "agent:b": {"apt": "0.8", "status": "healthy", "metrics": {"total_calls": 5}},
        "agent:q": {"apt": "0.9", "status": "quarantined", "status_reason": "by hand"},
        "agent:o": {"apt": "0.9", "status": "offline", "metrics": {"consecutive_failures": 3}},
    }
}
SELFREP = a_router(MODULES).selfrep


def an_event(kind: EventType, node_id: str = "agent:a", index: int = 0, **given: Any) -> TrustEvent:
    seed = given.pop("job_seed", "seed")
    return TrustEvent(
        event_id=event_id(seed, index, kind),
        job_seed=seed,
        event_sequence_index=index,
        event_type=kind,
        node_id=node_id,
        origin=given.pop("origin", "executor"),
        timestamp_seeded=Instant(1_000 + index),
        **given,
    )


def module_of(selfrep: SelfRep, node_id: str = "agent:a") -> Any:
    found = selfrep.module(node_id)
    assert found is not None
    return found


def after(kind: EventType, node_id: str = "agent:a", **given: Any) -> Any:
    return module_of(fold_events(SELFREP, [an_event(kind, node_id, **given)]), node_id)


def test_the_golden_values_of_trust_hold() -> None:
    approved = an_event("COUNCIL_APPROVAL", is_correct=True)
    timeout = an_event("AGENT_TIMEOUT")
    assert apt_after(billionths("0.5"), approved, DEFAULT_TRUST) == billionths("0.5995")
    assert apt_after(billionths("0.8"), timeout, DEFAULT_TRUST) == billionths("0.5492")
    wrong = an_event("GROUND_TRUTH_LABEL", is_correct=False)
    assert apt_after(billionths("0.5"), wrong, DEFAULT_TRUST) == billionths("0.4995")


def test_the_constants_are_those_of_the_snapshot() -> None:
    router = a_router({**MODULES, "trust": {"BETA": "0.2", "DECAY": 0}})
    event = an_event("COUNCIL_APPROVAL", is_correct=True)
    assert module_of(fold_events(router.selfrep, [event])).apt == billionths("0.7")


@pytest.mark.parametrize("kind", ["OPERATIONAL_NOTE", "USER_FEEDBACK"])
def test_notes_and_feedback_change_nothing(kind: EventType) -> None:
    assert after(kind) == module_of(SELFREP)


def test_trust_stays_between_zero_and_one() -> None:
    top = an_event("COUNCIL_APPROVAL", is_correct=True)
    assert apt_after(ONE, top, DEFAULT_TRUST) == ONE
    assert apt_after(Billionths(0), an_event("AGENT_EXCEPTION"), DEFAULT_TRUST) == 0


@given(
    apt=st.integers(0, SCALE),
    kinds=st.lists(
        st.sampled_from(["COUNCIL_APPROVAL", "AGENT_TIMEOUT", "AGENT_EXCEPTION", "USER_FEEDBACK"]),
        max_size=12,
    ),
    correct=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_fold_in_one_go_equals_a_fold_event_by_event(
    apt: int, kinds: list[EventType], correct: bool
) -> None:
    modules = (replace(SELFREP.modules[0], apt=Billionths(apt)), *SELFREP.modules[1:])
    start = replace(SELFREP, modules=modules)
    events = [an_event(kind, index=n, is_correct=correct) for n, kind in enumerate(kinds)]
    step = start
    for event in events:
        step = fold_events(step, [event])
    assert fold_events(start, events) == step
    assert 0 <= module_of(step).apt <= SCALE
    assert step.tail.events == len(kinds)


def test_an_event_is_named_by_seed_sequence_and_type() -> None:
    named = hashlib.sha256(b"seed:3:AGENT_TIMEOUT").hexdigest()
    assert event_id("seed", 3, "AGENT_TIMEOUT") == named
    forged = replace(an_event("AGENT_TIMEOUT", index=3), event_sequence_index=4)
    with pytest.raises(IntegrityFailure, match="should be named"):
        fold_events(SELFREP, [forged])


def test_one_failure_degrades_and_three_in_a_row_take_a_module_offline() -> None:
    selfrep, seen = SELFREP, []
    for index in range(3):
        selfrep = fold_events(selfrep, [an_event("AGENT_TIMEOUT", "agent:b", index)])
        module = module_of(selfrep, "agent:b")
        seen.append((module.status, module.metrics.consecutive_failures))
    assert seen == [("degraded", 1), ("degraded", 2), ("offline", 3)]
    assert module_of(selfrep, "agent:b").status_reason == "3 failures in a row"
    assert module_of(selfrep, "agent:b").last_updated == Instant(1_002)


def test_a_good_answer_ends_a_run_of_failures_and_heals_a_trusted_module() -> None:
    events = [
        an_event("AGENT_EXCEPTION", "agent:b", 0),
        *(an_event("COUNCIL_APPROVAL", "agent:b", n, is_correct=True) for n in (1, 2)),
    ]
    states = [module_of(fold_events(SELFREP, events[:n]), "agent:b") for n in (1, 2, 3)]
    # 0.8 falls to 0.5492, and rises to 0.6486508 and then 0.748002149.
    assert [each.status for each in states] == ["degraded", "healthy", "healthy"]
    assert states[1].apt == billionths("0.6486508")
    assert states[2].metrics == Metrics(0, 8)
    assert states[2].status_reason == ""


@pytest.mark.parametrize(
    ("apt", "failures", "calls", "want"),
    [
        ("0.6", 0, 2, "healthy"),
        ("0.599999999", 0, 2, "degraded"),
        ("0.9", 1, 9, "degraded"),
        ("0.9", 2, 9, "degraded"),
        ("0.9", 3, 9, "offline"),
        ("0.9", 0, 1, "degraded"),
        ("0.1", 0, 9, "degraded"),
    ],
)
@pytest.mark.parametrize("before", ["healthy", "degraded"])
def test_either_low_trust_or_a_failure_degrades(
    before: Any, apt: str, failures: int, calls: int, want: str
) -> None:
    found, reason = status_after(before, billionths(apt), Metrics(failures, calls), DEFAULT_TRUST)
    assert found == want
    assert (reason == "") == (want == "healthy")


@pytest.mark.parametrize("status", ["offline", "quarantined"])
def test_nothing_automatic_leads_out_of_offline_or_into_or_out_of_quarantine(status: Any) -> None:
    for failures in (0, 1, 9):
        found, _ = status_after(status, ONE, Metrics(failures, 99), DEFAULT_TRUST)
        assert found == status
    worst, _ = status_after("healthy", Billionths(0), Metrics(99, 99), DEFAULT_TRUST)
    assert worst == "offline"


def test_trust_low_enough_to_block_proposes_a_quarantine_and_does_not_impose_it() -> None:
    found, reason = status_after("healthy", billionths("0.2"), Metrics(0, 9), DEFAULT_TRUST)
    assert found == "degraded"
    assert "propose a quarantine" in reason


@pytest.mark.parametrize("role", ["admin", "council"])
@pytest.mark.parametrize("node_id", ["agent:o", "agent:q"])
@pytest.mark.parametrize("status", ["quarantined", "healthy"])
def test_admin_and_council_set_a_status_by_hand(role: str, node_id: str, status: Any) -> None:
    module = after("MANUAL_OVERRIDE", node_id, status=status, signer="key-1", signer_role=role)
    assert module.status == status
    assert module.status_reason == "set by key-1"
    assert module.apt == billionths("0.9")
    if status == "healthy":
        assert module.metrics.consecutive_failures == 0


def test_an_override_sets_trust_and_the_status_follows_from_it() -> None:
    low = after(
        "MANUAL_OVERRIDE", "agent:b", apt=billionths("0.3"), signer="k", signer_role="admin"
    )
    assert (low.apt, low.status) == (billionths("0.3"), "degraded")
    assert low.metrics == Metrics(0, 5)


@pytest.mark.parametrize("role", ["", "operator", "viewer", "auditor"])
def test_nobody_else_overrides(role: str) -> None:
    with pytest.raises(PermissionDenied, match="may not override"):
        after("MANUAL_OVERRIDE", status="quarantined", signer="k", signer_role=role)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"apt": ONE, "signer_role": "admin"}, PermissionDenied),
        ({"apt": ONE, "signer": "agent:a", "signer_role": "admin"}, PermissionDenied),
        ({"signer": "k", "signer_role": "admin"}, InputError),
        ({"apt": Billionths(ONE + 1), "signer": "k", "signer_role": "admin"}, InputError),
    ],
)
def test_an_override_names_who_signed_it_and_what_it_sets(given: Any, error: Any) -> None:
    with pytest.raises(error):
        after("MANUAL_OVERRIDE", **given)


@pytest.mark.parametrize(
    "kind",
    ["COUNCIL_APPROVAL", "GROUND_TRUTH_LABEL", "AGENT_TIMEOUT", "AGENT_EXCEPTION"],
)
def test_a_module_says_nothing_that_changes_itself(kind: EventType) -> None:
    with pytest.raises(PermissionDenied) as caught:
        after(kind, origin="agent:a", is_correct=True)
    assert caught.value.code == "PERMISSION_DENIED"
    assert "may not change itself" in caught.value.message
    signed = {"apt": ONE, "signer": "k", "signer_role": "admin"}
    with pytest.raises(PermissionDenied, match="change itself"):
        after("MANUAL_OVERRIDE", origin="agent:a", **signed)
    assert after("OPERATIONAL_NOTE", origin="agent:a") == module_of(SELFREP)


def test_only_an_override_may_set_anything() -> None:
    with pytest.raises(InputError, match="only a `MANUAL_OVERRIDE`"):
        after("USER_FEEDBACK", apt=ONE)
    with pytest.raises(InputError, match="only a `MANUAL_OVERRIDE`"):
        after("COUNCIL_APPROVAL", status="healthy")


@pytest.mark.parametrize(("first", "second"), [(0, 0), (4, 4), (4, 3), (1, 0)])
def test_what_is_folded_already_or_out_of_order_is_refused(first: int, second: int) -> None:
    events = [an_event("AGENT_TIMEOUT", index=n) for n in (first, second)]
    with pytest.raises(InputError, match=r"folded already|behind"):
        fold_events(SELFREP, events)
    once = fold_events(SELFREP, events[:1])
    with pytest.raises(InputError, match=r"folded already|behind"):
        fold_events(once, events[1:])


def test_jobs_have_sequences_of_their_own() -> None:
    events = [an_event("AGENT_TIMEOUT", index=n, job_seed=s) for n, s in ((0, "x"), (0, "y"))]
    assert module_of(fold_events(SELFREP, events)).metrics.consecutive_failures == 2


def test_an_event_about_nobody_is_refused_and_folds_nothing() -> None:
    events = [an_event("AGENT_TIMEOUT"), an_event("AGENT_TIMEOUT", "agent:z", 1)]
    with pytest.raises(NotFound, match="agent:z"):
        fold_events(SELFREP, events)
    assert module_of(SELFREP).metrics == Metrics(0, 0)
