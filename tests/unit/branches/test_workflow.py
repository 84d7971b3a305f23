"""Runs of workflows: steps on record, resumed without deciding again."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pointsman.app import Pointsman
from pointsman.errors import ChainHeld, DocumentError, InputError
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.storage.policies.workflow_file import read_workflow
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import CountedIds, FrozenClock
from pointsman.workflows.workflow import RunReport, WorkflowRunner, WorkflowText

DECISIONS = """
decisions:
  - id: gate
    type: binary
    input: "{{ artifact.score }}"
    cases: [{condition: "input >= 0.8", target: deploy, label: Pass}]
    default: {target: rework}
  - id: every
    type: rule_table
    hit_policy: collect
    input: "{{ tags }}"
    rules:
      - {condition: "'a' in input", target: do-a}
      - {condition: "'b' in input", target: do-b}
    default: {target: do-a}
  - id: approved
    type: switch
    cases: [{condition: "true", target: deploy}]
    default: {target: deploy}
    guardrails: [{type: requires_approval, targets: [deploy]}]
  - id: asked
    type: switch
    cases: [{condition: "true", target: deploy}]
    default: {target: deploy}
    guardrails: [{type: requires_approval, targets: [deploy], escalation_target: human}]
  - id: shut
    type: switch
    cases: [{condition: "true", target: deploy}]
    default: {target: deploy}
    guardrails: [{type: no_disabled_targets, disabled_stages: [deploy]}]
"""
FLOW = """
workflow:
  id: flow
  stages:
    - id: rate
      run: {python: "stages:rate"}
      set: {artifact: "{{ output }}"}
      decision: gate
    - {id: deploy, run: {shell: [cat], parse: json}, set: {seen: "{{ output.artifact.score }}"}}
    - {id: rework, next: rate}
"""
STAGES = """
import os, pathlib, time

def count(name):
    path = pathlib.Path(name)
    path.write_text(str(int(path.read_text()) + 1 if path.exists() else 1))
    return int(path.read_text())

def rate(context):
    print("this goes to standard error")
    return {"id": "doc", "score": 0.85, "n": count("rated")}

def slow(context):
    count("slow")
    pathlib.Path("slow-process").write_text(str(os.getpid()))
    pathlib.Path("slow-began").write_text(os.environ["POINTSMAN_ATTEMPT"])
    if os.environ["POINTSMAN_ATTEMPT"] == "1":
        time.sleep(60)
    return {"run": os.environ["POINTSMAN_RUN"], "step": os.environ["POINTSMAN_STEP"]}

def breaks(context):
    raise ValueError("no luck")

def odd(context):
    return {1, 2}
