"""Text that must go is gone from every byte of every file; what was decided stays provable."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import Town
from tests.gateway.house import Running, entries, running, write_home
from tests.servers import PostgresServer

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.operations.erasure.erase import ERASED, ERASURE
from pointsman.storage.home import open_home
from pointsman.storage.stores.patterns.patterns import PatternStore


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def canary(name: str, size: int = 1) -> str:
    """A text that stands nowhere else, also one that fills many pages."""
    return f"canary of {name} " + f"<{name}>" * size


def files_with(words: str, *folders: Path) -> list[str]:
    data = words.encode()
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [str(path.name) for path in paths if data in path.read_bytes()]


def ask(live: Running, text: str, session: str, **more: Any) -> str:
    answer = live.chat(text, headers={"x-session-id": session}, **more)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-pointsman-turn"]


RULE = {"name": "c", "when": {"message_contains_any": ["no such word"]}, "use": "open:small"}
LOOKING = {"schema_version": 1, "global_default": "open:big", "rules": [RULE]}
"""A policy whose decisions look at the text."""


def fill(live: Running) -> dict[str, str]:
    """Three turns of two sessions, one with a comment, one long enough for overflow pages."""
    turns = {
        "one": ask(live, canary("one"), "mine"),
        "two": ask(live, canary("two", 20_000), "mine"),
        "other": ask(live, canary("other"), "yours"),
    }
    live.outcomes(3)
    said = {"turn_id": turns["one"], "score": 1, "comment": canary("comment")}
    assert live.post("/api/feedback", said).status_code == 200
    return turns


def erase(live: Running, what: str, value: str, **more: Any) -> dict[str, Any]:
    answer = live.post("/api/erase", {"what": what, "value": value, **more}, **bearer(live.admin))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def check_erased(home: Path, folders: tuple[Path, ...]) -> None:
    for name in ("one", "two", "comment"):
        assert files_with(f"canary of {name}", *folders) == []
        assert files_with(f"<{name}><{name}>", *folders) == []
    assert files_with("canary of other", *folders), "what was not asked for stays"
    with Pointsman(home, create=False) as pointsman:
        assert pointsman.verify().is_intact
        report = pointsman.replay_all()
    assert (report.identical, report.diverged) == (1, 0)
    assert report.unable == 2
    assert {each.reason for each in report.others} == {"the message text was erased"}


def test_a_session_is_erased_from_every_file_beside_a_running_gateway(town: Town) -> None:
    write_home(town.home, routing=LOOKING)
    with running(town.home) as live:
        fill(live)
        planned = erase(live, "session", "mine", dry_run=True)
        assert (planned["is_done"], planned["texts"]) == (False, 0)
        assert files_with("canary of one", town.home), "a dry run changes nothing"
        done = erase(live, "session", "mine")
        assert done["plan"] == planned["plan"]
        assert (done["is_done"], done["texts"], done["plan"]["decisions"]) == (True, 3, 2)
        for name in ("one", "two", "comment"):
            assert files_with(f"canary of {name}", town.home) == []
        assert erase(live, "session", "mine")["texts"] == 0, "a second time there is nothing left"
    check_erased(town.home, (town.home,))
    ordered, ended = entries(town.home, ERASURE)[0], entries(town.home, ERASED)[0]
    assert ended.ref == ordered.id
    assert b'"by":"admin"' in ordered.payload
    assert b'"texts":3' in ended.payload


def test_a_session_is_erased_from_the_servers_files_and_log_too(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PostgresServer("wal_recycle=off", "min_wal_size=32MB")
    try:
        monkeypatch.setenv("POINTSMAN_STORE", server.fresh())
        write_home(town.home, routing=LOOKING)
        with running(town.home) as live:
            fill(live)
            assert files_with("canary of one", server.data), "they look where the text is"
            erase(live, "session", "mine")
        check_erased(town.home, (town.home, server.data))
    finally:
        server.close()


@pytest.mark.parametrize("named", ["turn", "decision"])
def test_a_turn_is_erased_by_its_id_or_that_of_its_decision(live: Running, named: str) -> None:
    turns = fill(live)
    (decision,) = [e.id for e in live.entries("decision.turn") if e.ref == turns["one"]]
    done = erase(live, "turn", turns["one"] if named == "turn" else decision)
    assert done["plan"]["turns"] == 1
    assert files_with("canary of one", live.home) == []
    assert files_with("canary of comment", live.home) == []
    assert files_with("canary of two", live.home), "another turn of the session stays"


def test_all_of_a_key_and_of_a_tenant_is_erased(live: Running) -> None:
    made = [
        live.post("/api/keys", {"name": name, "tenant": tenant}, **bearer(live.admin)).json()
        for name, tenant in (("a", "acme"), ("b", "acme"), ("c", ""))
    ]
    for name, key in zip("abc", made, strict=True):
        headers = {**bearer(key["key"]), "x-session-id": "s"}
        assert live.chat(canary(f"key-{name}"), headers=headers).status_code == 200
    live.outcomes(3)
    assert erase(live, "key", made[0]["id"])["texts"] == 1
    assert files_with("canary of key-a", live.home) == []
    assert files_with("canary of key-b", live.home)
    assert erase(live, "tenant", "acme")["texts"] == 1
    assert files_with("canary of key-b", live.home) == []
    assert files_with("canary of key-c", live.home)


def test_text_before_an_instant_goes_unless_it_was_said_again_since(live: Running) -> None:
    ask(live, canary("old"), "s1")
    ask(live, canary("again"), "s1")
    live.outcomes(2)
    ask(live, canary("again"), "s2")
    live.outcomes(3)
    last = live.entries("decision.turn")[-1]
    at = Pointsman(live.home, create=False).shown(last.id).at
    from pointsman.kernel.instant import instant_text

    done = erase(live, "before", instant_text(at))
    assert done["texts"] == 1
    assert files_with("canary of old", live.home) == []
    assert files_with("canary of again", live.home)


def test_a_hold_and_the_floor_keep_what_an_erasure_asks_for(
    town: Town, serve: Callable[[Path], Running]
) -> None:
    held = {"retention": {"holds": [{"name": "case-7", "session": "mine"}]}}
    write_home(town.home, pointsman=held)
    live = serve(town.home)
    turns = fill(live)
    plan = erase(live, "turn", turns["one"])["plan"]
    assert (plan["texts"], plan["held"], plan["holds"]) == (0, 2, ["case-7"])
    assert files_with("canary of one", live.home)
    write_home(town.home, pointsman={"retention": {"floor": 30}})
    plan = erase(live, "session", "yours")["plan"]
    assert (plan["texts"], plan["young"]) == (0, 1)
    assert files_with("canary of other", live.home)


def test_the_look_of_an_erased_turn_is_forgotten(live: Running) -> None:
    turns = fill(live)
    said = {"turn_id": turns["other"], "score": 1}
    live.post("/api/feedback", said)
    with closing(PatternStore(open_home(live.home).patterns)) as store:
        before = len(store.summaries())
        assert before
        done = erase(live, "session", "mine")
        assert done["looks"] >= 1
        assert len(store.summaries()) == before - done["looks"]


def test_only_admins_erase(live: Running) -> None:
    made = live.post("/api/keys", {"name": "a", "role": "operator"}, **bearer(live.admin)).json()
    wanted = {"what": "session", "value": "mine"}
    assert live.post("/api/erase", wanted, **bearer(made["key"])).status_code == 403


def run(home: Path, *words: str) -> Any:
    return CliRunner().invoke(main, ["erase", *words, "--home", str(home)])


def test_the_command_says_what_it_would_do_and_what_it_did(town: Town) -> None:
    with running(town.home) as live:
        turn = fill(live)["one"]
    said = run(town.home, "--turn", turn, "--dry-run")
    assert said.exit_code == 0, said.output
    assert "2 texts of 1 turn, looked at by 1 decision" in said.output
    assert "nothing was changed" in said.output
    said = run(town.home, "--turn", turn)
    assert "erased     2 texts" in said.output
    assert files_with("canary of one", town.home) == []
    assert run(town.home, "--expired").output == "nothing has expired\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "say whose text goes, and only that"),
        (("--turn", "a", "--session", "b"), "say whose text goes, and only that"),
        (("--before", "yesterday"), "yesterday"),
        (("--session", " "), "`session` is empty"),
    ],
)
def test_a_request_that_names_nothing_or_too_much_is_refused(
    town: Town, words: tuple[str, ...], message: str
) -> None:
    with running(town.home) as live:
        ask(live, "hello", "s")
    said = run(town.home, *words)
    assert said.exit_code == 2
    assert message in said.output
