"""What sensors look at: assets, schedules, commits; sources that cannot be looked at."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.branches.watched_home import House

from pointsman.errors import InputError
from pointsman.kernel.instant import instant_text, read_instant
from pointsman.sensors.sources import read_source
from pointsman.storage.policies.cron import read_cron
from pointsman.storage.policies.sensor_file import read_sensors


@pytest.fixture
def house(tmp_path: Path) -> Any:
    made = House(tmp_path / "home")
    yield made
    made.pointsman.close()


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
    first = read_source(sensor, None, tmp_path, now, tmp_path / "ledger.db")
    assert first.happened == ()
    commit("two.txt")
    commit("three.txt")
    second = read_source(sensor, first.cursor, tmp_path, now, tmp_path / "ledger.db")
    assert [each.data["files_changed"] for each in second.happened] == [["two.txt"], ["three.txt"]]
    assert second.happened[0].data["author"] == "ada"
    assert second.happened[0].data["ref"] == "refs/heads/main"
    assert read_source(sensor, second.cursor, tmp_path, now, tmp_path / "ledger.db").happened == ()


def test_a_source_that_cannot_be_looked_at_is_an_error_of_its_sensor_alone(house: House) -> None:
    house.sensor("sensor: {id: g, type: git_commit, trigger: {repository: nowhere}, "
                 "target: {workflow: w}}")  # fmt: skip
    house.service.tick()
    house.service.tick()
    state = house.service.states.load("g")
    assert (state.status, state.error_count) == ("error", 1)
    assert "git said no" in state.message
