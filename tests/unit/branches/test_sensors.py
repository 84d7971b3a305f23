"""Sensors: what happened is filtered, debounced, told apart, decided about, and run."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.branches.watched_home import House

from pointsman.errors import DocumentError, InputError
from pointsman.kernel.instant import Instant
from pointsman.sensors.event import SensorEvent, forget_old, is_duplicate
from pointsman.storage.policies.sensor_file import read_sensors

FILES = """
sensor:
  id: files
  type: file_change
  trigger: {paths: [in], filter: "event.data.change_type != 'deleted'", debounce: 2s}
  decision: by-type
  targets:
    check-schema: {run: {shell: [sh, -c, "cat > schema.json"]}}
    check-text: {run: {shell: [sh, -c, "cat > text.json"]}}
    leave: {run: {shell: [sh, -c, "true"]}}
"""


@pytest.fixture
def house(tmp_path: Path) -> Any:
    made = House(tmp_path / "home")
    yield made
    made.pointsman.close()


@pytest.mark.req(348)
def test_a_file_event_is_routed_by_its_type_through_a_decision_to_what_runs(house: House) -> None:
    house.sensor(FILES)
    house.service.check()
    house.service.tick()
    (house.path / "in" / "schema.yaml").write_text("a: 1")
    (house.path / "in" / "readme.md").write_text("hello")
    house.service.tick()
    assert house.said() == [], "the debounce has not passed"
    house.clock.advance(seconds=2)
    house.service.tick()
    assert house.said() == [
        ("files-1", "check-text", "done"),
        ("files-2", "check-schema", "done"),
    ]
    seen = json.loads((house.path / "schema.json").read_text())
    assert seen["event"]["data"]["change_type"] == "added"
    log = house.pointsman.replay_all()
    assert (log.identical, log.total) == (2, 2)


def test_what_changes_again_while_it_is_debounced_fires_once_with_its_last_state(
    house: House,
) -> None:
    house.sensor(FILES)
    path = house.path / "in" / "a.md"
    house.service.tick()
    for number in range(3):
        path.write_text("x" * (number + 1))
        house.service.tick()
        house.clock.advance(seconds=1)
    house.service.tick()
    assert house.said() == []
    house.clock.advance(seconds=1)
    house.service.tick()
    assert house.said() == [("files-3", "check-text", "done")]
    path.unlink()
    house.service.tick()
    house.clock.advance(seconds=5)
    house.service.tick()
    assert len(house.heard) == 1, "the filter leaves deletions out"


def test_what_was_there_before_counts_only_where_it_is_asked_for(house: House) -> None:
    (house.path / "in" / "a.md").write_text("x")
    house.sensor(FILES)
    house.service.tick()
    house.clock.advance(seconds=9)
    house.service.tick()
    assert house.heard == []
    sensor = FILES.replace("debounce: 2s", "initial: fire").replace("id: files", "id: keen")
    house.sensor(sensor)
    house.service.tick()
    assert house.said() == [("keen-1", "check-text", "done")]


MANUAL = """
sensor:
  id: button
  type: manual
  trigger: {filter: "event.data.n > 0"}
  target: {run: {shell: [sh, -c, "test -e ok"], timeout: 5s}}
  error_handling: {on_failure: HANDLING, max_retries: 2, alert_after: 2, backoff: 10s}
