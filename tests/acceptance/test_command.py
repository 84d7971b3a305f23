"""The installed command, as a person or a script uses it."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

POINTSMAN = Path(sys.executable).with_name("pointsman")


class Home:
    """A home folder and the command that works on it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *words: str, text: str | None = None) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "POINTSMAN_HOME": str(self.path)}
        return subprocess.run(
            [POINTSMAN, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
        )

    def json(self, *words: str, text: str | None = None) -> Any:
        return json.loads(self.run(*words, "--json", text=text).stdout)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_init_writes_commented_files_once_and_keeps_what_was_edited(home: Home) -> None:
    names = ["pointsman.yaml", "models.yaml", "routing.yaml", "placement.yaml"]
    assert home.json("init")["written"] == names
    (home.path / "routing.yaml").write_text("schema_version: 1\n")
    assert home.json("init") == {
        "home": str(home.path),
        "written": [],
        "kept": names,
    }
    assert (home.path / "routing.yaml").read_text() == "schema_version: 1\n"


def test_a_fresh_home_is_in_order(home: Home) -> None:
    home.run("init")
    done = home.run("doctor")
    assert done.returncode == 0, done.stdout
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"ok"}


@pytest.mark.req(245)
def test_route_prints_the_contracts_payload(home: Home) -> None:
    value = home.json("route", "hello")
    assert list(value) == [
        "decision_id",
        "turn_id",
        "chosen_model",
        "winner_index",
        "decision_version",
        "policy_id",
        "facts_id",
        "elapsed_ms",
        "banners",
        "placement",
        "chain",
    ]
    assert value["chosen_model"] == "embedded:smollm2-135m"
    assert value["chain"][value["winner_index"]]["policy"] == "global_default"
    assert isinstance(value["elapsed_ms"], float)


def test_why_shows_what_route_showed(home: Home) -> None:
    routed = home.run("route", "hello").stdout
    assert home.run("why").stdout == routed
    assert home.run("why", routed.split()[1]).stdout == routed


