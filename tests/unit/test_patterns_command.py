"""`patterns`, as a person or a script uses it."""

import json

import pytest
from click.testing import CliRunner

from pointsman.cli.main import main
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import Caps


@pytest.fixture
def path(tmp_path):
    return tmp_path / "patterns.db"


# The command.


@pytest.fixture
def run(tmp_path):
    def run(*words, text=None, code=0):
        arguments = [*words, "--home", str(tmp_path / "home")]
        done = CliRunner().invoke(main, ["patterns", *arguments], input=text)
        assert done.exit_code == code, done.output
        return done.output

    return run


ROWS = [
    {
        "message": "refactor the parser",
        "model": "p/a",
        "success": "0.9",
        "cost_usd": "0.004",
        "sample_size": 12,
    },
    {
        "fingerprint": {"file_extensions": [".sql", ".py"], "intent_tags": ["test"]},
        "model": "p:b",
        "cost_usd": 0.5,
        "sample_size": 1,
    },
    {
        "fingerprint": {"file_extensions": [".sql", ".py"], "intent_tags": ["test"]},
        "model": "p:b",
        "cost_usd": 0.5,
        "sample_size": 1,
    },
]


def test_imported_file_is_listed_shown_reported_and_forgotten(run):
    assert run("import", "-", text=json.dumps(ROWS)) == "3 rows imported, 0 known already\n"
    assert json.loads(run("import", "-", "--json", text=json.dumps(ROWS)))["skipped"] == 3
    listed = json.loads(run("list", "--json"))
    assert len(listed) == 2
    assert len(run("list").splitlines()) == 2
    name = next(each["fingerprint_id"] for each in listed if each["models"] == ["p:a"])
    shown = json.loads(run("show", name, "--json"))
    assert (shown["has_vector"], shown["fingerprint"]["intent_tags"]) == (True, ["refactor"])
    assert shown["outcomes"][0]["success"] == 0.9
    assert "p:a" in run("show", name[7:20])
    totals = json.loads(run("report", "--json"))["models"]
    assert [(each["model"], each["samples"], each["mean_cost_usd"]) for each in totals] == [
        ("p:a", 12, "0.004"),
        ("p:b", 2, "0.5"),
    ]
    assert " 90 %  $0.004" in run("report")
    assert run("delete", name) == f"forgotten  {name}\n"
    assert len(json.loads(run("list", "--json"))) == 1


def test_an_empty_store_says_so(run):
    run("import", "-", text="[]")
    assert run("list") == run("report") == "no pattern is recorded yet\n"


def test_message_and_fingerprint_add_up(run):
    row = {**ROWS[0], "fingerprint": {"tool_names": ["bash"]}}
    run("import", "-", text=json.dumps([row]))
    (listed,) = json.loads(run("list", "--json"))
    assert listed["has_vector"]
    assert listed["fingerprint"]["tool_names"] == ["bash"]
    assert listed["fingerprint"]["intent_tags"] == ["refactor"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"message": None}, "neither `message` nor `fingerprint`"),
        ({"success": 1.5}, "success"),
        ({"sample_size": 0}, "sample_size"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_import_refuses_what_it_cannot_use_at_its_place(run, change, told):
    output = run("import", "-", text=json.dumps([{**ROWS[0], **change}]), code=2)
    assert "standard input:1:" in output
    assert told in output


def test_unknown_pattern_is_refused(run):
    run("import", "-", text="[]")
    assert "no pattern is recorded as `abc`" in run("show", "abc", code=2)


def test_import_tells_what_had_to_go_for_it(run, monkeypatch):
    def small(path):
        return PatternStore(path, Caps(soft=1, hard=1))

    monkeypatch.setattr("pointsman.cli.patterns.PatternStore", small)
    assert "1 old fingerprint given up" in run("import", "-", text=json.dumps(ROWS))