"""


def test_a_failing_target_is_tried_again_with_growing_pauses_then_given_up(house: House) -> None:
    house.sensor(MANUAL.replace("HANDLING", "alert"))
    house.manual(n=1)
    due = house.service.tick()
    pauses = []
    while due is not None:
        pauses.append((due - house.clock.now()) // 1_000_000)
        house.clock.advance(seconds=pauses[-1])
        due = house.service.tick()
    assert pauses == [10, 20]
    assert [each.status for each in house.heard] == ["failed"] * 3
    assert house.kinds() == [
        "event.sensor.fired", "event.sensor.acted", "event.sensor.acted", "event.sensor.alert",
        "event.sensor.acted", "event.sensor.dead_letter",
    ]  # fmt: skip
    state = house.service.states.load("button")
    assert (state.trigger_count, state.error_count, state.consecutive_failures) == (1, 3, 3)
    (house.path / "ok").write_text("")
    house.manual(n=2)
    house.service.tick()
    assert house.heard[-1].status == "done"
    assert house.service.states.load("button").consecutive_failures == 0


def test_a_sensor_that_fails_too_often_is_disabled_on_request(house: House) -> None:
    house.sensor(MANUAL.replace("HANDLING", "disable").replace("max_retries: 2", "max_retries: 0"))
    house.manual(n=1)
    assert house.service.tick() is None
    assert house.kinds()[-2:] == ["event.sensor.dead_letter", "event.sensor.disabled"]
    with pytest.raises(InputError, match="not active"):
        house.manual(n=1)


def test_a_filter_lets_only_true_pass_and_manual_events_are_never_duplicates(
    house: House,
) -> None:
    house.sensor(MANUAL.replace("HANDLING", "retry"))
    (house.path / "ok").write_text("")
    assert house.manual(n=0) is None
    assert house.manual(m=1) is None, "unknown is not true"
    house.manual(n=1)
    house.manual(n=1)
    house.service.tick()
    assert len(house.heard) == 2


GUARDED = """
decision:
  id: by-type
  type: switch
  cases: [{condition: "event.data.n == 1", target: a}]
  default: {target: b}
  guardrails:
    - {type: requires_approval, targets: [a]}
    - {type: no_disabled_targets, disabled_stages: [b]}
