"""Which database a home uses, and that nobody is shown a password."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from pointsman.cli.main import main
from pointsman.errors import HomeError, LedgerUnavailable
from pointsman.storage.home import open_home
from pointsman.storage.policies.settings import read_settings
from pointsman.storage.store_url import chosen_store

SECRET = "hunter2-not-to-be-shown"
NOBODY = f"postgresql://someone:{SECRET}@127.0.0.1:1/nothing?connect_timeout=2"


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    monkeypatch.delenv("POINTSMAN_STORE", raising=False)


def place(home, given=""):
    return str(chosen_store(home, given).place("ledger"))


def test_without_a_word_a_home_keeps_files(tmp_path):
    assert place(tmp_path) == str(tmp_path / "ledger.db")
    (tmp_path / "pointsman.yaml").write_text("retain: full\n")
    assert place(tmp_path) == str(tmp_path / "ledger.db")


def test_the_option_wins_over_the_variable_and_that_over_the_settings(tmp_path, monkeypatch):
    (tmp_path / "pointsman.yaml").write_text("store: postgresql://u@settings/db\n")
    assert place(tmp_path) == "postgresql://u@settings/db (pointsman_ledger)"
    monkeypatch.setenv("POINTSMAN_STORE", "postgres://u@variable:5433/db")
    assert place(tmp_path) == "postgresql://u@variable:5433/db (pointsman_ledger)"
    given = place(tmp_path, "postgresql://u@option/db")
    assert given == "postgresql://u@option/db (pointsman_ledger)"
    assert place(tmp_path, "sqlite:") == str(tmp_path / "ledger.db")


def test_settings_that_cannot_be_read_may_name_a_store_and_are_not_passed_over(tmp_path):
    (tmp_path / "pointsman.yaml").write_text("store: postgresql://u@h/db\n  broken: [\n")
    with pytest.raises(HomeError, match="may name a store"):
        place(tmp_path)
    assert place(tmp_path, "sqlite:") == str(tmp_path / "ledger.db")


def test_a_key_without_a_value_elsewhere_in_the_settings_hides_no_store(tmp_path):
    path = tmp_path / "pointsman.yaml"
    path.write_text("store: postgresql://u@settings/db\nredis:\n")
    assert place(tmp_path) == "postgresql://u@settings/db (pointsman_ledger)"
    for text in ("store:\n", "store: a\nstore: postgresql://u@settings/db\n"):
        path.write_text(text)
        with pytest.raises(HomeError, match="may name a store"):
            place(tmp_path)


def test_settings_know_a_store_and_refuse_what_is_none():
    assert read_settings(b"store: postgresql://u@h/db\n", "p").store == "postgresql://u@h/db"
    with pytest.raises(Exception, match="not a store's URL") as raised:
        read_settings(f"store: mysql://u:{SECRET}@h/db\n".encode(), "p")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{SECRET}@h/db",
        f"postgresql://u:{SECRET}@h:port/db",
        f"postgresql://u:{SECRET}@h/db?{SECRET}=1",
        f"postgresql://u:{SECRET}@[h/db",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_showing_it(tmp_path, url):
    with pytest.raises((HomeError, LedgerUnavailable)) as raised:
        open_home(tmp_path / "home", store=url).database.exists()
    error = raised.value
    told = f"{error} {error.hint} {error.__cause__} {error.__context__ if error.__cause__ else ''}"
    assert SECRET not in told


def test_a_server_that_is_not_there_is_told_with_what_to_do(tmp_path):
    home = open_home(tmp_path / "home", store=NOBODY)
    with pytest.raises(LedgerUnavailable) as raised:
        home.database.exists()
    assert "PostgreSQL cannot be reached" in raised.value.message
    assert raised.value.where == "postgresql://someone@127.0.0.1:1/nothing"
    assert raised.value.hint == "start the server, or correct the store's URL"


@pytest.mark.parametrize(
    "command", [["route", "hi"], ["verify"], ["why", "x"], ["replay", "--all"]]
)
def test_commands_end_with_one_clear_error_when_the_server_is_not_there(tmp_path, command):
    open_home(tmp_path / "home")
    runner = CliRunner()
    done = runner.invoke(main, ["--home", str(tmp_path / "home"), "--store", NOBODY, *command])
    assert done.exit_code != 0
    assert done.output.count("error: ") == 1
    assert "PostgreSQL cannot be reached" in done.output
    assert SECRET not in done.output
    assert "Traceback" not in done.output


def test_the_doctor_names_the_store_that_is_not_there_and_goes_on(tmp_path):
    open_home(tmp_path / "home")
    done = CliRunner().invoke(main, ["--home", str(tmp_path / "home"), "--store", NOBODY, "doctor"])
    assert done.exit_code == 1
    assert "fault    store" in done.output
    assert "disk" in done.output
    assert SECRET not in done.output


def test_without_the_extra_the_error_says_what_to_install(tmp_path, monkeypatch):
    for name in [each for each in sys.modules if each.startswith("pointsman.storage.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(HomeError, match="needs a package that is not installed") as raised:
        chosen_store(tmp_path, NOBODY)
    assert raised.value.hint == "pip install 'pointsman[postgres]'"
    assert raised.value.where == "psycopg"


def test_a_home_of_files_never_imports_the_extra(tmp_path):
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from pointsman.app import Pointsman\n"
        f"Pointsman(Path({str(tmp_path)!r})).close()\n"
        "assert 'psycopg' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