def on_a_terminal(home: Home, columns: int, *words: str) -> str:
    """Run the command in a terminal of so many columns; give what it printed, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment = {**kept, "POINTSMAN_HOME": str(home.path), "TERM": "xterm"}
    with subprocess.Popen(
        [POINTSMAN, *words], stdout=theirs, stderr=theirs, env=environment
    ) as run:
        os.close(theirs)
        said = b""
        # A terminal whose other end is closed is an error on some systems, and empty on others.
        with suppress(OSError):
            while piece := os.read(ours, 65_536):
                said += piece
    os.close(ours)
    assert run.returncode == 0, said
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_why_is_as_wide_as_its_terminal_and_cuts_no_cause(home: Home, columns: int) -> None:
    name = "deep for architecture and design reviews of everything that is older than a week"
    rule = {"name": name, "when": {"message_matches": "."}, "use": "acme:gone"}
    home.path.mkdir()
    (home.path / "models.yaml").write_text(
        "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
        "models: {'acme:gone': {location: cloud}}\n"
    )
    (home.path / "routing.yaml").write_text(json.dumps({"schema_version": 1, "rules": [rule]}))
    home.run("route", "--facts", "-", text='{"message": "hi", "configured": []}')
    screen = on_a_terminal(home, columns, "why")
    cause = f'rule "{name}" -> acme:gone [not_configured] acme:gone lacks a key or an address'
    assert cause in " ".join(screen.split())
    assert max(map(len, screen.splitlines())) <= columns
    assert any(cause in line for line in screen.splitlines()) == (columns == 200)


@pytest.mark.req(155)
def test_hard_failure_ends_with_one(home: Home) -> None:
    done = home.run("route", "--facts", "-", text='{"message": "hi", "configured": []}')
    assert done.returncode == 1
    assert "No model available for this turn." in done.stdout


def test_facts_decide_alone_and_are_recorded(home: Home, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text('{"message": "hi", "availability": {"embedded": "healthy"}}')
    first, second = (home.json("route", "--facts", str(facts)) for _ in range(2))
    assert first["facts_id"] == second["facts_id"]
    assert first["decision_id"] != second["decision_id"]
    assert home.json("replay", "--all")["identical"] == 2


def test_nothing_is_recorded_with_no_record(home: Home) -> None:
    assert home.run("route", "hello", "--no-record").returncode == 0
    assert not (home.path / "ledger.db").exists()


@pytest.mark.parametrize(
    ("words", "text", "part"),
    [
        (("route",), None, "give either a message or --facts"),
        (("route", "hi", "--facts", "-"), "{}", "give either a message or --facts"),
        (("route", "@opus hi"), None, "`@opus` names no model"),
        (("route", "--facts", "-"), '{"message": 1}', "standard input:1:13: config.wrong_type"),
        (("route", "--facts", "-"), '{"messag": "x"}', "did you mean `message`?"),
        (("route", "--facts", "-"), '{"message": "x", "message": "y"}', "config.duplicate_key"),
        (("route", "--facts", "-"), '{"message": "\\ud800"}', "standard input:1:"),
        (("route", "--facts", "-"), "", "standard input:1:1"),
        (("route", "--facts", "nowhere.json"), None, "nowhere.json: input.invalid: cannot be read"),
        (("why",), None, "there is no home here"),
        (("verify",), None, "there is no home here"),
        (("doctor",), None, "there is no home here"),
        (("replay",), None, "give ids, or --all, or --since"),
        (("replay", "x", "--all"), None, "give ids, or --all, or --since"),
        (("replay", "--all"), None, "there is no home here"),
    ],
)
def test_bad_input_gets_one_clear_error_and_exit_two(
    home: Home, words: tuple[str, ...], text: str | None, part: str
) -> None:
    done = home.run(*words, text=text)
    assert done.returncode == 2, done.stderr
    assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (home.path / "ledger.db").exists()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("why",), "nothing is recorded yet"),
        (("replay", "--since", "yesterday"), "`yesterday` is not an instant"),
        (("verify", "--export", "/nowhere/at/all"), "nothing is recorded yet"),
        (("why", "\x1b[31mx"), "nothing is recorded yet"),
    ],
)
def test_a_home_without_a_ledger_says_so(home: Home, words: tuple[str, ...], part: str) -> None:
    home.run("init")
    done = home.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert part in done.stderr


def test_commands_that_only_read_make_no_home(home: Home) -> None:
    for words in (("why",), ("verify",), ("doctor",), ("replay", "--all")):
        home.run(*words)
    assert not home.path.exists()


def test_what_the_user_wrote_cannot_move_the_cursor(home: Home) -> None:
    home.run("route", "hello")
    done = home.run("why", "\x1b[31mx")
    assert "\x1b" not in done.stderr
    assert "\\u001b[31mx" in done.stderr


def test_home_and_json_may_stand_before_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [POINTSMAN, "--home", str(tmp_path / "h"), "--json", "init"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["home"] == str(tmp_path / "h")


@pytest.mark.req(186, 194)
def test_imported_patterns_speak_where_no_rule_does(home: Home) -> None:
    home.run("init")
    (home.path / "models.yaml").write_text(
        "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
        "models: {'acme:a': {location: cloud, price: {input: 1, output: 5}},"
        " 'acme:b': {location: cloud, price: {input: 1, output: 5}}}\n"
    )
    message = "please refactor the parser module and keep its tests green"
    rows = [
        {
            "model": "acme:a",
            "cost_usd": "0.01",
            "sample_size": 9,
            "success": "0.95",
            "message": message,
        },
        {
            "model": "acme:b",
            "cost_usd": "0.01",
            "sample_size": 9,
            "success": "0.40",
            "message": message,
        },
    ]
    (home.path / "rows.json").write_text(json.dumps(rows))
    assert home.run("patterns", "import", str(home.path / "rows.json")).returncode == 0
    value = home.json("route", message)
    assert value["chosen_model"] == "acme:a"
    slot = value["chain"][value["winner_index"]]
    assert slot["policy"] == "pattern"
    assert [each["model"] for each in slot["pattern_alternatives"]] == ["acme:a", "acme:b"]
    assert slot["neighbours"][0]["similarity"] == 1
    assert home.run("replay", "--all").returncode == 0


@pytest.mark.req(271)
def test_an_alias_at_the_start_chooses_the_model(home: Home) -> None:
    value = home.json("route", "@local hello")
    assert value["chain"][0]["verdict"] == "chose"
    assert value["chosen_model"] == "embedded:smollm2-135m"


def test_errors_are_json_on_request(home: Home) -> None:
    value = home.json("route", "--facts", "-", text='{"messag": "x"}')
    assert value["error_code"] == "input.document"
    assert {each["code"] for each in value["problems"]} == {
        "config.unknown_key",
        "config.missing_key",
    }


@pytest.mark.req(158)
def test_a_broken_policy_warns_and_the_last_good_one_stands(home: Home) -> None:
    home.run("init")
    good = home.json("route", "one")["policy_id"]
    (home.path / "routing.yaml").write_text("schema_version: 1\nglobal_default: gone:model\n")
    done = home.run("route", "two", "--json")
    assert done.returncode == 0
    assert "routing.yaml:2:17: config.unknown_value" in done.stderr
    assert json.loads(done.stdout)["policy_id"] == good
    assert home.run("doctor").returncode == 1


def test_replay_and_verify_are_clean_after_several_commands(home: Home) -> None:
    for number in range(3):
        home.run("route", f"message {number}")
    assert home.run("replay", "--all").stdout == "3 of 3 decisions identical\n"
    report = home.json("verify")
    assert report["is_intact"]
    assert report["entries"] == 5


def test_an_edited_ledger_is_named_by_verify_and_ends_with_one(home: Home) -> None:
    import apsw

    turn = home.json("route", "hello")
    connection = apsw.Connection(str(home.path / "ledger.db"))
    connection.execute(
        "UPDATE entries SET payload = CAST(replace(CAST(payload AS TEXT), 'smollm2', 'smollm3')"
        " AS BLOB) WHERE kind = 'decision.turn'"
    )
    connection.close()
    done = home.run("verify")
    assert done.returncode == 1
    assert "FAULT cli/2: ledger.entry_changed" in done.stdout
    assert home.run("replay", turn["turn_id"]).returncode == 1
    assert home.run("route", "more").returncode == 1
    assert home.run("doctor").returncode == 1
    refused = home.run("verify", "--export", str(home.path / "bundle"))
    assert "not exported" in refused.stderr
    assert not (home.path / "bundle").exists()


@pytest.mark.parametrize("content", [b"garbage" * 1000, b""], ids=["garbage", "empty"])
def test_a_damaged_database_is_told_by_every_command(home: Home, content: bytes) -> None:
    home.run("route", "hello")
    (home.path / "ledger.db").write_bytes(content)
    for words in (("why",), ("replay", "--all"), ("replay", "x"), ("verify",), ("route", "more")):
        done = home.run(*words)
        assert done.returncode in {1, 2}, (words, done)
        assert "Traceback" not in done.stderr


def test_an_exported_bundle_is_verified_by_the_file_beside_it(home: Home, tmp_path: Path) -> None:
    home.run("route", "hello")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    done = home.run("verify", "--export", str(folder / "bundle"))
    key = done.stdout.split("signed by")[1].split()[0].rstrip(":")
    check = [sys.executable, "-I", str(folder / "pointsman_verify.py"), str(folder / "bundle")]
    good = subprocess.run(
        [*check, "--key", key], capture_output=True, text=True, check=False, timeout=60
    )
    assert good.returncode == 0, good.stdout + good.stderr
    data = bytearray((folder / "bundle").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "bundle").write_bytes(data)
    bad = subprocess.run(check, capture_output=True, text=True, check=False, timeout=60)
    assert bad.returncode == 1


@pytest.mark.parametrize("command", ["init", "doctor", "route", "why", "replay", "verify"])
def test_every_command_has_help_with_home_and_json(home: Home, command: str) -> None:
    text = home.run(command, "--help").stdout
    assert "--home" in text
    assert "--json" in text