"""


def test_what_waits_for_approval_or_is_blocked_runs_nothing_and_is_told(house: House) -> None:
    (house.path / "decisions" / "d.yaml").write_text(GUARDED)
    house.sensor(
        "sensor: {id: s, type: manual, decision: by-type, targets: {a: {workflow: no.yaml}, "
        "b: {workflow: no.yaml}}}"
    )
    house.manual(n=1)
    house.manual(n=2)
    assert house.service.tick() is None
    assert house.said() == [("s-1", "a", "waiting"), ("s-2", "", "blocked")]


def test_a_workflow_that_is_not_there_is_a_failure_that_is_tried_again(house: House) -> None:
    house.sensor("sensor: {id: s, type: manual, target: {workflow: gone.yaml}}")
    house.manual(n=1)
    assert house.service.tick() is not None
    assert "gone.yaml: cannot be read" in house.heard[0].message


def test_an_event_is_never_taken_for_one_of_the_same_number(house: House) -> None:
    house.sensor(FILES.replace("debounce: 2s", "initial: fire"))
    (house.path / "in" / "a.md").write_text("x")
    house.service.tick()
    (house.path / "sensor-state" / "files.json").unlink()
    (house.path / "in" / "a.md").rename(house.path / "in" / "b.yaml")
    house.service.tick()
    assert house.said() == [
        ("files-1", "check-text", "done"),
        ("files-2", "check-schema", "done"),
    ]


def test_what_a_sensor_remembers_must_be_readable(house: House) -> None:
    house.sensor("sensor: {id: s, type: manual, target: {workflow: gone.yaml}}")
    house.manual(n=1)
    (house.path / "sensor-state" / "s.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        house.service.tick()


def test_a_crash_between_decision_and_work_does_not_decide_twice(house: House) -> None:
    house.sensor(FILES.replace("debounce: 2s", "initial: fire"))
    (house.path / "in" / "a.md").write_text("x")
    sensor = house.service.files.current().sensors[0]
    saved = []
    save = house.service.states.save

    def dies(name: str, state: Any) -> None:
        if state.work:
            raise KeyboardInterrupt
        save(name, state)
        saved.append(len(state.undecided))

    house.service.states.save = dies
    with pytest.raises(KeyboardInterrupt):
        house.service.tick()
    house.service.states.save = save
    house.service.work(sensor)
    assert house.said() == [("files-1", "check-text", "done")]
    assert house.pointsman.replay_all().total == 1
    assert saved[-1] == 1


ONE = "{id: s, type: manual, target: {workflow: w}}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sensor: {id: s, type: file_change, target: {workflow: w}}", "needs `paths`"),
        ("sensor: {id: s, type: schedule, target: {workflow: w}}", "needs `every` or `cron`"),
        ("sensor: {id: s, type: schedule, trigger: {cron: '* *'}, target: {workflow: w}}",
         "does not have five fields"),
        ("sensor: {id: s, type: manual}", "a `decision` with `targets`, or one `target`"),
        ("sensor: {id: s, type: manual, target: {}}", "either `run` or `workflow`"),
        ("sensor: {id: s, type: manual, trigger: {filter: 'event.'}, target: {workflow: w}}",
         "column 7"),
        (f"sensors: [{ONE}, {ONE}]", "is there already"),
        ("{}", "either `sensor` or `sensors`"),
    ],
)  # fmt: skip
def test_sensors_that_cannot_work_are_refused_at_their_place(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_sensors(text.encode(), "s.yaml")
    assert problem in str(caught.value)


def test_every_branch_of_a_sensors_decision_needs_something_to_run(house: House) -> None:
    house.sensor(FILES.replace('    leave: {run: {shell: [sh, -c, "true"]}}\n', ""))
    with pytest.raises(InputError, match="nothing runs for the target `leave`"):
        house.service.check()
    house.sensor(FILES.replace("decision: by-type", "decision: by-tpye"))
    with pytest.raises(InputError, match="did you mean `by-type`"):
        house.service.check()


@pytest.mark.parametrize(("passed_us", "is_again"), [(1_999_999, True), (2_000_000, False)])
def test_an_equal_event_is_a_duplicate_until_the_window_is_over(
    passed_us: int, is_again: bool
) -> None:
    text = FILES.replace("debounce: 2s", "dedup: 2s").encode()
    (sensor,) = read_sensors(text, "s.yaml").every
    event = SensorEvent("s", "file_change", "e", 1, Instant(0), {"n": 1})
    fired, now = {event.fingerprint: 5}, Instant(5 + passed_us)
    assert is_duplicate(sensor, event, fired, now) is is_again
    assert forget_old(sensor, fired, now) == (fired if is_again else {})
    assert not is_duplicate(sensor, event, {}, now)


ONE_IS_BROKEN = """
sensors:
  - {id: sound, type: manual, target: {run: {shell: [sh, -c, "echo sound > sound.txt"]}}}
  - {id: broken, type: manual, targett: {run: {shell: [sh, -c, "true"]}}}
  - {id: lost, type: manual, decision: nowhere, targets: {a: {run: {shell: [sh, -c, "true"]}}}}
"""


def test_one_bad_key_in_a_file_of_sensors_leaves_the_others_running(house: House) -> None:
    house.sensor(ONE_IS_BROKEN)
    found = house.service.files.current()
    assert [each.id for each in found.sensors] == ["sound", "lost"]
    assert len(found.problems) == 1
    assert house.service.check() == ["`lost`: there is no decision `nowhere`"]
    house.manual()
    house.service.tick()
    assert house.said() == [("sound-1", "sound", "done")]
    with pytest.raises(InputError, match="nowhere"):
        house.service.check(["lost"])


def test_an_event_left_by_another_process_is_taken_once_though_its_file_stays(
    house: House,
) -> None:
    house.sensor("sensor: {id: b, type: manual, target: {run: {shell: [sh, -c, 'true']}}}")
    house.service.states.leave_offer("b", "01A", {"n": Decimal("0.1")})
    left = (house.path / "sensor-state" / "b.offers" / "01A.json").read_bytes()
    house.service.tick()
    (house.path / "sensor-state" / "b.offers" / "01A.json").write_bytes(left)
    house.service.tick()
    house.service.tick()
    assert house.said() == [("b-1", "b", "done")]
    house.service.states.leave_offer("b", "01B", {})
    house.service.tick()
    assert house.said() == [("b-1", "b", "done"), ("b-2", "b", "done")]
