"""Evidence of a pattern store: who is good at what, in step with every writer, and reported."""

import json

import pytest
from click.testing import CliRunner
from msgspec import UNSET

from pointsman.cli.main import main
from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import ONE, Billionths, MicroUsd
from pointsman.signals.embedding import hashed_letters, text_vector
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.turns.facts import TurnFacts
from pointsman.turns.learning.evidence import estimate
from pointsman.turns.learning.fingerprint import Fingerprint

AT = Instant(1_000 * DAY)
TEXTS = ("prove this theorem about primes", "write an sql query that joins two tables")


def filled(path):
    """Give a store in which one model is good at proofs and the other at queries."""
    store = PatternStore(path)
    for n in range(80):
        kind = n % 2
        name = ("p:math", "p:code")[n // 2 % 2]
        is_good = kind == n // 2 % 2
        store.record(
            Fingerprint(),
            text_vector(f"{TEXTS[kind]}, number {n}"),
            model=name,
            turn_id=f"t{n}",
            cost_microusd=MicroUsd(1_000 + 1_000 * (name == "p:math")),
            latency_ms=1,
            pricing_version="",
            at=AT,
        )
        store.update_score(f"t{n}", Billionths(ONE * is_good), ONE, f"e{n}")
    return store


@pytest.fixture
def store(tmp_path):
    found = filled(tmp_path / "patterns.db")
    yield found
    found.close()


def best(store, text):
    found = store.evidence(Fingerprint(), text_vector(text)).evidence
    return max(map(estimate, found.models), key=lambda each: each.success).model


def test_store_tells_who_is_good_at_what(store):
    assert best(store, "prove a theorem about even numbers") == "p:math"
    assert best(store, "an sql query over three tables, please") == "p:code"


def test_index_that_followed_every_write_equals_one_read_anew(store, tmp_path):
    vector = text_vector("prove something")
    followed = store.evidence(Fingerprint(), vector)
    store.record(
        Fingerprint(),
        text_vector("prove it all again"),
        model="p:new",
        turn_id="n1",
        cost_microusd=MicroUsd(7),
        latency_ms=1,
        pricing_version="",
        at=AT,
    )
    store.update_score("n1", Billionths(300_000_000), ONE, "ne1")
    again = store.evidence(Fingerprint(), vector)
    assert again != followed
    fresh = PatternStore(tmp_path / "patterns.db")
    assert fresh.evidence(Fingerprint(), vector) == again
    fresh.close()


def test_another_process_that_writes_is_noticed(store, tmp_path):
    vector = text_vector("prove something")
    store.evidence(Fingerprint(), vector)
    other = PatternStore(tmp_path / "patterns.db")
    other.update_score("t0", Billionths(0), ONE, "later")
    expected = other.evidence(Fingerprint(), vector)
    assert store.evidence(Fingerprint(), vector) == expected
    other.delete(other.summaries()[0].fingerprint_id)
    assert (
        store.evidence(Fingerprint(), vector).evidence
        == other.evidence(Fingerprint(), vector).evidence
    )
    other.close()


def test_store_that_cannot_be_read_gives_a_reason_and_no_error(tmp_path):
    missing = PatternStore(tmp_path / "none.db")
    assert missing.evidence(Fingerprint(), b"").reason == "no pattern is recorded yet"
    path = tmp_path / "broken.db"
    path.write_bytes(b"no database" * 1_000)
    broken = PatternStore(path)
    assert "the pattern store cannot be read" in broken.evidence(Fingerprint(), b"").reason


def test_turns_that_were_explored_or_shadowed_are_marked(store):
    for name, origin in (("s1", "shadow"), ("s2", "shadow"), ("x1", "explored")):
        store.record(
            Fingerprint(),
            text_vector(name),
            model="p:math",
            turn_id=name,
            cost_microusd=MicroUsd(1),
            latency_ms=1,
            pricing_version="",
            at=AT,
            origin=origin,
        )
    assert store.origins() == {"explored": 1, "shadow": 2}


def test_report_names_tasks_models_and_calibration(tmp_path):
    home = tmp_path / "home"
    runner = CliRunner()
    assert runner.invoke(main, ["init", "--home", str(home)]).exit_code == 0
    filled(home / "patterns.db").close()
    picture = tmp_path / "plot.svg"
    done = runner.invoke(main, ["patterns", "report", "--home", str(home), "--svg", str(picture)])
    assert done.exit_code == 0, done.output
    assert "calibration, 80 turns left out one by one" in done.output
    assert picture.read_text().startswith("<svg")
    told = json.loads(
        runner.invoke(main, ["patterns", "report", "--home", str(home), "--json"]).output
    )
    assert {each["model"] for each in told["models"]} == {"p:code", "p:math"}
    assert sum(each["looks"] for each in told["tasks"]) == 80
    assert all(each["effective_rows"] > 1 for each in told["tasks"])
    assert sum(each["count"] for each in told["reliability"]) == 80
    assert TurnFacts(message="").pattern_evidence is UNSET


def test_report_says_who_leads_and_where_nobody_was_judged(tmp_path):
    home = tmp_path / "home"
    runner = CliRunner()
    assert runner.invoke(main, ["init", "--home", str(home)]).exit_code == 0
    empty = runner.invoke(main, ["patterns", "report", "--home", str(home)])
    assert "no pattern is recorded yet" in empty.output
    store = filled(home / "patterns.db")
    for n in range(3):
        store.record(
            Fingerprint(intent_tags=("doc",)),
            hashed_letters(f"describe part {n}"),
            model="p:code",
            turn_id=f"doc {n}",
            cost_microusd=MicroUsd(1),
            latency_ms=1,
            pricing_version="",
            at=AT,
            origin="shadow",
        )
    store.close()
    told = runner.invoke(main, ["patterns", "report", "--home", str(home)]).output
    lines = told.splitlines()
    assert any(line.startswith("doc ") and "none was judged" in line for line in lines)
    assert "3 runs of them in the shadow" in told
    assert "| expected, * observed" in told
    assert "does not use" not in told
    value = json.loads(
        runner.invoke(main, ["patterns", "report", "--home", str(home), "--json"]).output
    )
    tasks = {each["task"]: each for each in value["tasks"]}
    assert tasks["doc"]["should_stay_silent"] is True
    assert tasks["doc"]["judged"] == {}
    assert 0 <= value["mean_error"] <= 1
    (home / "routing.yaml").write_text("schema_version: 1\npattern: {method: nearest}\n")
    again = runner.invoke(main, ["patterns", "report", "--home", str(home)]).output
    assert "which the policy in force does not use" in again