"""
ALL = WorkflowSettings(commands=("cat", "sh", "sleep"), python=("stages",), timeout_s=20)


class House:
    """A home, and a folder of workflows beside it."""

    def __init__(self, path: Path) -> None:
        self.home, self.folder = path / "home", path / "flows"
        (self.home / "decisions").mkdir(parents=True)
        self.folder.mkdir()
        (self.home / "decisions" / "d.yaml").write_text(DECISIONS)
        (self.folder / "stages.py").write_text(STAGES)
        self.pointsman = Pointsman(self.home, clock=FrozenClock(), ids=CountedIds())

    def run(self, text: str = FLOW, run_id: str = "r1", **rest: Any) -> RunReport:
        one = self.pointsman
        runner = WorkflowRunner(
            one.home, one.decision_recorder, one.branching, (one.clock, one.ids)
        )
        given = WorkflowText(text.encode(), "flow.yaml", self.folder)
        return runner.run(given, rest.pop("settings", ALL), run_id, **rest)

    def kinds(self, run_id: str = "r1") -> list[str]:
        with closing(LedgerReader(self.home / "ledger.db")) as ledger:
            return [each.entry.kind for each in ledger.with_ref(run_id)]


@pytest.fixture
def house(tmp_path: Path) -> Any:
    made = House(tmp_path)
    yield made
    made.pointsman.close()


def flow(*stages: str) -> str:
    return "workflow: {id: w, stages: [" + ", ".join(stages) + "]}"


def test_stages_follow_their_decisions_and_every_step_is_on_record(house: House) -> None:
    report = house.run(inputs={"n": 1})
    assert report.status == "done"
    assert [(each.stage_id, each.labels, each.targets) for each in report.steps] == [
        ("rate", ("Pass",), ("deploy",)),
        ("deploy", (), ()),
    ]
    assert str(report.context["seen"]) == "0.85"
    assert house.kinds() == [
        "workflow.started", "workflow.stage_started", "workflow.stage_ended", "decision.branch",
        "workflow.stage_started", "workflow.stage_ended", "workflow.ended",
    ]  # fmt: skip
    assert house.pointsman.replay_all().is_clean


def test_a_run_that_ended_is_told_again_and_nothing_is_done(house: House) -> None:
    first = house.run()
    before = house.kinds()
    again = house.run()
    assert (again.status, again.is_resumed) == ("done", True)
    assert again.context == first.context
    assert all(each.is_recalled for each in again.steps)
    assert house.kinds() == before
    assert (house.folder / "rated").read_text() == "1"


def test_a_failed_stage_is_tried_again_by_the_next_run_of_the_same_id(house: House) -> None:
    text = flow("{id: a, next: b}", "{id: b, run: {shell: [sh, -c, 'cat ready']}}")
    report = house.run(text)
    assert (report.status, report.steps[-1].status) == ("failed", "failed")
    assert "ended with 1" in report.steps[-1].message
    (house.folder / "ready").write_text("yes")
    again = house.run(text)
    assert [each.is_recalled for each in again.steps] == [True, False]
    assert (again.status, again.context["stages"]["b"]["output"]) == ("done", "yes")


@pytest.mark.slow
def test_a_killed_run_goes_on_without_a_second_decision(house: House) -> None:
    (house.folder / "flow.yaml").write_text(
        FLOW.replace("{id: deploy, run: {shell: [cat], parse: json}, "
                     'set: {seen: "{{ output.artifact.score }}"}}',
                     '{id: deploy, run: {python: "stages:slow"}}')
    )  # fmt: skip
    (house.home / "pointsman.yaml").write_text("workflow: {python: [stages]}")
    house.pointsman.close()
    script = (
        "import sys, pathlib\n"
        "from pointsman.app import Pointsman\n"
        "from pointsman.cli.workflow import run_workflow\n"
        f"with Pointsman(pathlib.Path({str(house.home)!r})) as p:\n"
        f"    path = pathlib.Path({str(house.folder / 'flow.yaml')!r})\n"
        "    report = run_workflow(p, path, 'r1', {'n': 1})\n"
        "    print(report.status, report.is_resumed, len(report.steps))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    began, end = house.folder / "slow-began", time.monotonic() + 30
    while not began.exists() and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    # What the killed run had begun goes on by itself; nobody but us would end it.
    os.kill(int((house.folder / "slow-process").read_text()), signal.SIGKILL)
    decided = house.kinds().count("decision.branch")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["done", "True", "2"]
    assert (decided, house.kinds().count("decision.branch")) == (1, 1)
    assert house.kinds().count("workflow.stage_started") == 3
    assert (house.folder / "rated").read_text() == "1", "the first stage was not done again"
    assert began.read_text() == "2"
    with Pointsman(house.home) as pointsman:
        assert pointsman.replay_all().is_clean
        assert pointsman.verify().is_intact


def test_all_targets_of_a_collecting_table_run_in_order(house: House) -> None:
    text = flow(
        "{id: start, decision: every}", "{id: do-a, next: last}", "{id: do-b}", "{id: last}"
    )
    report = house.run(text, inputs={"tags": ["b", "a"]})
    assert [each.stage_id for each in report.steps] == ["start", "do-a", "do-b", "last"]


def test_a_run_waits_for_an_approval_and_goes_on_when_it_comes(house: House) -> None:
    text = flow("{id: start, decision: approved}", "{id: deploy}")
    report = house.run(text)
    assert (report.status, report.waiting_for) == ("waiting", ("deploy",))
    (step,) = report.steps
    assert (step.stage_id, step.targets) == ("start", ())
    assert house.run(text).status == "waiting"
    assert house.kinds().count("decision.branch") == 1, "asking again is not deciding again"
    assert house.run(text, approved=("deploy",)).status == "done"
    assert house.run(text).status == "done", "the approval is on record"


ROUND = (
    "{id: start, decision: asked}",
    "{id: deploy}",
    '{id: human, run: {python: "stages:rate"}, next: told}',
    "{id: told}",
)


def counted(house: House, name: str) -> int:
    path = house.folder / name
    return int(path.read_text()) if path.exists() else 0


def test_an_escalation_target_stands_in_for_a_choice_until_it_is_approved(house: House) -> None:
    text = flow(*ROUND)
    report = house.run(text)
    assert (report.status, report.waiting_for) == ("waiting", ("deploy",))
    assert [each.stage_id for each in report.steps] == ["start", "human", "told"]
    assert report.steps[0].targets == ("human",)
    again = house.run(text)
    assert (again.status, counted(house, "rated")) == ("waiting", 1), "the way round is gone once"
    assert house.kinds().count("decision.branch") == 1
    done = house.run(text, approved=("deploy",))
    assert [each.stage_id for each in done.steps] == ["start", "human", "told", "deploy"]
    assert (done.status, done.steps[0].targets) == ("done", ("deploy",))
    assert (counted(house, "rated"), house.kinds().count("decision.branch")) == (1, 2)
    assert house.run(text).steps[-1].is_recalled, "the approval and the steps are on record"
    assert counted(house, "rated") == 1


def test_a_choice_that_is_approved_at_once_goes_no_way_round(house: House) -> None:
    report = house.run(flow("{id: start, decision: asked}", "{id: deploy}", "{id: human}"),
                       approved=("deploy",))  # fmt: skip
    assert (report.status, [each.stage_id for each in report.steps]) == (
        "done",
        ["start", "deploy"],
    )


def test_a_decision_can_lead_to_another_workflow_which_is_resumed_with_its_own_id(
    house: House,
) -> None:
    (house.home / "workflows").mkdir()
    inner = 'workflow: {id: deploy, stages: [{id: one, run: {shell: [sh, -c, "cat ready"]}}]}'
    (house.home / "workflows" / "deploy.yaml").write_text(inner)
    (house.home / "decisions" / "d.yaml").write_text(
        "decision: {id: go, type: switch, default: {target: deploy},"
        ' cases: [{condition: "true", target: deploy}]}'
    )
    text = flow("{id: start, decision: go}")
    report = house.run(text, inputs={"n": 1})
    assert (report.status, report.steps[1].message) == ("failed", "run r1.2 failed")
    (house.home / "workflows" / "ready").write_text("yes")
    again = house.run(text)
    assert (again.status, again.steps[1].message) == ("done", "run r1.2 done")
    assert again.context["stages"]["deploy"]["output"]["n"] == 1
    assert house.kinds().count("decision.branch") == 1


def test_a_workflow_that_leads_to_itself_ends(house: House) -> None:
    (house.home / "workflows").mkdir()
    text = flow("{id: start, decision: go}")
    (house.home / "workflows" / "w.yaml").write_text(text)
    (house.home / "decisions" / "d.yaml").write_text(
        "decision: {id: go, type: switch, default: {target: w},"
        ' cases: [{condition: "true", target: w}]}'
    )
    assert house.run(text).status == "failed"


def test_a_choice_that_is_blocked_ends_its_path(house: House) -> None:
    report = house.run(flow("{id: start, decision: shut}", "{id: deploy}"))
    assert (report.status, len(report.steps)) == ("blocked", 1)


def test_a_ring_of_stages_ends_after_the_steps_allowed(house: House) -> None:
    stages = "[{id: a, next: b}, {id: b, next: a}]"
    report = house.run(f"workflow: {{id: w, max_steps: 5, stages: {stages}}}")
    assert (report.status, len(report.steps)) == ("failed", 6)
    assert report.steps[-1].message == "more than 5 steps"


def test_a_failure_that_is_allowed_can_be_decided_about(house: House) -> None:
    text = flow(
        '{id: try, allow_failure: true, run: {python: "stages:breaks"}, next: after}',
        '{id: after, set: {how: "{{ stages.try.status }}"}}',
    )
    report = house.run(text)
    assert (report.status, report.context["how"]) == ("done", "failed")
    assert report.steps[0].message == "ended with 1: ValueError: no luck"


def test_another_file_or_other_inputs_are_not_the_same_run(house: House) -> None:
    house.run(inputs={"n": 1})
    with pytest.raises(InputError, match="not the one that the run `r1` began with"):
        house.run(FLOW + "\n# changed\n")
    with pytest.raises(InputError, match="began with other inputs"):
        house.run(inputs={"n": 2})
    assert house.run(inputs={"n": 1}).status == "done"


def test_one_process_at_a_time_has_a_run(house: House) -> None:
    from pointsman.workflows.workflow import _lease

    lease = _lease(house.pointsman.home, "r1")
    try:
        with pytest.raises(ChainHeld, match="another process has the run `r1`"):
            house.run()
    finally:
        lease.release()


@pytest.mark.req(349)
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (flow("{id: a, decision: gaet}"), "there is no decision `gaet` (did you mean `gate`?)"),
        (flow("{id: a, decision: gate}"), "`gate` can lead to `deploy`, which is no stage here"),
        (flow("{id: a, next: b}"), "there is no stage `b`"),
        (flow("{id: a}", "{id: a}"), "the stage `a` is there already"),
        (flow("{id: a, run: {}}"), "an action has exactly one of"),
        (flow("{id: a, set: {x: '{{ 1 + }}'}}"), "column"),
        (flow("{id: a, run: {shell: [cat, '{{ a. }}']}}"), "expected a name after `.`"),
        (flow("{id: a, decision: gate, next: a}"), "either `decision` or `next`"),
        ("workflow: {id: w, start: x, stages: [{id: a}]}", "there is no stage `x`"),
    ],
)
def test_a_workflow_that_cannot_run_is_refused_before_it_begins(
    house: House, text: str, problem: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        house.run(text)
    assert problem in str(caught.value)
    assert not (house.home / "ledger.db").exists()


def test_a_stage_that_gives_nothing_exact_fails(house: House) -> None:
    report = house.run(flow('{id: a, run: {python: "stages:odd"}, set: {x: "{{ gone }}"}}'))
    assert (report.status, "missing `gone`" in report.steps[0].message) == ("failed", True)


def test_a_workflow_is_read_with_its_defaults() -> None:
    read = read_workflow(b"workflow: {id: w, stages: [{id: a}]}", "w.yaml")
    assert (read.first, read.max_steps, read.stage("b")) == ("a", 100, None)
