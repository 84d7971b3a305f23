"""The offline verifier and the word of witnesses: another program, the same verdicts."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rewriting import House, build, hundred_ways, witnessed_house

from pointsman import offline_verifier
from pointsman.audit.export import export_bundle
from pointsman.storage.home import Home
from pointsman.witnessing.submission import ask_witnesses

WAYS = hundred_ways()
ONE_OF_A_KIND = [*{name: number for number, (name, _) in enumerate(WAYS)}.values()]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with witnessed_house(tmp_path_factory.mktemp("bundles")) as found:
        yield found


def exported(home: Home, folder: Path) -> bytes:
    export_bundle(home, folder / "bundle.jsonl")
    return (folder / "bundle.jsonl").read_bytes()


def verdict(house: House, data: bytes, quorum: int = 2, **more: object) -> dict[str, object]:
    keys = [each.key for each in house.settings.of]
    return offline_verifier.audit(io.BytesIO(data), "", keys, quorum, **more)  # type: ignore[arg-type]


def test_a_bundle_is_proven_against_the_owner_by_witnesses_alone(
    house: House, tmp_path: Path
) -> None:
    data = exported(house.home, tmp_path)
    proven = {each["chain"]: each for each in verdict(house, data)["proofs"]}  # type: ignore[union-attr]
    (part,) = proven["cli"]["ranges"]
    assert part == {"first": 0, "end": 291, "against": "operator_with_key"}
    assert {*proven["cli"]["witnesses"]} == {"w1.example", "w2.example"}
    for less in (verdict(house, data, 3), offline_verifier.audit(io.BytesIO(data))):
        against = {p["against"] for each in less["proofs"] for p in each["ranges"]}  # type: ignore[union-attr]
        assert less["is_intact"]
        assert against == {"operator_without_key"}


@pytest.mark.parametrize("number", ONE_OF_A_KIND, ids=lambda number: WAYS[number][0])
def test_a_rewritten_bundle_is_found_by_what_witnesses_saw(
    house: House, tmp_path: Path, number: int
) -> None:
    history = WAYS[number][1](house.history)
    history.pop("ops", None)
    data = exported(build(tmp_path / "forged", house.home.path, history), tmp_path)
    assert offline_verifier.audit(io.BytesIO(data))["is_intact"]
    seen = ask_witnesses(house.settings, house.home.identity.ledger).notes
    found = verdict(house, data, seen=seen)
    assert not found["is_intact"]
    assert "the witness w" in found["fault"]["message"]  # type: ignore[index]


def test_the_program_by_itself_says_so(house: House, tmp_path: Path) -> None:
    exported(house.home, tmp_path)
    (tmp_path / "seen.json").write_text(json.dumps({"logs": [{"note": "nothing"}]}))
    program = [sys.executable, "-I", "pointsman_verify.py", "bundle.jsonl", "--seen", "seen.json"]

    def run(witness: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, "--witness", witness],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    told = run(house.settings.of[0].key)
    assert told.returncode == 0, told.stderr
    assert "cli 0 to 290: proven against everyone, the owner with all keys included" in told.stdout
    wrong = run("no key")
    assert wrong.returncode == 2
    assert "is not the key of a witness" in wrong.stderr
