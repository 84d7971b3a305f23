"""Choices of agents in a ledger: recorded with what they stand on, and run again from it alone."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models.agents_jobs import a_job, a_router

from pointsman.agents.compiled import CompiledAgents
from pointsman.agents.decide import artifacts, decide
from pointsman.agents.facts import JobFacts, after_failure
from pointsman.agents.modules.selfrep import SELFREP_FORM
from pointsman.agents.policy import POLICY_FORM
from pointsman.audit.replay import replay_all, replay_named
from pointsman.jobs.entries import agent_decision
from pointsman.kernel.content import Retain
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import Aside, Names, read_recorded
from pointsman.kernel.replay import Verdict
from pointsman.recording.recorder import ARTIFACT, SHARED_ARTIFACT, Recorder
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.home import Home, open_home
from pointsman.storage.stores.entries import LedgerReader

HOUSE = {
    "modules": {
        "agent:a": {"apt": "0.9", "status": "healthy"},
        "agent:b": {"apt": "0.7", "status": "healthy"},
        "generic_agent": {"apt": "0.5", "status": "healthy"},
    },
    "intents": [{"intent": "math", "patterns": ["add"], "candidates": ["agent:b"]}],
}
ASIDE = Aside(1, "trace-1", "", is_preview=False, product_version="0")


@contextmanager
def recorder_of(home: Home, retain: Retain = "full") -> Iterator[Recorder]:
    opening = Draft("chain.opened", home.identity.ledger, "", Instant(0), b"{}")
    with closing(Recorder(home, "test", opening, retain, lambda _text: "[gone]")) as recorder:
        yield recorder


def recorded(
    home: Home, recorder: Recorder, router: CompiledAgents, facts: JobFacts, name: str
) -> None:
    waits = BlockingWaiter()
    seal = recorder.hand_in_text(str(facts.query), waits)
    policy_id = POLICY_FORM.id(router.policy.policy)
    found = decide(router, facts)
    made = agent_decision(router, facts, found, seal, policy_id, home.identity.ledger)
    recorder.hand_in_decision(Names(name, facts.job_id, Instant(5)), made, ASIDE, waits.expect())
    waits.wait()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.mark.req(2, 7, 16, 44, 64)
def test_choices_come_out_the_same_from_the_ledger_alone(home: Home) -> None:
    router = a_router(HOUSE)
    first = a_job(router, {"query": "what is it"})
    second = after_failure(first, "agent:a")
    other = a_router({"modules": {"agent:z": {"apt": "0.4", "status": "healthy"}}})
    with recorder_of(home) as recorder:
        recorded(home, recorder, router, first, "d1")
        recorded(home, recorder, router, second, "d2")
        recorded(home, recorder, router, a_job(router, {"query": "add 1"}), "d3")
        recorded(home, recorder, other, a_job(other), "d4")
    report = replay_all(home)
    assert (report.identical, report.total) == (4, 4), report
    assert replay_named(home, ["job-1"]).identical == 4


@pytest.mark.req(7, 68)
def test_a_choice_names_its_snapshots_and_carries_its_facts(home: Home) -> None:
    router = a_router(HOUSE)
    mind = "sha256:" + "7" * 64
    with recorder_of(home) as recorder:
        recorded(home, recorder, router, a_job(router, {"brainstate_id": mind}), "d1")
        recorded(home, recorder, router, a_job(router, {"brainstate_id": mind}), "d2")
    reader = LedgerReader(home.database)
    with closing(reader):
        (stored,) = reader.with_id("d1")
        _, record, aside = read_recorded(stored.entry.payload)
        assert record.kind == "agent"
        assert record.snapshot_ids == {"selfrep": router.selfrep_id, "brainstate": mind}
        assert record.policy_id == POLICY_FORM.id(router.policy.policy)
        assert aside.trace_id == "trace-1"
        assert len(reader.with_id(router.selfrep_id)) == 1
        snapshot = reader.snapshot(router.selfrep_id)
    assert SELFREP_FORM.load(snapshot, home.identity.ledger, home.keys) == router.selfrep


@pytest.mark.req(65)
def test_what_a_trace_only_names_is_attached_to_its_entry(home: Home) -> None:
    router = a_router({**HOUSE, "router_config": {"trace_chars": 100}})
    facts = a_job(router, {"required_action": "z" * 150})
    with recorder_of(home) as recorder:
        recorded(home, recorder, router, facts, "d1")
    (artifact,) = artifacts(router, facts, decide(router, facts)[1])
    reader = LedgerReader(home.database)
    with closing(reader):
        (stored,) = reader.with_id("d1")
        assert reader.attachment(stored, artifact.id) == b"z" * 150
    assert replay_all(home).is_clean


def test_a_large_artifact_is_recorded_once_however_many_decisions_name_it(home: Home) -> None:
    modules = {f"agent:{n:04}": {"apt": 0.5, "status": "offline"} for n in range(600)}
    router = a_router({"modules": {**modules, "agent:a": {"apt": 0.9, "status": "healthy"}}})
    facts = a_job(router)
    with recorder_of(home) as recorder:
        for name in ("d1", "d2", "d3"):
            recorded(home, recorder, router, facts, name)
    with recorder_of(home) as recorder:
        recorded(home, recorder, router, facts, "d4")
    (artifact,) = artifacts(router, facts, decide(router, facts)[1])
    assert len(artifact.body) > SHARED_ARTIFACT
    reader = LedgerReader(home.database)
    with closing(reader):
        (kept,) = reader.with_id(artifact.id)
        assert (kept.entry.kind, reader.attachment(kept, artifact.id)) == (ARTIFACT, artifact.body)
        carried = [len(reader.attachments(reader.with_id(name)[0])) for name in ("d1", "d4")]
    assert carried == [1, 1], "the facts alone"
    assert replay_all(home).is_clean


@pytest.mark.parametrize(
    ("house", "job", "verdict"),
    [
        (HOUSE, {"query": "add 1"}, Verdict.UNABLE),
        (HOUSE, {"query": "add 1", "intent": "math"}, Verdict.IDENTICAL),
        (HOUSE, {"query": "add 1", "blocked": "pii"}, Verdict.IDENTICAL),
        ({"modules": HOUSE["modules"]}, {"query": "add 1"}, Verdict.IDENTICAL),
    ],
)
def test_a_query_is_needed_only_where_a_pattern_reads_it(
    home: Home, house: Any, job: Any, verdict: Verdict
) -> None:
    router = a_router(house)
    with recorder_of(home, "digest") as recorder:
        recorded(home, recorder, router, a_job(router, job), "d1")
    report = replay_all(home)
    if verdict is Verdict.IDENTICAL:
        assert report.is_clean
    else:
        assert report.others[0].code == "MISSING_SNAPSHOT"


@pytest.mark.req(64)
def test_a_changed_outcome_is_a_divergence(home: Home) -> None:
    router = a_router(HOUSE)
    facts = a_job(router)
    outcome, trace = decide(router, facts)
    forged = msgspec.structs.replace(outcome, selected_agent="agent:b")
    with recorder_of(home) as recorder:
        waits = BlockingWaiter()
        seal = recorder.hand_in_text(str(facts.query), waits)
        policy_id = POLICY_FORM.id(router.policy.policy)
        made = agent_decision(router, facts, (forged, trace), seal, policy_id, home.identity.ledger)
        recorder.hand_in_decision(Names("d1", "job-1", Instant(5)), made, ASIDE, waits.expect())
        waits.wait()
    (report,) = replay_all(home).others
    assert report.verdict is Verdict.DIVERGED
    assert [each.path for each in report.differences] == ["outcome.selected_agent"]


def test_a_choice_whose_modules_are_gone_cannot_be_run_again(home: Home) -> None:
    router = a_router(HOUSE)
    facts = a_job(router)
    found = decide(router, facts)
    with recorder_of(home) as recorder:
        waits = BlockingWaiter()
        seal = recorder.hand_in_text(str(facts.query), waits)
        policy_id = POLICY_FORM.id(router.policy.policy)
        made = agent_decision(router, facts, found, seal, policy_id, home.identity.ledger)
        made = msgspec.structs.replace(made, snapshots={})
        recorder.hand_in_decision(Names("d1", "job-1", Instant(5)), made, ASIDE, waits.expect())
        waits.wait()
    (report,) = replay_all(home).others
    assert (report.verdict, report.code) == (Verdict.UNABLE, "MISSING_SNAPSHOT")
    assert router.selfrep_id in report.reason
