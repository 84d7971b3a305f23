"""`pointsman bulk` and `export` on a home folder, and the same over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.gateway.house import running
from tests.models.many_turns import record_turns, write_policy

from pointsman.app import Pointsman
from pointsman.cli.main import main

TURNS = 40
Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_policy(tmp_path / "home")
    with Pointsman(tmp_path / "home") as pointsman:
        for _ in record_turns(pointsman, 0, TURNS):
            pass
    return tmp_path / "home"


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command; gives its exit code and the JSON it prints."""

    def ran(*words: str) -> tuple[int, Any]:
        with pytest.raises(SystemExit) as end:
            main([*words, "--home", str(home), "--json"])
        out = capsys.readouterr().out
        return int(end.value.code or 0), msgspec.json.decode(out)

    return ran


@pytest.mark.parametrize("kind", ["replay", "verify", "rescore"])
def test_bulk_work_is_done_at_once_without_a_server(run: Run, kind: str) -> None:
    code, told = run("bulk", "start", kind, "--workers", "1")
    assert (code, told["job"]["state"], told["job"]["is_clean"]) == (0, "done", True)
    assert told["job"]["entries_done"] == told["job"]["entries"]
    assert run("bulk", "status", told["job"]["id"])[1]["result"] == told["result"]
    assert run("bulk", "work")[1] == []


def test_a_bulk_backtest_tells_what_changes(run: Run, tmp_path: Path) -> None:
    policy = tmp_path / "other.yaml"
    policy.write_text("schema_version: 1\nglobal_default: acme:small\n")
    code, told = run("bulk", "start", "backtest", "--policy", str(policy), "--workers", "1")
    assert (code, told["result"]["turns"]) == (0, TURNS)
    assert told["result"]["changed_count"] > 0


def test_an_export_by_either_command_is_the_same(run: Run, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    code, told = run("export", "--parquet", one, "--workers", "1")
    assert (code, told["rows"]["decisions"]) == (0, TURNS)
    bulk = run("bulk", "start", "export", "--parquet", two, "--workers", "1")[1]
    assert bulk["result"]["rows"] == told["rows"]


def test_an_unknown_job_is_an_error(run: Run) -> None:
    assert run("bulk", "status", "nothing")[0] == 2
    assert run("bulk", "cancel", "nothing")[0] == 2
    assert run("bulk", "status")[1] == []


def test_jobs_are_told_over_http(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = run("bulk", "start", "replay", "--workers", "1")[1]
    with running(home) as live:
        (job,) = live.get("/api/bulk").json()["jobs"]
        assert job == told["job"]
        whole = live.get(f"/api/bulk/{job['id']}").json()
        assert whole["result"]["identical"] == TURNS
        assert whole["troubles"] == []
        assert live.get("/api/bulk/nothing").status_code == 404
