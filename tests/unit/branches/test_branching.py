"""The service of branches: cache, record, log, dry run. One home, time that stands still."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from pointsman.app import Pointsman
from pointsman.branches.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.errors import InputError, NotFound, ValueRefused
from pointsman.kernel.instant import read_instant
from pointsman.storage.policies.decision_files import DecisionFiles
from pointsman.storage.stores.decision_cache import DecisionCache, Kept, cache_counts
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import CountedIds, FrozenClock
from pointsman.workflows.branch_log import BranchLog, evaluation_value, log_value
from pointsman.workflows.branching import CACHE_FILE, BranchEvaluation, EvaluationRequest, dry_run

GATE = """
decision:
  id: gate
  name: "Quality Gate"
  type: binary
  input: "{{ artifact.score }}"
  cases:
    - {condition: "input >= 0.8 and mood != 'bad'", target: deploy, label: Pass}
    - {condition: "input < 0.8", target: rework, label: Fail}
  default: {target: rework}
  cache: {enabled: true, ttl: 1h}
"""
QUIET = """
decisions:
  - id: quiet
    type: switch
    input: "{{ kind }}"
    cases: [{condition: "input == 'a'", target: x, label: A}]
    default: {target: y}
    logging: {log_decision: false}
  - id: shy
    type: switch
    input: "{{ kind }}"
    cases: [{condition: "input == 'a'", target: x, label: A}]
    default: {target: y}
    logging: {include_inputs: false, include_evaluation: false}
  - id: guarded
    type: switch
    input: "{{ kind }}"
    cases: [{condition: "input == 'a'", target: x, label: A}]
    default: {target: y}
    guardrails:
      - {type: requires_approval, targets: [x]}
      - {type: no_disabled_targets, disabled_stages: [y], escalation_target: human}
