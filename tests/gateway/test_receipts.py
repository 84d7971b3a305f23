"""Receipts over HTTP: who gets one, what it tells, and where an answer says it is."""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, running, write_home
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.audit.receipts.receipt import turn_receipt
from pointsman.kernel.signing import VerifyKey, signed_bytes
from pointsman.receipt_verifier import audit_receipt
from pointsman.storage.home import open_home
from pointsman.testing import fails

SECRET_RULE = "quarterly numbers"
ROUTING = {
    "schema_version": 1,
    "global_default": "open:big",
    "rules": [
        {"name": SECRET_RULE, "when": {"has_images": True}, "use": "house:llama"},
        {"name": "short ones", "when": {"message_contains_any": ["hello"]}, "use": "house:llama"},
    ],
}


def receipt(live: Running, turn: str, disclose: str = "full", **headers: str) -> dict:
    told = live.get(f"/api/turns/{turn}/receipt?disclose={disclose}", **headers)
    assert told.status_code == 200, told.text
    return told.json()


def test_a_receipt_holds_the_decisions_the_call_and_their_proofs(town: Town) -> None:
    with running(town.home) as live:
        kept = {"x-pointsman-privacy": "local"}
        turn = live.chat("how many are there?", headers=kept).headers["x-pointsman-turn"]
        live.outcomes(1)
        early = receipt(live, turn)
    # A gateway signs within five seconds, and when it stops.
    found = json.loads(turn_receipt(open_home(town.home), turn, "full"))
    assert [each["proof"] for each in early["entries"]] == [None] * 3
    assert all(each["proof"] for each in found["entries"])
    kinds = [each["kind"] for each in found["entries"]]
    assert kinds == ["decision.placement", "decision.turn", "outcome"]
    assert found["turn"] == turn
    assert [each["ref"] for each in found["entries"]] == [turn, turn, found["entries"][1]["id"]]
    for each in found["entries"][:2]:
        decision = json.loads(each["payload"])["decision"]
        for name in (decision["facts_id"], decision["policy_id"]):
            body = found["bodies"][name].encode()
            assert name == "sha256:" + hashlib.sha256(body).hexdigest()
    assert "how many" not in json.dumps(found)


def test_the_holder_of_the_text_opens_its_commitment(live: Running) -> None:
    turn = live.chat("how many are there?").headers["x-pointsman-turn"]
    (text,) = receipt(live, turn)["texts"]
    data = b"pointsman/text/1\0" + bytes.fromhex(text["salt"]) + b"how many are there?"
    assert text["commitment"] == hashlib.sha256(data).hexdigest()
    assert text["chars"] == len("how many are there?")


def test_the_whole_receipt_is_signed_by_the_ledger_s_key(live: Running) -> None:
    turn = live.chat("hello").headers["x-pointsman-turn"]
    for disclose in ("full", "redacted", "minimal"):
        raw = live.get(f"/api/turns/{turn}/receipt?disclose={disclose}").content
        found = json.loads(raw)
        signature = found.pop("signature")
        body = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        key = VerifyKey(bytes.fromhex(found["keys"][-1]))
        assert signature["key"] == key.id
        statement = signed_bytes("receipt", hashlib.sha256(body).digest())
        assert key.verifies(statement, bytes.fromhex(signature["signature"]))


def test_a_redacted_receipt_hides_rules_and_texts_but_not_what_decided(town: Town) -> None:
    write_home(town.home, routing=ROUTING)
    with running(town.home) as live:
        named = {"x-session-id": "my-session"}
        name = live.chat("hello there", headers=named).headers["x-pointsman-turn"]
        live.outcomes(1)
        full, redacted = receipt(live, name), receipt(live, name, "redacted")
    told = json.dumps(redacted)
    assert redacted["bodies"] == {}
    assert SECRET_RULE in json.dumps(full)
    assert SECRET_RULE not in told
    assert "my-session" not in told
    assert '"rule_name": "short ones"' in told
    for whole, part in zip(full["entries"], redacted["entries"], strict=True):
        assert whole["hash"] == part["hash"]
        salt = bytes.fromhex(whole["salt"])
        hidden = [*_hidden(json.loads(whole["payload"]), part["view"], "")]
        assert hidden or whole["kind"] == "outcome"
        for place, text, digest in hidden:
            own = hmac.digest(salt, place.encode(), "sha256")
            data = b"pointsman/redacted/1\0" + own + text.encode()
            assert digest == hashlib.sha256(data).hexdigest(), place


def _hidden(whole: object, part: object, place: str):
    """Every commitment beside the text it stands for; all else must be equal."""
    if isinstance(part, dict) and set(part) == {"redacted"}:
        yield place, whole, part["redacted"]
    elif isinstance(whole, dict):
        assert set(whole) == set(part)
        for key, each in whole.items():
            yield from _hidden(each, part[key], f"{place}.{key}" if place else key)
    elif isinstance(whole, list):
        for n, (one, other) in enumerate(zip(whole, part, strict=True)):
            yield from _hidden(one, other, f"{place}[{n}]")
    else:
        assert whole == part, place


