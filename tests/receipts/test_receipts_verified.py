"""Receipts of real turns are verified by both programs; a changed one is refused with its step."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.receipts.receipts import TURNS, Given, made_receipts, mutants
from tests.receipts.told import NODE, page_answers

from pointsman import offline_verifier
from pointsman.audit.export import export_bundle
from pointsman.cli.receipt import verifier_text
from pointsman.kernel.signing import SigningKey, signed_bytes
from pointsman.offline_verifier import ENCODER, sha256
from pointsman.receipt_verifier import ReceiptAudit, audit_receipt
from pointsman.storage.home import Home

STEPS = [
    "form", "key", "entries", "checkpoints", "inclusion", "facts and policy", "links", "message",
    "placement", "decision", "signature",
]  # fmt: skip


def states(report: dict) -> dict[str, str]:
    return {each["step"]: each["state"] for each in report["checks"]}


def key_of(data: bytes) -> str:
    return json.loads(data)["signature"]["key"]


@pytest.mark.parametrize("turn", TURNS)
def test_a_full_receipt_is_derived_again(given: dict[str, Given], turn: str) -> None:
    data, message = given[f"{turn} full"]
    report = audit_receipt(data, key_of(data), message)
    assert report["verdict"] == "ok"
    found = states(report)
    assert [*found] == STEPS
    wanted = {"ok"} if turn == "placed" else {"ok", "not run"}
    assert {found[step] for step in STEPS} == wanted
    assert found["decision"] == found["message"] == found["key"] == "ok"


@pytest.mark.parametrize("disclosure", ["redacted", "minimal"])
def test_other_receipts_say_what_could_not_be_run(given: dict[str, Given], disclosure: str) -> None:
    data, message = given[f"rule {disclosure}"]
    found = states(audit_receipt(data, key_of(data), message))
    missing = {"entries", "facts and policy", "placement", "decision"}
    missing |= {"message"} if disclosure == "minimal" else set()
    assert {step for step, state in found.items() if state == "not run"} == missing
    assert {state for step, state in found.items() if step not in missing} == {"ok"}


def test_a_rule_is_run_with_the_message_and_taken_from_the_record_without(
    given: dict[str, Given],
) -> None:
    def told(name: str, message: bytes | None) -> str:
        report = audit_receipt(given[name].data, "", message)
        assert report["verdict"] == "ok"
        return next(e["told"] for e in report["checks"] if e["step"] == "decision")

    assert told("rule full", given["rule full"].message) == "derived again, byte for byte"
    assert told("rule full", None).endswith("matched by the record, not run: fixes")
    greek = given["greek full"]
    assert told("greek full", greek.message).endswith("matched by the record, not run: letters")


def test_another_message_is_refused(given: dict[str, Given]) -> None:
    data, message = given["rule full"]
    for other in (b"Fix it", message + b" ", b""):
        report = audit_receipt(data, "", other)
        assert report["checks"][-1]["step"] == "message"
        assert report["verdict"] == "failed"
    assert audit_receipt(data, "", message + b"\n")["verdict"] == "ok"


def test_another_key_is_refused(given: dict[str, Given]) -> None:
    data, _ = given["rule full"]
    report = audit_receipt(data, "ed25519:" + "0" * 32)
    assert (report["checks"][-1]["step"], report["verdict"]) == ("key", "failed")


def resigned(value: dict, key: SigningKey) -> bytes:
    bare = {name: each for name, each in value.items() if name != "signature"}
    statement = signed_bytes("receipt", sha256(ENCODER.encode(bare).encode()))
    signature = {"key": key.id, "signature": key.sign(statement).hex()}
    return ENCODER.encode({**bare, "signature": signature}).encode()


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda value: value["entries"][-1].update(at=1), "entries"),
        (
            lambda value: value["entries"][-1].update(
                payload=value["entries"][-1]["payload"].replace("acme:small", "acme:big")
            ),
            "entries",
        ),
        (lambda value: value["entries"][-1]["proof"].update(path=[]), "inclusion"),
        (lambda value: value["bodies"].update({n: b + " " for n, b in value["bodies"].items()}),
         "facts and policy"),
        (lambda value: value.update(turn="another"), "links"),
        (lambda value: value["texts"].clear(), "message"),
        (lambda value: value["texts"][0].update(chars=0), "message"),
        (lambda value: value["entries"][-1].update(salt="00" * 32), "signature"),
    ],
)  # fmt: skip
def test_each_step_refuses_what_only_it_can_see(
    given: dict[str, Given], change: object, step: str
) -> None:
    data, message = given["rule full"]
    value = json.loads(data)
    change(value)
    report = audit_receipt(ENCODER.encode(value).encode(), "", message)
    assert report["checks"][-1]["step"] == step
    assert report["checks"][-1]["state"] == "failed"


def test_an_owner_who_signs_again_cannot_change_the_decision(given: dict[str, Given]) -> None:
    """The owner's key signs receipts, but hashes, the tree and the derivation stand beside it."""
    data, message = given["rule full"]
    value = json.loads(data)
    mine = SigningKey(bytes(32))
    value["keys"] = [mine.public.hex()]
    report = audit_receipt(resigned(value, mine), "", message)
    assert report["checks"][-1]["step"] == "checkpoints"


