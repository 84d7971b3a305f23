"""A home as a program uses it: route, explain, replay, verify."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pointsman import (
    GivenFacts,
    InputError,
    LedgerBroken,
    LedgerUnavailable,
    NotFound,
    Pointsman,
    Ulids,
    Verdict,
)
from pointsman.kernel.json_text import read_json
from pointsman.operations.doctor import examine_home
from pointsman.recording.waiting import BlockingWaiter
from pointsman.storage.stores.content import ContentStore
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import FrozenClock, a_home, a_turn, assert_replays, some_facts
from pointsman.turns.facts import FACTS_FORM, read_facts


def test_a_turn_is_recorded_and_replays_to_the_same_bytes(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        turn = a_turn(pointsman, "hello")
        assert turn.outcome.chosen_model == "embedded:smollm2-135m"
        assert pointsman.shown(turn.turn_id) == turn
        assert pointsman.shown(turn.decision_id) == turn
        assert pointsman.shown("last") == turn
        assert assert_replays(pointsman) == 1
    assert pointsman.verify().is_intact


@pytest.mark.req(2, 97, 100)
def test_a_replay_does_not_look_at_the_files_of_today(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        a_turn(pointsman)
        (pointsman.home.path / "models.yaml").write_text(
            "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
            "models: {'acme:a': {location: cloud}}\n"
        )
        (pointsman.home.path / "routing.yaml").write_text(
            "schema_version: 1\nglobal_default: acme:a\n"
        )
        assert a_turn(pointsman).outcome.chosen_model == "acme:a"
        assert assert_replays(pointsman) == 2


def test_nothing_is_recorded_on_request(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        turn = pointsman.route(some_facts(), record=False)
        recorded = a_turn(pointsman)
        assert turn.facts_id == recorded.facts_id
        assert pointsman.replay_all().total == 1


def test_an_empty_home_has_nothing_to_show(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        for ask in (pointsman.shown, lambda: pointsman.replay(["x"])):
            with pytest.raises(NotFound, match="nothing is recorded yet"):
                ask()
        assert pointsman.replay_all().total == 0
        assert pointsman.verify().is_intact


def test_an_unknown_name_is_told(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        a_turn(pointsman)
        with pytest.raises(NotFound, match="`nope`"):
            pointsman.shown("nope")
        with pytest.raises(NotFound, match="`nope`"):
            pointsman.replay(["nope"])


@pytest.mark.parametrize("message", ["@opus hi", "@", "@ hi"])
def test_an_unknown_alias_is_an_error_and_records_nothing(tmp_path: Path, message: str) -> None:
    with a_home(tmp_path / "home") as pointsman:
        with pytest.raises(InputError, match="names no model"):
            pointsman.facts(message)
        assert not pointsman.home.database.exists()


@pytest.mark.req(275)
def test_a_backslash_before_the_at_sign_is_stripped(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        assert pointsman.facts("\\@opus hi").message == "@opus hi"
        assert pointsman.facts("\\n hi").message == "\\n hi"


@pytest.mark.parametrize("retain", ["full", "redacted", "digest"])
def test_what_is_kept_of_a_message_is_what_the_home_retains(tmp_path: Path, retain: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "pointsman.yaml").write_text(f"retain: {retain}\n")
    with a_home(home) as pointsman:
        a_turn(pointsman, "call 0170123456 about plans")
        assert assert_replays(pointsman) == 1
    files = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert (b"0170123456" in files) == (retain == "full")
    assert (b"about plans" in files) == (retain != "digest")


def test_an_erased_text_leaves_the_chain_and_text_free_decisions_intact(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        a_turn(pointsman, "forget me please")
        home = pointsman.home
    store = ContentStore(home.content, home.content_key(), "full", str)
    seal = store.hand_in("forget me please", BlockingWaiter().expect)
    assert store.erase([seal.digest])
    store.close()
    files = b"".join(path.read_bytes() for path in home.path.rglob("*") if path.is_file())
    assert b"forget me" not in files
    assert pointsman.verify().is_intact
    assert pointsman.replay_all().is_clean


def test_a_decision_whose_entry_was_edited_is_not_replayed(tmp_path: Path) -> None:
    import apsw

    with a_home(tmp_path / "home") as pointsman:
        turn = a_turn(pointsman)
    connection = apsw.Connection(str(pointsman.home.database))
    connection.execute("UPDATE entries SET at_us = at_us + 1 WHERE id = ?", (turn.decision_id,))
    connection.close()
    report = pointsman.replay([turn.turn_id])
    assert (report.others[0].verdict, report.others[0].code) == (
        Verdict.UNABLE,
        "INTEGRITY_FAILURE",
    )
    assert not pointsman.verify().is_intact


@pytest.mark.slow
def test_a_process_pool_gives_the_same_report(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        for number in range(2_100):
            pointsman.route(some_facts(f"m{number}"))
        seen: list[tuple[int, int]] = []
        alone = pointsman.replay_all(progress=lambda done, total: seen.append((done, total)))
        pooled = pointsman.replay_all(workers=2)
    assert alone == pooled
    assert alone.identical == 2_100
    assert seen[-1][0] == seen[-1][1] == 2_102


def test_since_leaves_earlier_decisions_out(tmp_path: Path) -> None:
    clock = FrozenClock()
    with Pointsman(tmp_path / "home", clock=clock) as pointsman:
        a_turn(pointsman)
        clock.advance(seconds=60)
        a_turn(pointsman)
        assert pointsman.replay_all(clock.now()).total == 1
        assert pointsman.replay_all().total == 2


def test_two_processes_record_in_one_home_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with a_home(home) as pointsman:
        a_turn(pointsman)
        code = (
            "import sys, pathlib; from pointsman.testing import a_home, a_turn\n"
            "with a_home(pathlib.Path(sys.argv[1])) as p: a_turn(p)"
        )
        subprocess.run([sys.executable, "-c", code, str(home)], check=True, timeout=60)
        assert {each.chain for each in pointsman.verify().chains} == {"cli", "cli-2"}
        assert assert_replays(pointsman) == 2


def test_ids_sort_by_the_order_they_were_made_in() -> None:
    clock = FrozenClock()
    ids = Ulids(clock)
    made = [ids.new_id() for _ in range(50)]
    clock.advance(seconds=-5)
    made += [ids.new_id() for _ in range(50)]
    assert made == sorted(made)
    assert len(set(made)) == 100
    assert all(len(each) == 26 for each in made)


def test_facts_hold_no_message_text(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        a_turn(pointsman, "a secret sentence")
        ledger = pointsman.home.database.read_bytes()
        ledger += Path(f"{pointsman.home.database}-wal").read_bytes()
    assert b"a secret sentence" not in ledger
    assert FACTS_FORM.kind.__name__ == "TurnFacts"


@pytest.mark.req(250)
def test_a_decision_with_many_rejections_is_one_entry(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        turn = pointsman.route(some_facts(sticky_model="gone:model", allowed_models=()))
    assert [each.verdict for each in turn.trace.chain].count("rejected") == 2
    reader = LedgerReader(pointsman.home.database)
    kinds = [entry.kind for entry in reader.chain_entries(1)]
    reader.close()
    assert kinds == ["chain.opened", "snapshot", "decision.turn"]


def test_threads_share_one_chain_and_get_ids_of_their_own(tmp_path: Path) -> None:
    with Pointsman(tmp_path) as pointsman, ThreadPoolExecutor(16) as pool:
        turns = list(pool.map(lambda n: a_turn(pointsman, f"m{n}"), range(64)))
    assert len({turn.decision_id for turn in turns}) == 64
    (chain,) = pointsman.verify().chains
    assert (chain.chain, chain.entries, chain.signed) == ("cli", 66, 66)
    assert assert_replays(pointsman) == 64


@pytest.mark.parametrize(
    "changes",
    [
        {"pattern": {"k": 10_000}, "budgets": [{"name": "b", "limit_usd": 1_000_000_000}]},
        {
            "rules": [
                {"when": {"cost_today_exceeds_usd": 1_000_000_000}, "use": "embedded:smollm2-135m"}
            ]
        },
    ],
    ids=["pattern and budget", "rule"],
)
def test_the_largest_policy_that_is_accepted_replays(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    (tmp_path / "routing.yaml").write_text(json.dumps({"schema_version": 1, **changes}))
    with a_home(tmp_path) as pointsman:
        assert not pointsman.in_force().problems
        a_turn(pointsman)
        assert assert_replays(pointsman) == 1


def test_the_largest_facts_that_are_accepted_replay(tmp_path: Path) -> None:
    row = {
        "fingerprint_id": "f",
        "model": "p:m",
        "cost_usd": "1000000000",
        "sample_size": 2**53 - 1,
        "similarity": 1,
        "success": 1,
    }
    given = {
        "message": "x",
        "pattern_rows": [row],
        "estimated_input_tokens": 2**53 - 1,
        "cost_today_usd": 10**9,
        "budgets": [{"name": "b", "left_usd": -(10**9)}],
    }
    with a_home(tmp_path) as pointsman:
        document = read_json(json.dumps(given).encode(), "facts")
        pointsman.route(pointsman.given_facts(read_facts(document)))
        assert assert_replays(pointsman) == 1


def test_a_model_nobody_estimated_for_still_has_tokens(tmp_path: Path) -> None:
    with a_home(tmp_path) as pointsman:
        facts = pointsman.given_facts(GivenFacts("hello there", estimated_input_tokens={"p:m": 9}))
    assert facts.tokens_for("p:m") == 9
    assert facts.tokens_for("embedded:smollm2-135m") == 2


def test_a_damaged_content_store_is_told_and_loses_no_decision(tmp_path: Path) -> None:
    with a_home(tmp_path) as pointsman:
        a_turn(pointsman)
    pointsman.home.content.write_bytes(b"garbage" * 1000)
    with a_home(tmp_path) as pointsman:
        with pytest.raises(LedgerBroken) as caught:
            a_turn(pointsman)
        assert caught.value.where.endswith("content.db")
        found = {
            each.subject: each.state for each in examine_home(pointsman.home, pointsman.in_force())
        }
        assert found["content.db"] == "fault"
        assert assert_replays(pointsman) == 1


def test_an_unreadable_pattern_store_is_told_and_changes_no_turn(tmp_path: Path) -> None:
    with a_home(tmp_path) as pointsman:
        pointsman.home.patterns.write_bytes(b"garbage" * 1000)
        facts = pointsman.facts("hello")
        assert facts.pattern_rows == ()
        assert "patterns.db" in pointsman.warnings[0]


def test_a_decision_whose_text_cannot_be_kept_is_not_recorded(tmp_path: Path) -> None:
    import apsw

    with a_home(tmp_path) as pointsman:
        a_turn(pointsman)
        connection = apsw.Connection(str(pointsman.home.content))
        connection.execute("ALTER TABLE contents RENAME TO away")
        with pytest.raises(LedgerUnavailable, match="the text could not be kept"):
            a_turn(pointsman, "another text")
        connection.execute("ALTER TABLE away RENAME TO contents")
        connection.close()
        a_turn(pointsman, "a third text")
        assert assert_replays(pointsman) == 2


def test_what_is_acknowledged_was_fully_synced_in_ledger_and_content(tmp_path: Path) -> None:
    with a_home(tmp_path) as pointsman:
        a_turn(pointsman)
        recorder = pointsman.decision_recorder.recorder()
        for store in (recorder._ledger._rows, recorder._content):
            assert store._connection.pragma("synchronous") == 2
            assert store._connection.pragma("journal_mode") == "wal"
