"""`keys` and `cost`, as a person or a script uses them."""

import json
import re
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from pointsman.access.book import HomeBook, Spent
from pointsman.access.keyring import Keyring
from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.gateway.turns.incoming import resolve_model
from pointsman.kernel.instant import DAY, Instant, read_instant
from pointsman.kernel.number import MicroUsd
from pointsman.storage.home import open_home

NOW = read_instant("2026-03-30T12:00:00Z")
TOKEN = re.compile(r"pk_[a-z2-7]{16}_[a-z2-7]{52}")


class Home:
    """A home folder and the command that works on it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*words, "--home", str(self.path)])

    def json(self, *words: str) -> Any:
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_a_users_alias_local_means_the_users_model_everywhere(home: Home) -> None:
    home.path.mkdir(mode=0o700)
    (home.path / "models.yaml").write_text(
        "schema_version: 1\nproviders: {here: {kind: ollama}}\n"
        "models: {here:llama: {location: local, aliases: [local]}}\naccept: {'x-*': local}\n"
    )
    assert home.json("keys", "create", "ci", "--allow", "local")["allowed_models"] == ["here:llama"]
    assert home.json("route", "@local hello")["chosen_model"] == "here:llama"
    assert home.json("rules", "check")["ok"]
    with Pointsman(home.path, create=False) as pointsman:
        in_force = pointsman.in_force()
    assert (
        resolve_model("local", in_force).model
        == resolve_model("x-1", in_force).model
        == "here:llama"
    )


def test_a_key_is_shown_once_and_its_secret_is_nowhere(home: Home) -> None:
    shown = home.run("keys", "create", "ci").stdout
    (token,) = TOKEN.findall(shown)
    home.run("keys", "list")
    home.run("keys", "revoke", token[3:19])
    secret = token[20:]
    slices = [secret[start : start + 12].encode() for start in range(len(secret) - 11)]
    files = [path for path in home.path.rglob("*") if path.is_file()]
    assert home.path / "access.db" in files
    for path in files:
        data = path.read_bytes()
        assert not any(each in data or each[::-1] in data for each in slices), path
    for words in (("list",), ("revoke", token[3:19])):
        for style in ((), ("--json",)):
            assert secret not in home.run("keys", *words, *style).output


def test_a_made_key_is_taken_until_it_is_revoked(home: Home) -> None:
    made = home.json("keys", "create", "ci", "--scope", "read", "--scope", "models")
    assert made["scopes"] == ["models", "read"]
    with closing(Keyring(home.path)) as ring:
        caller = ring.principal(made["key"], scope="read", is_loopback=False, now=NOW)
    assert (caller.key_id, caller.name) == (made["id"], "ci")
    assert home.json("keys", "revoke", made["id"][:8])["state"] == "revoked"
    assert home.json("keys", "list")[0]["state"] == "revoked"


def test_keys_carry_their_terms(home: Home) -> None:
    home.run(
        "keys", "create", "narrow", "--allow", "local", "--budget", "1.25", "--per", "month",
        "--expires", "2999-01-01T00:00:00Z", "--privacy", "local", "--workspace", "/w",
    )  # fmt: skip
    (key,) = home.json("keys", "list")
    assert "key" not in key
    assert key["allowed_models"] == ["embedded:smollm2-135m"]
    assert key["budgets"] == [{"limit_usd": "1.25", "per": "month"}]
    assert key["expires_at"] == "2999-01-01T00:00:00.000000Z"
    assert (key["privacy"], key["workspace"], key["state"]) == ("local", "/w", "live")
    assert key["last_used_at"] is None
    line = home.run("keys", "list").stdout
    for part in ("live", "narrow", "$1.25/month", "local only", "never used", "in /w"):
        assert part in line


def test_the_first_key_is_said_to_close_the_door(home: Home) -> None:
    note = "from now on every model call needs a key"
    assert note in home.run("keys", "create", "one").stdout
    assert note not in home.run("keys", "create", "two").stdout


def test_without_keys_the_list_says_what_that_means(home: Home) -> None:
    home.run("init")
    assert "no key exists yet" in home.run("keys", "list").stdout
    assert home.json("keys", "list") == []
    assert not (home.path / "access.db").exists()


def test_a_model_that_is_not_configured_yet_may_be_allowed_with_a_warning(home: Home) -> None:
    done = home.run("keys", "create", "ci", "--allow", "openai/gpt-x")
    assert done.exit_code == 0
    assert "`openai/gpt-x` is not in models.yaml" in done.stderr
    assert home.json("keys", "list")[0]["allowed_models"] == ["openai:gpt-x"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("create", "x", "--allow", "locl"), "`locl` names no model"),
        (("create", "x", "--budget", "lots"), "`lots` is not a decimal number"),
        (("create", "x", "--budget", "-1"), "is not an amount"),
        (("create", "x", "--expires", "tomorrow"), "`tomorrow` is not an instant"),
        (("create", "x", "--expires", "2001-01-01T00:00:00Z"), "is past"),
        (("create", ""), "1 to 100 printable characters"),
        (("create", "a\nb"), "1 to 100 printable characters"),
        (("create", "x", "--per", "year"), "'year' is not one of"),
        (("create", "x", "--scope", "root"), "'root' is not one of"),
        (("revoke", "nobody"), "no key has the id `nobody`"),
    ],
)
def test_bad_input_ends_with_two_and_makes_no_key(
    home: Home, words: tuple[str, ...], part: str
) -> None:
    home.run("init")
    done = home.run("keys", *words)
    assert done.exit_code == 2
    assert part in done.stderr
    assert home.json("keys", "list") == []


def test_keys_need_a_home_except_to_be_made(home: Home) -> None:
    assert "there is no home here" in home.run("keys", "list").stderr
    assert "there is no home here" in home.run("cost").stderr
    home.run("keys", "create", "ci")
    assert stat.S_IMODE((home.path / "access.db").stat().st_mode) == 0o600


def spend(home: Home, *many: Spent) -> None:
    with closing(HomeBook(open_home(home.path), "serve")) as book:
        for each in many:
            book.add(each)


SPENT = Spent(
    "p:m", "k1", "s1", "", 10, 20, 3, 4, MicroUsd(2_500), "v1", is_estimated=False, at=NOW
)


def test_nothing_spent_costs_nothing(home: Home) -> None:
    home.run("init")
    assert home.run("cost").stdout == "nothing was spent\n"
    value = home.json("cost")
    assert (value["calls"], value["cost_usd"], value["by_model"]) == (0, "0", [])


def test_cost_adds_up_by_model_key_session_and_day(home: Home) -> None:
    other = replace(SPENT, model="p:n", session_id="s2", key_id="", cost_microusd=MicroUsd(7))
    unknown = replace(SPENT, at=Instant(NOW + DAY), cost_microusd=None, is_estimated=True)
    spend(home, SPENT, SPENT, other, unknown)
    value = home.json("cost")
    assert (value["calls"], value["cost_usd"], value["cost_microusd"]) == (4, "0.005007", 5_007)
    assert [(each["model"], each["cost_usd"]) for each in value["by_model"]] == [
        ("p:m", "0.005"),
        ("p:n", "0.000007"),
    ]
    assert [each["day"] for each in value["by_day"]] == ["2026-03-30", "2026-03-31"]
    assert {each["key"] for each in value["by_key"]} == {"", "k1"}
    text = home.run("cost").stdout
    assert "total  $0.005007" in text
    assert "1 call charged by estimate, 1 call without a known price" in text


def test_cost_of_one_session_or_key_or_time(home: Home) -> None:
    later = replace(SPENT, at=Instant(NOW + DAY), session_id="s2", key_id="k2")
    spend(home, SPENT, later, later)
    assert home.json("cost", "--session", "s1")["cost_usd"] == "0.0025"
    assert home.json("cost", "--key", "k2")["cost_usd"] == "0.005"
    assert home.json("cost", "--since", "2026-03-31T08:00:00Z")["calls"] == 2
    assert home.json("cost", "--session", "nobody")["calls"] == 0
    assert home.run("cost", "--since", "yesterday").exit_code == 2


def test_a_long_list_is_cut_in_text_but_not_in_json(home: Home) -> None:
    spend(home, *(replace(SPENT, session_id=f"s{number}") for number in range(25)))
    assert "and 5 more: --json lists all" in home.run("cost").stdout
    assert len(home.json("cost")["by_session"]) == 25


def test_the_signing_key_is_replaced_by_a_command(home: Home) -> None:
    assert home.run("route", "hello").exit_code == 0
    before = open_home(home.path).keys[-1].id
    done = home.run("keys", "rotate-signing")
    assert done.exit_code == 0, done.output
    after = open_home(home.path).keys[-1].id
    assert f"signs as  {after}" in done.stdout
    assert f"replaced  {before}: it counts for 3 entries in 1 chain" in done.stdout
    told = home.json("keys", "rotate-signing", "--compromised-since", "2026-01-01T00:00:00Z")
    assert (told["old_key_id"], told["chains"]) == (after, {"cli": 4})
    assert home.run("route", "hello").exit_code == 0
    verified = home.json("verify")
    assert verified["is_intact"]
    assert [(each["first"], each["last"]) for each in verified["doubts"]] == [(0, 3)]
    assert "DOUBT cli/0 to 3: signed by a key that was compromised" in home.run("verify").stdout
    assert home.json("replay", "--all")["identical"] == 2


def test_the_signing_key_stays_while_a_process_writes(home: Home) -> None:
    with Pointsman(home.path) as pointsman:
        pointsman.decision_recorder.recorder()
        before = (home.path / "identity.json").read_bytes()
        done = home.run("keys", "rotate-signing")
    assert done.exit_code != 0
    assert "another process writes the chain" in done.stderr
    assert "stop what runs in this home" in done.stderr
    assert (home.path / "identity.json").read_bytes() == before
    assert home.run("keys", "rotate-signing", "--compromised-since", "soon").exit_code == 2


def test_a_period_of_the_ledger_is_exported_and_proved(home: Home, tmp_path: Path) -> None:
    home.run("route", "hello")
    done = home.run("verify", "--export", str(tmp_path / "b"), "--until", "2026-01-01T00:00:00Z")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "b").read_text().splitlines()[0])["period"]["until"] == (
        "2026-01-01T00:00:00.000000Z"
    )
    assert home.run("verify", "--since", "2026-01-01T00:00:00Z").exit_code == 2
