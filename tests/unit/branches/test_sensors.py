"""Sensors: what happened is filtered, debounced, told apart, decided about, and run."""

import hashlib
import hmac
import json
import os
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pointsman.app import Pointsman
from pointsman.errors import DocumentError, InputError
from pointsman.kernel.instant import instant_text, read_instant
from pointsman.runs.sensor_event import Happened
from pointsman.runs.sensor_sources import looked
from pointsman.runs.sensors import Heard, SensorService
from pointsman.runs.webhooks import webhook_routes
from pointsman.storage.cron import read_cron
from pointsman.storage.sensor_file import read_sensors
from pointsman.storage.settings import WorkflowSettings
from pointsman.storage.sqlite.reading import LedgerReader
from pointsman.testing import CountedIds, FrozenClock

ALL = WorkflowSettings(commands=("sh", "cat"), python=("acts",))
DECISION = """
decision:
  id: by-type
  type: switch
  input: "{{ event.data.extension }}"
  cases:
    - {condition: "input == '.yaml'", target: check-schema, label: Schema}
    - {condition: "input == '.md'", target: check-text, label: Text}
  default: {target: leave}
"""
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


class House:
    """A home with sensors, and time that stands still."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("decisions", "sensors", "in"):
            (path / name).mkdir(parents=True)
        (path / "decisions" / "d.yaml").write_text(DECISION)
        self.clock = FrozenClock()
        self.pointsman = Pointsman(path, clock=self.clock, ids=CountedIds())
        one = self.pointsman
        sources = (self.clock, one.ids)
        self.service = SensorService(one.home, one.desk, one.branching, sources, lambda: ALL)
        self.heard: list[Heard] = []
        self.service.told = self.heard.append

    def sensor(self, text: str) -> None:
        (self.path / "sensors" / "s.yaml").write_text(text)

    def manual(self, **data: Any) -> Any:
        sensor = self.service.files.current().sensors[0]
        return self.service.offer(sensor, Happened("manual", data))

    def said(self) -> list[tuple[str, str, str]]:
        return [(each.event, each.target, each.status) for each in self.heard]

    def kinds(self) -> list[str]:
        with closing(LedgerReader(self.path / "ledger.db")) as ledger:
            return [each.entry.kind for each in ledger.of_kind("event.sensor")]


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


def test_a_workflow_can_be_a_target_and_its_assets_wake_another_sensor(house: House) -> None:
    (house.path / "workflows").mkdir()
    (house.path / "workflows" / "w.yaml").write_text(
        'workflow: {id: w, stages: [{id: make, asset: {id: report, '
        'values: {score: "{{ n }}", version: 7}}}]}'
    )  # fmt: skip
    (house.path / "decisions" / "d.yaml").unlink()
    house.sensor(
        "sensors:\n"
        "  - {id: go, type: manual, target: {workflow: w.yaml,"
        ' inputs: {n: "{{ event.data.n }}"}}}\n'
        "  - {id: seen, type: asset_materialized, trigger: {asset: report},"
        ' target: {run: {shell: [sh, -c, "cat > ../asset.json"]}}}\n'
    )
    house.service.tick()
    house.manual(n=3)
    house.clock.advance(seconds=1)
    house.service.tick()
    house.service.tick()
    house.service.tick()
    assert house.said() == [("go-1", "go", "done"), ("seen-1", "seen", "done")]
    data = json.loads((house.path / "asset.json").read_text())["event"]["data"]
    assert (data["asset_id"], data["score"], data["version"]) == ("report", 3, 7)


def test_a_schedule_fires_once_for_all_it_missed_and_keeps_its_grid(house: House) -> None:
    house.sensor(
        "sensor: {id: t, type: schedule, trigger: {every: 10m},"
        ' target: {run: {shell: [sh, -c, "true"]}}}'
    )
    due = house.service.tick()
    assert (due or 0) - house.clock.now() == 600 * 1_000_000
    house.clock.advance(seconds=1500)
    due = house.service.tick()
    assert len(house.heard) == 1
    assert (due or 0) - house.clock.now() == 300 * 1_000_000
    house.clock.advance(seconds=299)
    house.service.tick()
    assert len(house.heard) == 1
    house.clock.advance(seconds=1)
    house.service.tick()
    assert len(house.heard) == 2


@pytest.mark.parametrize(
    ("text", "after", "wanted"),
    [
        ("*/15 * * * *", "2026-01-01T00:07:30Z", "2026-01-01T00:15:00.000000Z"),
        ("0 9-17/4 * * 1-5", "2026-01-02T17:00:00Z", "2026-01-05T09:00:00.000000Z"),
        ("30 6 1,15 * *", "2026-01-15T06:30:00Z", "2026-02-01T06:30:00.000000Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00.000000Z"),
        ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00.000000Z"),
        ("5/20 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:05:00.000000Z"),
    ],
)
def test_cron_times_are_found(text: str, after: str, wanted: str) -> None:
    found = read_cron(text).next_after(read_instant(after))
    assert found is not None
    assert instant_text(found) == wanted


def test_cron_texts_that_mean_nothing_are_refused() -> None:
    for text in ("* * * *", "60 * * * *", "* * 0 * *", "5-1 * * * *", "*/0 * * * *", "a * * * *"):
        with pytest.raises(InputError):
            read_cron(text)
    assert read_cron("0 0 31 2 *").next_after(read_instant("2026-01-01T00:00:00Z")) is None


def test_new_commits_are_seen_one_by_one_with_what_they_changed(tmp_path: Path) -> None:
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    env |= dict.fromkeys(names, "ada")

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=tmp_path, env=env, check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-m", f"add {name}")

    git("init", "-b", "main")
    commit("one.txt")
    trigger = f"{{repository: '{tmp_path}'}}"
    text = f"sensor: {{id: g, type: git_commit, trigger: {trigger}, target: {{workflow: w}}}}"
    (sensor,) = read_sensors(text.encode(), "s.yaml").every
    now = read_instant("2026-01-01T00:00:00Z")
    first = looked(sensor, None, tmp_path, now)
    assert first.happened == ()
    commit("two.txt")
    commit("three.txt")
    second = looked(sensor, first.cursor, tmp_path, now)
    assert [each.data["files_changed"] for each in second.happened] == [["two.txt"], ["three.txt"]]
    assert second.happened[0].data["author"] == "ada"
    assert second.happened[0].data["ref"] == "refs/heads/main"
    assert looked(sensor, second.cursor, tmp_path, now).happened == ()


def test_a_source_that_cannot_be_looked_at_is_an_error_of_its_sensor_alone(house: House) -> None:
    house.sensor("sensor: {id: g, type: git_commit, trigger: {repository: nowhere}, "
                 "target: {workflow: w}}")  # fmt: skip
    house.service.tick()
    house.service.tick()
    state = house.service.states.load("g")
    assert (state.status, state.error_count) == ("error", 1)
    assert "git said no" in state.message


HOOK = """
sensor:
  id: push
  type: webhook
  trigger: {secret: {env: HOOK_SECRET}, filter: "event.data.body.ref == 'main'"}
  target: {run: {shell: [sh, -c, "cat > pushed.json"]}}
