"""The log of workflow decisions: the same evaluations read back the same, wherever recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pointsman.kernel.instant import Instant
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.taints import Taints
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import PolicyFiles
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import CountedIds, FrozenClock
from pointsman.workflows.branch_log import BranchLog, Distribution, log_value
from pointsman.workflows.branching import Branching, EvaluationRequest

GATE = """
decision:
  id: gate
  type: switch
  input: "{{ score }}"
  cases:
    - {condition: "input >= 80", target: deploy, label: pass}
    - {condition: "input >= 50", target: review, label: look}
  default: {target: rework}
"""


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def branching(home: Home, clock: FrozenClock) -> Iterator[Branching]:
    folder = home.path / "decisions"
    folder.mkdir()
    (folder / "gate.yaml").write_text(GATE)
    taints, sources = Taints(home.database), (clock, CountedIds())
    decision_recorder = DecisionRecorder(
        home, PolicyFiles(home, ("routing.yaml",)), "cli", sources, taints
    )
    found = Branching(home, decision_recorder, *sources)
    yield found
    found.close()
    taints.close()
    decision_recorder.close()


def test_evaluations_are_logged_in_their_order(
    home: Home, clock: FrozenClock, branching: Branching
) -> None:
    for number, score in enumerate((90, 60, 10, 85)):
        branching.evaluate(
            "gate", {"score": score}, EvaluationRequest(workflow_id=f"w{number % 2}")
        )
        clock.advance(seconds=1)
    with closing(LedgerReader(home.database)) as ledger:
        log = BranchLog(ledger)
        labels = [each.outcome.selected_labels for each in log.query()]
        assert labels == [("pass",), ("look",), ("default",), ("pass",)]
        assert len([*log.query(workflow_id="w0")]) == 2
        late = Instant(clock.now() - 1_000_000)
        assert [each.outcome.selected_labels for each in log.query(since=late)] == [("pass",)]
        assert log.distribution("gate") == Distribution(
            "gate", 4, {"default": 1, "look": 1, "pass": 2}
        )


def test_an_entry_of_the_log_shows_the_same_wherever_it_is_kept(
    home: Home, branching: Branching
) -> None:
    evaluation = branching.evaluate(
        "gate", {"score": 60}, EvaluationRequest(workflow_id="w", stage_id="s")
    )
    with closing(LedgerReader(home.database)) as ledger:
        (entry,) = BranchLog(ledger).query()
        value = log_value(entry)
    assert entry.id == evaluation.evaluation_id
    assert entry.outcome == evaluation.outcome
    assert value["selected_targets"] == ("review",)
    assert (value["workflow_id"], value["stage_id"]) == ("w", "s")
