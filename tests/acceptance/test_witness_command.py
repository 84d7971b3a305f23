"""The `witness` command and `verify --ask`, as people run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parents[1] / "tamper"))

from rewriting import know_logs, running_witness

from pointsman.cli.main import main


def run(home: Path, *arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["--home", str(home), *arguments])
    assert done.exit_code == code, done.output
    return done


def name_witnesses(home: Path, *witnesses: object, quorum: int = 1) -> None:
    listed = [{"url": each.url, "key": each.key} for each in witnesses]  # type: ignore[attr-defined]
    text = yaml.safe_dump({"witnesses": {"quorum": quorum, "of": listed}})
    path = home / "pointsman.yaml"
    path.write_text(text)
    path.chmod(0o600)


def test_from_nothing_to_a_proof_against_the_owner(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(home, "route", "hello")
    told = run(home, "verify").output
    assert "nothing speaks against the owner" in told
    key = json.loads(run(home, "witness", "key", "--json").output)["key"]
    with running_witness(tmp_path / "w", "w.example", key) as witness:
        name_witnesses(home, witness)
        doctor = run(home, "doctor", "--json").output
        (found,) = (e for e in json.loads(doctor) if e["subject"] == "witnesses")
        assert found["state"] == "warning"
        assert "w.example" in run(home, "witness", "submit").output
        told = run(home, "verify", "--ask").output
        assert "the owner with all keys included" in told
        assert "w.example cosigned" in told
        value = json.loads(run(home, "verify", "--json").output)
        assert value["proofs"][0]["ranges"][0]["against"] == "operator_with_key"
        doctor = run(home, "doctor", "--json").output
        assert (
            "cosigned"
            in next(e for e in json.loads(doctor) if e["subject"] == "witnesses")["detail"]
        )
        (tmp_path / "own.yaml").write_text(
            yaml.safe_dump({"of": [{"url": witness.url, "key": witness.key}]})
        )
        (home / "pointsman.yaml").write_text("")
        own = str(tmp_path / "own.yaml")
        assert "all keys included" in run(home, "verify", "--witnesses", own).output
        seen = subprocess.run(
            ["curl", "-s", f"{witness.url}/logs"], capture_output=True, check=True
        ).stdout
    (tmp_path / "seen.json").write_bytes(seen)
    rolled = tmp_path / "rolled"
    run(rolled, "route", "another life")
    for name in ("identity.json", "keys/signing", "keys/content"):
        (rolled / name).write_bytes((home / name).read_bytes())
    for path in (rolled / "ledger.db", *rolled.glob("ledger.db-*")):
        path.unlink()
    for path in sorted((rolled / "checkpoints").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    run(rolled, "route", "another life")
    run(rolled, "verify")
    told = run(rolled, "verify", "--witnesses", own, "--seen", str(tmp_path / "seen.json"), code=1)
    assert "ledger.witness_" in told.output


def test_a_witness_that_is_away_is_told_and_fails_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(home, "route", "hello")
    with running_witness(tmp_path / "w", "w.example") as witness:
        pass
    name_witnesses(home, witness)
    assert "w.example" in run(home, "witness", "submit", code=1).output
    done = run(home, "verify", "--ask")
    assert "did not tell" in done.output
    assert "intact" in done.output


def test_a_home_without_witnesses_is_told_how_to_name_some(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(home, "route", "hello")
    assert "pointsman.yaml" in run(home, "witness", "submit", code=2).output


def test_a_log_is_written_as_files_and_only_what_is_new(tmp_path: Path) -> None:
    home = tmp_path / "home"
    run(home, "route", "hello")
    first = json.loads(run(home, "witness", "publish", str(tmp_path / "site"), "--json").output)
    assert [(each["chain"], each["tiles"]) for each in first] == [("cli", 1)]
    again = json.loads(run(home, "witness", "publish", str(tmp_path / "site"), "--json").output)
    assert again[0]["tiles"] == 0
    note = (tmp_path / "site" / "cli" / "checkpoint").read_text()
    size = int(note.split("\n")[1])
    assert (tmp_path / f"site/cli/tile/0/000.p/{size}").stat().st_size == 32 * size


def test_a_witness_is_made_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    first = json.loads(
        run(tmp_path, "witness", "init", str(folder), "--name", "w.x", "--json").output
    )
    again = json.loads(
        run(tmp_path, "witness", "init", str(folder), "--name", "w.x", "--json").output
    )
    assert first == again
    assert first["key"].startswith("w.x+")
    assert (folder / "key").stat().st_mode & 0o077 == 0
    know_logs(folder, "w.x")