"""


class TestWebhooks:
    """What an HTTP surface mounts."""

    def hook(self, house: House, body: bytes, secret: str = "s3cret", name: str = "push") -> Any:
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"x-hub-signature-256": signature, "authorization": "Bearer x"}
        routes = webhook_routes(house.service)
        return routes["POST", "/hooks/{name}"](name, headers, body)

    def test_a_signed_hook_is_taken_and_its_target_runs_afterwards(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOOK_SECRET", "s3cret")
        house.sensor(HOOK)
        answer = self.hook(house, b'{"ref": "main", "n": 0.1}')
        assert (answer.status, answer.value) == (202, {"event": "push-1"})
        house.service.tick()
        assert house.heard == [], "hooks belong to the process that takes them"
        answer.work()
        assert house.said() == [("push-1", "push", "done")]
        self.hook(house, b'{"ref": "main", "n": 0.2}')
        house.service.tick(hooks=True)
        assert house.said()[1:] == [("push-2", "push", "done")]
        seen = (house.path / "pushed.json").read_text()
        assert '"n":0.2' in seen
        assert "Bearer" not in seen

    def test_the_same_hook_delivered_twice_runs_once_within_an_hour(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOOK_SECRET", "s3cret")
        house.sensor(HOOK)
        for seconds in (0, 3599, 3600):
            house.clock.advance(seconds=seconds)
            self.hook(house, b'{"ref": "main"}').work()
        assert len(house.heard) == 2

    def test_hooks_that_are_not_signed_not_known_or_not_json_are_refused(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        house.sensor(HOOK)
        assert self.hook(house, b"{}", "").status == 404, "a missing secret signs nothing"
        monkeypatch.setenv("HOOK_SECRET", "s3cret")
        assert self.hook(house, b"{}", "wrong").status == 404
        assert self.hook(house, b"{}", name="other").status == 404
        assert self.hook(house, b"{").status == 400
        assert self.hook(house, b" " * 300_000).status == 413
        assert self.hook(house, b'{"ref": "dev"}').value == {"event": None, "filtered": True}
        assert house.service.states.load("push").pending == []


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