def test_a_minimal_receipt_tells_the_outcome_alone(live: Running) -> None:
    kept = {"x-pointsman-privacy": "local"}
    turn = live.chat("hello", headers=kept).headers["x-pointsman-turn"]
    live.outcomes(1)
    found = receipt(live, turn, "minimal")
    assert (found["bodies"], found["texts"]) == ({}, [])
    placed, decided, ended = (each["view"] for each in found["entries"])
    assert set(decided["decision"]) == {
        "decision_version", "facts_id", "kind", "outcome", "policy_id"
    }  # fmt: skip
    assert decided["decision"]["outcome"] == {"chosen_model": "house:llama", "winner_index": 6}
    assert placed["decision"]["outcome"]["gate"] == "local"
    assert ended == {"detail": {"model": "house:llama", "status": 200}, "status": "done"}


def test_a_tenant_reaches_its_own_receipts_alone(live: Running) -> None:
    acme = made(live, scopes=["models", "read"], tenant="acme")
    globex = made(live, scopes=["models", "read"], tenant="globex")
    auditor = made(live, role="auditor", scopes=["read"])
    turn = live.chat("hello", headers=acme).headers["x-pointsman-turn"]
    path = f"/api/turns/{turn}/receipt"
    assert live.get(path, **acme).status_code == 200
    assert live.get(path, **auditor).status_code == 200
    other, unknown = live.get(path, **globex), live.get("/api/turns/nothing/receipt", **globex)
    assert (other.status_code, unknown.status_code) == (404, 404)
    models_alone = made(live, tenant="acme", scopes=["models"])
    assert live.get(path, **models_alone).status_code == 403
    assert live.get(path, **bearer(live.admin)).status_code == 200


def test_an_unknown_disclosure_is_refused(live: Running) -> None:
    turn = live.chat("hello").headers["x-pointsman-turn"]
    told = live.get(f"/api/turns/{turn}/receipt?disclose=all")
    assert told.status_code == 400
    assert "full, redacted, minimal" in told.text


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        (None, None),
        ({"in_answers": True}, "/api/turns/"),
        (
            {"in_answers": True, "base_url": "https://gate.example/"},
            "https://gate.example/api/turns/",
        ),
    ],
)
def test_an_answer_names_its_receipt_where_that_is_set(
    town: Town, settings: dict | None, start: str | None
) -> None:
    write_home(town.home, pointsman={"receipts": settings} if settings else {})
    with running(town.home) as live:
        for stream in (False, True):
            told = live.chat("hello", stream=stream)
            turn = told.headers["x-pointsman-turn"]
            url = told.headers.get("x-pointsman-receipt")
            assert url == (start and f"{start}{turn}/receipt")
        if settings == {"in_answers": True}:
            assert live.get(url).json()["turn"] == turn


def verified(home: Path, turn: str, message: str) -> dict[str, str]:
    """What the verifier says of each step of a turn's receipt, once the gateway has stopped."""
    data = turn_receipt(open_home(home), turn, "full")
    report = audit_receipt(data, json.loads(data)["signature"]["key"], message.encode())
    assert report["verdict"] == "ok", report
    return {each["step"]: each["state"] for each in report["checks"]}


@pytest.mark.parametrize("headers", [{}, {"x-pointsman-privacy": "local"}])
def test_a_receipt_of_the_gateway_is_derived_again(town: Town, headers: dict[str, str]) -> None:
    write_home(town.home, routing=ROUTING)
    with running(town.home) as live:
        turn = live.chat("hello there", headers=headers).headers["x-pointsman-turn"]
        live.outcomes(1)
    found = verified(town.home, turn, "hello there")
    assert found["placement"] == ("ok" if headers else "not run")
    assert {state for step, state in found.items() if step != "placement"} == {"ok"}


def test_a_fallback_and_its_calls_are_part_of_the_receipt(town: Town) -> None:
    routing = {"schema_version": 1, "global_default": ["open:big", "house:llama"]}
    write_home(town.home, routing=routing)
    town.openai.then(fails(500), fails(500), fails(500))
    with running(town.home) as live:
        turn = live.chat("hello there").headers["x-pointsman-turn"]
        live.outcomes(2)
    found = verified(town.home, turn, "hello there")
    assert found["links"] == found["decision"] == "ok"
    data = json.loads(turn_receipt(open_home(town.home), turn, "full"))
    kinds = [each["kind"] for each in data["entries"]]
    assert kinds.count("decision.turn.fallback") == 1
    assert kinds.count("outcome") == 2
    changed = copy.deepcopy(data)
    del changed["entries"][kinds.index("decision.turn")]
    text = json.dumps(changed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    report = audit_receipt(text.encode(), "", b"hello there")
    assert report["verdict"] == "failed"
