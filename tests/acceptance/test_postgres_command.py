"""The commands on PostgreSQL: record, explain, replay, verify and export as they do in files."""

import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from pointsman.cli.main import main


class Told:
    """What commands say that are given the same home and store."""

    def __init__(self, home: Path, *given: str) -> None:
        self.home = home
        self._given = ("--home", str(home), *given)

    def __call__(self, *words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, [*self._given, *words])
        assert done.exit_code == code, done.output
        return done.output

    def json(self, *words: str) -> dict:
        return json.loads(self("--json", *words))


@pytest.fixture
def told(tmp_path, postgres_url, monkeypatch):
    monkeypatch.delenv("POINTSMAN_STORE", raising=False)
    told = Told(tmp_path / "home", "--store", postgres_url)
    assert "store    postgresql://" in told("init")
    return told


def test_the_variable_and_the_settings_name_a_store_as_well(told, postgres_url, monkeypatch):
    told("route", "hello")
    plain = Told(told.home)
    settings = told.home / "pointsman.yaml"
    settings.write_text(f"store: {json.dumps(postgres_url)}\n{settings.read_text()}")
    assert "5 entries" in plain("verify")
    monkeypatch.setenv("POINTSMAN_STORE", "postgresql://nobody@127.0.0.1:1/nothing")
    assert "cannot be reached" in plain("verify", code=1)
    monkeypatch.setenv("POINTSMAN_STORE", postgres_url)
    settings.write_text(settings.read_text().replace(postgres_url, "sqlite:"))
    assert "5 entries" in plain("verify")


def test_a_forgotten_store_starts_no_second_ledger(told):
    told("route", "hello")
    plain = Told(told.home)
    assert "entries 0 to 4 were signed and are gone" in plain("verify", code=1)
    refused = plain("route", "hello", code=1)
    assert "the database is empty, but there are checkpoints of cli" in refused
    assert "--store" in refused


def test_a_turn_is_recorded_explained_replayed_verified_and_exported(told, tmp_path):
    decision = told.json("route", "write a commit message")
    name = decision["decision_id"]
    assert name in told("why", name)
    assert "1" in told("replay", name)
    assert told.json("replay", "--all")["identical"] >= 1
    assert "intact" in told("verify")
    bundle = tmp_path / "bundle.jsonl"
    told("verify", "--export", str(bundle))
    assert name in bundle.read_text()
    verifier = [sys.executable, str(tmp_path / "pointsman_verify.py"), str(bundle)]
    assert subprocess.run(verifier, capture_output=True, check=False).returncode == 0
    assert not [*told.home.glob("*.db")]


def test_a_backtest_reads_turns_from_postgresql(told):
    told("route", "hello")
    policy = told.home / "routing.yaml"
    assert "1" in told("backtest", "--policy", str(policy))


def test_the_doctor_tells_the_server_and_no_secret(told):
    told("route", "hello")
    found = told("doctor")
    assert "PostgreSQL 1" in found
    assert not [line for line in found.splitlines() if line.startswith("fault")]
    # The tests' own server does not sync: exactly what a doctor is for.
    assert "fsync is off" in found


def test_verifying_finds_what_somebody_changed_by_sql(told, postgres_url):
    told("route", "hello")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE pointsman_ledger.entries SET payload = '{}' WHERE seq = 1")
    assert "ledger.entry_changed" in told("verify", code=1)