"""
GOOD = {"artifact": {"id": "a-1", "version": 3, "score": 1}, "mood": "fine"}


class House:
    """A home with two files of decisions."""

    def __init__(self, path: Path) -> None:
        folder = path / "decisions"
        folder.mkdir(parents=True)
        (folder / "gate.yaml").write_text(GATE)
        (folder / "quiet.yaml").write_text(QUIET)
        self.path = path
        self.clock = FrozenClock()
        self.pointsman = Pointsman(path, clock=self.clock, ids=CountedIds())

    def ask(self, name: str = "gate", context: Any = None, **asked: Any) -> BranchEvaluation:
        given = GOOD if context is None else context
        return self.pointsman.branching.evaluate(name, given, EvaluationRequest(**asked))

    def log(self, *args: Any) -> list[dict[str, Any]]:
        ledger = LedgerReader(self.path / "ledger.db")
        try:
            return [log_value(each) for each in BranchLog(ledger).query(*args)]
        finally:
            ledger.close()

    def distribution(self, name: str) -> dict[str, int]:
        ledger = LedgerReader(self.path / "ledger.db")
        try:
            return BranchLog(ledger).distribution(name).labels
        finally:
            ledger.close()


@pytest.fixture
def house(tmp_path: Path) -> Any:
    made = House(tmp_path / "home")
    yield made
    made.pointsman.close()


@pytest.mark.req(321, 326)
def test_a_hit_before_expiry_is_an_equal_answer_that_says_it_is_cached(house: House) -> None:
    first = house.ask()
    house.clock.advance(seconds=3599)
    second = house.ask()
    assert (first.is_cached, second.is_cached) == (False, True)
    assert OUTCOME_FORM.encode(first.outcome) == OUTCOME_FORM.encode(second.outcome)
    assert TRACE_FORM.encode(first.trace) == TRACE_FORM.encode(second.trace)
    assert second.at - first.at == 3599 * 1_000_000
    assert second.evaluated_at == first.evaluated_at == first.at
    value = evaluation_value(second)
    assert value["cached"] is True
    assert evaluation_value(first)["cached"] is False


@pytest.mark.req(328)
def test_an_expired_answer_is_removed_and_counts_as_a_miss(house: House) -> None:
    house.ask()
    house.clock.advance(seconds=3600)
    now = house.clock.now()
    assert [each.expired for each in cache_counts(house.path / CACHE_FILE, now)] == [1]
    assert not house.ask().is_cached
    counts = cache_counts(house.path / CACHE_FILE, house.clock.now())
    assert [(each.entries, each.expired) for each in counts] == [(1, 0)]


@pytest.mark.req(327)
def test_what_a_caller_does_to_an_answer_or_a_context_does_not_reach_the_cache(
    house: House,
) -> None:
    context: dict[str, Any] = {"artifact": {"score": 1, "tags": ["x"]}, "mood": "fine"}
    value: Any = evaluation_value(house.ask(context=context))
    context["artifact"]["tags"].append("y")
    value["evaluation_details"].clear()
    again: Any = evaluation_value(house.ask(context={"artifact": {"score": 1}, "mood": "fine"}))
    assert again["cached"] is True
    assert len(again["evaluation_details"]) == 2


@pytest.mark.req(329)
def test_the_key_does_not_know_the_order_of_a_mapping(house: House) -> None:
    house.ask(context={"artifact": {"score": 1, "id": "a"}, "mood": "fine"})
    assert house.ask(context={"mood": "fine", "artifact": {"id": "a", "score": 1}}).is_cached


def test_the_key_knows_what_the_conditions_read_and_nothing_else(house: House) -> None:
    house.ask()
    assert house.ask(context=GOOD | {"weather": "rain"}).is_cached
    other = house.ask(context=GOOD | {"mood": "bad"})
    assert (other.is_cached, other.outcome.is_default) == (False, True)
    assert not house.ask(context={"artifact": {"score": 1}}).is_cached
    assert not house.ask(context={"artifact": {"score": "1"}, "mood": "fine"}).is_cached


def test_a_changed_definition_has_answers_of_its_own(house: House) -> None:
    house.ask()
    path = house.path / "decisions" / "gate.yaml"
    path.write_text(GATE.replace("target: deploy", "target: release"))
    made = house.ask()
    assert not made.is_cached
    assert made.outcome.selected_targets == ("release",)


@pytest.mark.req(330, 331)
def test_invalidate_removes_one_decisions_answers_and_clear_all(house: House) -> None:
    text = GATE.replace("id: gate", "id: other")
    (house.path / "decisions" / "other.yaml").write_text(text)
    house.ask()
    house.ask(context=GOOD | {"mood": "odd"})
    house.ask("other")
    cache = house.pointsman.branching.cache
    assert cache.invalidate("gate") == 2
    assert cache.invalidate("gate") == 0
    assert house.ask("other").is_cached
    assert cache.clear() == 1
    assert not house.ask("other").is_cached


def test_a_decision_without_a_cache_leaves_no_file(house: House) -> None:
    house.ask("shy", {"kind": "a"})
    assert not (house.path / CACHE_FILE).exists()


def test_a_forged_or_damaged_cache_is_an_empty_one(house: House) -> None:
    house.ask()
    connection = apsw.Connection(str(house.path / CACHE_FILE))
    connection.execute("UPDATE answer SET body = CAST(replace(body, 'deploy', 'ruin') AS BLOB)")
    connection.execute("UPDATE answer SET expires_at = expires_at + 1")
    connection.close()
    made = house.ask()
    assert (made.is_cached, made.outcome.selected_targets) == (False, ("deploy",))
    house.pointsman.branching.close()
    for suffix in ("-wal", "-shm"):
        (house.path / f"{CACHE_FILE}{suffix}").unlink(missing_ok=True)
    (house.path / CACHE_FILE).write_bytes(b"not a database" * 1000)
    fresh = Pointsman(house.path, clock=house.clock, ids=CountedIds("new"))
    assert fresh.branching.evaluate("gate", GOOD).outcome.selected_targets == ("deploy",)
    fresh.close()


def test_the_cache_is_bounded_and_lets_the_least_used_go(tmp_path: Path) -> None:
    cache = DecisionCache(tmp_path / "c.db", b"k" * 32, most=3)
    now = read_instant("2026-01-01T00:00:00Z")
    later = read_instant("2026-01-02T00:00:00Z")
    for name in (b"a", b"b", b"c"):
        cache.store(name, Kept("d", name, now, later))
    assert cache.get(b"a", now) is not None
    cache.store(b"d", Kept("d", b"d", now, later))
    assert [cache.get(name, now) is not None for name in (b"a", b"b", b"c", b"d")] == [
        True, False, True, True,
    ]  # fmt: skip
    cache.close()


def test_a_clock_that_was_set_back_makes_no_answer_last_longer(house: House) -> None:
    house.ask()
    house.clock.advance(seconds=-10)
    assert not house.ask().is_cached


@pytest.mark.req(332)
def test_log_decision_false_keeps_an_evaluation_out_of_the_log_but_not_out_of_the_ledger(
    house: House,
) -> None:
    house.ask("quiet", {"kind": "a"})
    assert house.log() == []
    assert house.distribution("quiet") == {"A": 1}
    assert house.pointsman.replay_all().total == 1


@pytest.mark.req(333, 334)
def test_inputs_and_details_are_left_out_of_the_log_on_request(house: House) -> None:
    house.ask("shy", {"kind": "a"})
    (entry,) = house.log()
    assert (entry["input_value"], entry["evaluation_details"]) == (None, [])
    assert entry["selected_labels"] == ("A",)


@pytest.mark.req(335)
def test_an_entry_of_the_log_says_everything(house: House) -> None:
    house.ask(workflow_id="run-1", stage_id="check")
    (entry,) = house.log()
    assert {"decision_id", "decision_name", "timestamp", "input_value", "selected_targets",
            "selected_labels", "evaluation_details", "cached", "workflow_id",
            "stage_id"} <= set(entry)  # fmt: skip
    assert (entry["decision_id"], entry["decision_name"]) == ("gate", "Quality Gate")
    assert (entry["workflow_id"], entry["stage_id"]) == ("run-1", "check")
    assert entry["timestamp"] == "2026-01-01T00:00:00.000000Z"
    assert [each["result"] for each in entry["evaluation_details"]] == [True, None]


@pytest.mark.req(336, 337)
def test_the_log_is_filtered_by_decision_workflow_and_instant_together(house: House) -> None:
    for seconds, run in ((0, "w1"), (0, "w2"), (1, "w1")):
        house.clock.advance(seconds=seconds, microseconds=500_000 if seconds else 0)
        house.ask(workflow_id=run)
        house.ask("shy", {"kind": "b"}, workflow_id=run)
    assert len(house.log()) == 6
    assert len(house.log("gate")) == 3
    assert len(house.log("gate", "w1")) == 2
    # Half a second past: as texts "…01.5Z" would sort before "…01Z".
    since = read_instant("2026-01-01T01:00:01+01:00")
    assert [each["timestamp"] for each in house.log("gate", "w1", since)] == [
        "2026-01-01T00:00:01.500000Z"
    ]
    exactly = read_instant("2026-01-01T00:00:01.5Z")
    assert len(house.log("gate", "w1", exactly)) == 1
    assert house.log("") == []
    times = [each["timestamp"] for each in house.log()]
    assert times == sorted(times)


@pytest.mark.req(338)
def test_the_distribution_counts_each_selected_label(house: House) -> None:
    for score in (1, 1, 0):
        house.ask(context={"artifact": {"score": score}, "mood": "fine"})
    house.ask(context={})
    assert house.distribution("gate") == {"Fail": 1, "Pass": 2, "default": 1}
    assert house.distribution("nobody") == {}


def test_cached_and_fresh_answers_replay_to_the_byte(house: House) -> None:
    for context in (GOOD, GOOD, {}, GOOD | {"mood": "bad"}, GOOD):
        house.ask(context=context)
    report = house.pointsman.replay_all()
    assert (report.identical, report.total) == (5, 5)
    assert house.pointsman.verify().is_intact


@pytest.mark.req(344)
def test_a_dry_run_leaves_no_trace_and_says_the_same(house: House, tmp_path: Path) -> None:
    made = house.ask()
    before = {path: path.read_bytes() for path in house.path.rglob("*") if path.is_file()}
    tried = dry_run(house.pointsman.branching.in_force(), "gate", GOOD, house.clock.now())
    assert tried.outcome == made.outcome
    assert (tried.is_dry_run, tried.is_cached, tried.evaluation_id) == (True, False, "")
    after = {path: path.read_bytes() for path in house.path.rglob("*") if path.is_file()}
    assert before == after


def test_nothing_may_act_while_an_approval_is_missing(house: House) -> None:
    made = house.ask("guarded", {"kind": "a"})
    assert made.outcome.approval_required == ("x",)
    assert (made.outcome.selected_targets, made.outcome.withheld_targets) == ((), ("x",))
    approved = house.ask("guarded", {"kind": "a"}, approved=("x",))
    assert approved.outcome.approval_required == ()
    assert approved.outcome.selected_targets == ("x",)
    assert approved.outcome.withheld_targets == ()
    blocked = house.ask("guarded", {"kind": "b"})
    assert (blocked.outcome.blocked, blocked.outcome.selected_targets) == (True, ("human",))


@pytest.mark.req(325)
def test_evaluating_leaves_the_callers_context_alone(house: House) -> None:
    context = {"artifact": {"score": 1}, "mood": "fine"}
    house.ask(context=context)
    assert context == {"artifact": {"score": 1}, "mood": "fine"}


def test_what_cannot_be_evaluated_is_refused_and_leaves_nothing(house: House) -> None:
    with pytest.raises(NotFound) as caught:
        house.ask("gat")
    assert caught.value.hint == "did you mean `gate`?"
    with pytest.raises(ValueRefused):
        house.ask(context={"score": 0.5})
    with pytest.raises(InputError, match="cannot name"):
        house.ask(workflow_id="größe")
    assert house.log() == []


class TestFiles:
    """The folder of decisions, file by file."""

    def test_a_broken_file_keeps_its_last_good_content_and_the_others_go_on(
        self, house: House
    ) -> None:
        files = house.pointsman.branching.files
        assert sorted(files.current().decisions) == ["gate", "guarded", "quiet", "shy"]
        (house.path / "decisions" / "gate.yaml").write_text("decision: {id: gate}")
        now = files.current()
        assert "gate" in now.decisions
        assert [each.using_last_known_good for each in now.invalid] == [True]
        assert now.problems_of("gate")
        assert now.problems_of("shy") == ()
        again = DecisionFiles(house.path).current()
        assert "gate" in again.decisions, "another process knows it too"

    def test_errors_of_all_files_come_in_one_list(self, house: House) -> None:
        folder = house.path / "decisions"
        (folder / "z1.yaml").write_text("decision: {id: gate, type: fuzzy}")
        (folder / "z2.yaml").write_text(GATE)
        text = "\n".join(map(str, house.pointsman.branching.in_force().problems))
        assert "z1.yaml" in text
        assert "z2.yaml:3:7: config.duplicate_key: the id `gate` is taken" in text

    def test_reading_without_a_trace_writes_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "decisions").mkdir()
        (tmp_path / "decisions" / "gate.yaml").write_text(GATE)
        assert DecisionFiles(tmp_path, is_kept=False).current().decisions
        assert [path.name for path in tmp_path.iterdir()] == ["decisions"]

    def test_a_file_that_is_taken_away_takes_its_decisions_along(self, house: House) -> None:
        files = house.pointsman.branching.files
        files.current()
        (house.path / "decisions" / "gate.yaml").unlink()
        assert "gate" not in files.current().decisions

    @pytest.mark.req(349)
    def test_where_workflows_declare_stages_another_target_is_an_error(self, house: House) -> None:
        folder = house.path / "workflows"
        folder.mkdir()
        stages = "[{id: deploy}, {id: rework}, {id: x}, {id: y}]"
        (folder / "w.yaml").write_text(f"workflow: {{id: w, stages: {stages}}}")
        problems = house.pointsman.branching.in_force().problems
        assert [each.message for each in problems] == ["`human` is not a known target"]
        (folder / "broken.yaml").write_text("workflow: 3")
        text = str(house.pointsman.branching.in_force().problems)
        assert "human" not in text, "what cannot be read declares nothing"