def test_a_decision_that_does_not_follow_is_found_though_all_hashes_fit(
    given: dict[str, Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, message = given["rule full"]
    for name in ("_entries", "_checkpoints", "_inclusion", "_inputs", "_signature"):
        real = getattr(ReceiptAudit, name)
        monkeypatch.setattr(ReceiptAudit, name, lambda self, real=real: _lenient(self, real))
    value = json.loads(data)
    entry = value["entries"][-1]
    entry["payload"] = entry["payload"].replace('"acme:small"', '"acme:big"')
    report = audit_receipt(ENCODER.encode(value).encode(), "", message)
    last = report["checks"][-1]
    assert (last["step"], last["state"]) == ("decision", "failed")
    assert 'outcome.chosen_model is "acme:big", derived "acme:small"' in last["told"]


def _lenient(audit: ReceiptAudit, real: object) -> tuple[str, str]:
    """Take a step, but let it pass."""
    try:
        return real(audit)
    except offline_verifier.BundleBroken:
        for place, each in enumerate(audit.value["entries"]):
            audit.records[place] = json.loads(each["payload"])
        return "ok", ""


def test_no_mutant_is_accepted_and_each_names_a_step(given: dict[str, Given]) -> None:
    draw = random.Random(1)
    named: Counter[str] = Counter()
    names = [*given]
    for number in range(700):
        data, message = given[names[number % len(names)]]
        changed = mutants(data, draw)
        report = audit_receipt(changed, key_of(data), message)
        assert report["verdict"] == "failed", changed
        last = report["checks"][-1]
        assert last["step"] in STEPS
        assert last["told"]
        named[last["step"]] += 1
    assert len(named) >= 8, named


@pytest.mark.skipif(NODE is None, reason="there is no node here")
def test_the_page_takes_the_same_steps_to_the_same_end(given: dict[str, Given]) -> None:
    draw = random.Random(2)
    asked, wanted = [], []
    for name, (data, message) in given.items():
        for changed in (data, *(mutants(data, draw) for _ in range(25))):
            try:
                text = changed.decode()
            except UnicodeDecodeError:
                continue
            key = key_of(data)
            asked.append({"receipt": text, "key": key, "message": message.decode()})
            wanted.append((name, changed, audit_receipt(changed, key, message)))
    for (name, changed, want), said in zip(wanted, page_answers(asked), strict=True):
        found = json.loads(said)
        assert found["verdict"] == want["verdict"], (name, changed, found, want)
        assert states(found) == states(want), (name, changed, found, want)


def test_it_runs_as_one_file_that_needs_nothing_else(
    given: dict[str, Given], tmp_path: Path
) -> None:
    program = tmp_path / "pointsman_verify.py"
    program.write_text(verifier_text())
    assert not re.search(r"^\s*(from|import) (pointsman|msgspec)", verifier_text(), re.MULTILINE)
    data, message = given["placed full"]
    receipt, text = tmp_path / "receipt.json", tmp_path / "message.txt"
    receipt.write_bytes(data + b"\n")
    text.write_bytes(message)

    def verify(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", program, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = verify(receipt, "--message", text, "--key", key_of(data))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "receipt: nothing differs")
    receipt.write_bytes(data.replace(b"acme", b"acne", 1))
    changed = verify(receipt, "--json")
    assert (changed.returncode, json.loads(changed.stdout)["verdict"]) == (1, "failed")
    assert verify(tmp_path / "nothing.json").returncode == 2


def test_the_one_file_verifies_bundles_too(tmp_path: Path) -> None:
    made_receipts(tmp_path / "home")
    bundle, program = tmp_path / "bundle", tmp_path / "pointsman_verify.py"
    export_bundle(Home(tmp_path / "home"), bundle)
    program.write_text(verifier_text())
    command = [sys.executable, "-I", program, bundle]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("intact: ")


def test_signatures_are_verified_without_any_package(
    given: dict[str, Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offline_verifier, "IS_FAST", False)
    data, message = given["rule full"]
    assert audit_receipt(data, key_of(data), message)["verdict"] == "ok"
    changed = data.replace(b'"signature":"', b'"signature":"0', 1)
    assert audit_receipt(changed, "", message)["verdict"] == "failed"
