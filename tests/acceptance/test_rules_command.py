"""`rules`, as a person or a script uses it."""

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.acceptance.rules_home import GOOD, MODELS, Home

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.cli.rules import rules


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("POINTSMAN_TEST_KEY", raising=False)
    path = tmp_path / "home"
    with Pointsman(path) as pointsman:
        made = Home(path)
        pointsman.in_force()
    return made


@pytest.mark.req(269)
def test_check_says_ok_when_nothing_is_wrong(home: Home) -> None:
    done = home.run(rules, "check")
    assert done.exit_code == 0
    *_, privacy, auto, last = done.stdout.splitlines()
    assert auto.startswith("auto: advisory: ")
    assert privacy.startswith("privacy: holds: ")
    assert last == "ok"


def refused(name: str, text: str, code: str, words: str, *numbers: int) -> Any:
    return pytest.param(text, code, words, id=name, marks=pytest.mark.req(*numbers))


ONE_RULE = "schema_version: 1\nrules:\n  - "
REFUSED = [
    refused("malformed yaml", "rules: [", "config.syntax", "not valid YAML", 200),
    refused("schema version", "schema_version: 2", "config.unknown_value", "2", 201),
    refused(
        "unknown model in a rule",
        ONE_RULE + "{when: {}, use: acme:bgi}",
        "config.unknown_value",
        "did you mean `acme:big`?",
        202,
    ),
    refused(
        "unknown workspace default",
        "schema_version: 1\nworkspaces: {/w: {default: acme:none}}",
        "config.unknown_value",
        "`acme:none` is not a model",
        202,
    ),
    refused(
        "unknown tier model",
        "schema_version: 1\ntiers: {fast: acme:none}",
        "config.unknown_value",
        "`acme:none` is not a model",
        203,
    ),
    refused(
        "partial workspace tiers",
        "schema_version: 1\nworkspaces: {/w: {tiers: {fast: acme:big}}}",
        "config.missing_key",
        "missing: balanced, deep",
        204,
        298,
    ),
    refused(
        "unknown predicate",
        ONE_RULE + "{when: {mesage_matches: x}, use: acme:big}",
        "config.unknown_key",
        "did you mean `message_matches`?",
        205,
    ),
    refused(
        "wrong type of value",
        ONE_RULE + "{when: {has_images: 1}, use: acme:big}",
        "config.wrong_type",
        "has_images",
        205,
    ),
    refused(
        "broken pattern",
        ONE_RULE + "{when: {message_matches: '('}, use: acme:big}",
        "config.pattern",
        "missing )",
        206,
    ),
    refused(
        "pattern with look-ahead",
        ONE_RULE + "{when: {message_matches: 'a(?=b)'}, use: acme:big}",
        "config.pattern",
        "invalid perl operator: (?=",
        206,
    ),
    refused(
        "duplicate name",
        ONE_RULE + "{name: a, when: {}, use: acme:big}\n  - {name: a, when: {}, use: acme:big}",
        "config.duplicate_key",
        "`a` is taken by an earlier rule",
        207,
    ),
    refused(
        "cost weight",
        "schema_version: 1\npattern: {cost_weight: 1.5}",
        "config.out_of_range",
        "cost_weight",
        208,
    ),
    refused(
        "sample size",
        "schema_version: 1\npattern: {min_sample_size: 0}",
        "config.out_of_range",
        "min_sample_size",
        208,
    ),
    refused("a file of 10 MB", "#" * 10_000_000, "config.too_large", "larger than"),
    refused(
        "a million rules",
        ONE_RULE + "{when: {}, use: acme:big}\n  - " * 1_000_000,
        "config.too_large",
        "larger than",
    ),
]


@pytest.mark.req(158, 209, 280)
@pytest.mark.parametrize(("text", "code", "words"), REFUSED)
def test_a_bad_file_gives_one_clear_error_and_the_old_policy_stays(
    home: Home, text: str, code: str, words: str
) -> None:
    before = home.json(rules, "show")
    path = home.write("routing.yaml", text)
    done = home.run(rules, "check")
    assert done.exit_code == 2
    (line,) = (line for line in done.stdout.splitlines() if str(path) in line)
    place, found, _ = line.removeprefix(str(path)).split(": ", 2)
    assert all(part.isdigit() for part in place.strip(":").split(":"))
    assert found == code
    assert words in line
    assert len(line) < 400 + len(str(path))
    assert "in force: the last good version of routing.yaml, until it is mended" in done.stdout
    assert "ok" not in done.stdout.splitlines()
    after = home.json(rules, "show")
    assert after == before


def test_a_bomb_of_anchors_is_refused_where_it_begins(home: Home) -> None:
    bomb = "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
    )
    path = home.write("routing.yaml", bomb)
    done = home.run(rules, "check")
    assert done.exit_code == 2
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"{path}:1:5: config.anchor: anchor `&a0` is not allowed")
    assert len(done.stdout) < 20_000


@pytest.mark.req(209)
def test_all_errors_of_all_files_are_listed_in_one_run(home: Home) -> None:
    home.write("pointsman.yaml", "retain: some\nmood: 1\n")
    home.write("models.yaml", "schema_version: 1\nmodels: {x: {location: here}}\n")
    home.write("routing.yaml", "schema_version: 9\nextra: 1\n")
    found = [line.rpartition("/")[2].split(":")[0] for line in home.lines("check")]
    assert found == ["pointsman.yaml"] * 2 + ["models.yaml"] * 2 + ["routing.yaml"] * 2
    value = home.json(rules, "check")
    assert (value["ok"], len(value["problems"])) == (False, 6)


EIGHT = """schema_version: 2
global_default: acme:bgi
pattern: {cost_weight: 1.5}
rules:
  - {name: a, when: {mesage_matches: x}, use: acme:big}
  - {name: a, when: {message_matches: "("}, use: acme:big}
  - {name: b, when: {cost_today_exceeds_usd: }, use: acme:none}
workspaces: {/w: {tiers: {fast: acme:big}}}
"""


@pytest.mark.req(209)
def test_what_is_wrong_in_form_does_not_hide_what_is_wrong_in_meaning(home: Home) -> None:
    home.write("routing.yaml", EIGHT)
    found = [line.rpartition("routing.yaml:")[2] for line in home.lines("check")]
    assert [line.split(": ")[:2] for line in found] == [
        ["1:17", "config.unknown_value"],
        ["2:17", "config.unknown_value"],
        ["3:24", "config.out_of_range"],
        ["5:22", "config.unknown_key"],
        ["6:12", "config.duplicate_key"],
        ["6:39", "config.pattern"],
        ["7:22", "config.empty_value"],
        ["7:54", "config.unknown_value"],
        ["8:26", "config.missing_key"],
    ]
    assert "(did you mean `acme:big`?)" in found[1]
    assert "(did you mean `message_matches`?)" in found[3]


@pytest.mark.req(209)
def test_an_error_of_models_yaml_is_told_once_and_not_again_for_every_rule(tmp_path: Path) -> None:
    with Pointsman(tmp_path / "home"):
        home = Home(tmp_path / "home")
    home.write("models.yaml", MODELS.replace("aliases: [big]", "aliases: [not an alias]"))
    many = "".join(f"  - {{when: {{}}, use: {name}}}\n" for name in ["acme:big", "disk:model"] * 6)
    home.write("routing.yaml", f"schema_version: 1\nglobal_default: acme:odd\nrules:\n{many}")
    (told,) = home.lines("check")
    assert "models.yaml:7:53: config.pattern: `not an alias` cannot be an alias" in told
    home.write("routing.yaml", GOOD + "budgets: [{name: a, limit_usd: }]\n")
    assert [line.split(": ")[1] for line in home.lines("check")] == [
        "config.pattern",
        "config.empty_value",
    ]
    home.write("routing.yaml", GOOD.replace("use: acme:big", "use: acme:bgi"))
    assert [line.split(": ")[1] for line in home.lines("check")] == [
        "config.pattern",
        *["config.unknown_value"] * 3,
    ]


@pytest.mark.parametrize("broken", ["models: [", "models: 3\n", "models:\n"])
def test_where_no_model_can_be_read_no_rule_is_told_to_name_an_unknown_one(
    tmp_path: Path, broken: str
) -> None:
    with Pointsman(tmp_path / "home"):
        home = Home(tmp_path / "home")
    home.write("models.yaml", f"schema_version: 1\n{broken}")
    (told,) = home.lines("check")
    assert "models.yaml:" in told
    home.write("routing.yaml", GOOD + "extra: 1\n")
    assert [line.split(": ")[1] for line in home.lines("check")][1:] == ["config.unknown_key"]


@pytest.mark.req(158)
def test_rules_for_models_of_a_broken_file_are_not_in_force(tmp_path: Path) -> None:
    with Pointsman(tmp_path / "home"):
        home = Home(tmp_path / "home")
    home.write("models.yaml", MODELS + "extra: 1\n")
    shown = home.json(rules, "show")
    assert [scope["rules"] for scope in shown["scopes"]] == [[]]
    assert shown["scopes"][0]["default"] == "embedded:smollm2-135m"
    assert not (home.path / "last-good" / "routing.yaml.last-known-good").exists()
    home.write("models.yaml", MODELS)
    assert len(home.json(rules, "show")["scopes"]) == 2


def test_warnings_are_told_and_change_no_exit_code(home: Home) -> None:
    home.write("routing.yaml", GOOD + "\nbudgets: [{name: day, limit_usd: 5}]\n")
    done = home.run(rules, "check")
    assert done.exit_code == 0
    assert "warning: turns.price_unknown: the price of acme:odd is unknown" in done.stdout
    assert done.stdout.splitlines()[-1] == "ok, with 1 warning"
    value = home.json(rules, "check")
    assert value["ok"]
    assert [each["code"] for each in value["warnings"]] == ["turns.price_unknown"]


@pytest.mark.req(269)
def test_show_lists_rules_in_order_with_synthetic_names(home: Home) -> None:
    shown = home.run(rules, "show").stdout.splitlines()
    assert shown[0] == "everywhere"
    assert shown[1].split() == ["1", "commits", "message_matches", '"commit"', "->", "acme:big"]
    assert shown[2].split()[:2] == ["2", "rule_1"]
    scope = home.json(rules, "show")["scopes"][1]
    assert scope["workspace"] == "/w"
    assert scope["default"] == "acme:odd"
    assert [(each["name"], each["is_global"]) for each in scope["rules"]] == [
        ("rule_0", False),
        ("commits", True),
        ("rule_1", True),
    ]


@pytest.mark.req(269)
def test_reload_says_what_changed_and_what_is_in_force(home: Home) -> None:
    def files() -> list[tuple[str, str, str]]:
        found = home.json(rules, "reload")["files"]
        return [(each["name"], each["state"], each["in_force"]) for each in found]

    unchanged = ("models.yaml", "unchanged", "the file is in force")
    assert files()[0] == ("pointsman.yaml", "absent", "the defaults are in force")
    assert files()[1:3] == [unchanged, ("routing.yaml", "unchanged", "the file is in force")]
    assert files()[3] == ("placement.yaml", "absent", "the defaults are in force")
    home.write("routing.yaml", "schema_version: 1\n")
    assert files()[2] == ("routing.yaml", "changed", "the file is in force")
    home.write("routing.yaml", "schema_version: 2\n")
    assert files()[2] == ("routing.yaml", "invalid", "the last good version is in force")
    home.write("pointsman.yaml", "retain: full\n")
    assert files()[0] == ("pointsman.yaml", "new", "the file is in force")


@pytest.mark.req(106, 157, 269)
def test_reload_sees_an_edit_that_time_and_size_hide(home: Home) -> None:
    path = home.path / "routing.yaml"
    with Pointsman(home.path) as pointsman:
        before = pointsman.in_force()
        assert pointsman.in_force().ready is before.ready
        times = path.stat()
        home.write(
            "routing.yaml", GOOD.replace("message_matches: commit", "message_matches: commis")
        )
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        after = pointsman.reload()
    assert after.policy_id != before.policy_id
    assert pointsman.in_force().policy_id == after.policy_id


TABLE = """
- note: commits go to the big model
  facts: {message: write a commit message}
  want: {chosen_model: big, rule: commits}
- note: nobody is called so
  facts: {message: "@nobody hello"}
  want_error: names no model
"""


def test_a_table_that_passes_ends_with_0_and_records_nothing(home: Home) -> None:
    table = home.write("table.yaml", TABLE)
    done = home.run(rules, "test", str(table))
    assert (done.exit_code, done.stdout) == (0, "2 of 2 cases passed\n")
    assert not (home.path / "ledger.db").exists()


def test_a_table_is_read_from_standard_input(home: Home) -> None:
    assert home.run(rules, "test", "-", text=TABLE).exit_code == 0


def test_a_case_that_fails_ends_with_1_and_says_what_came_instead(home: Home) -> None:
    table = home.write("table.yaml", TABLE.replace("chosen_model: big", "chosen_model: local"))
    done = home.run(rules, "test", str(table))
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"FAILED {table}:2:3: commits go to the big model",
        "  chosen_model: expected embedded:smollm2-135m, got acme:big",
        "1 of 2 cases passed",
    ]
    value = home.json(rules, "test", str(table))
    assert (value["passed"], value["failed"]) == (1, 1)


def test_a_bad_table_ends_with_2_and_names_the_place(home: Home) -> None:
    table = home.write("table.yaml", "- {note: a, facts: {message: x}, want: {polcy: rule}}\n")
    done = home.run(rules, "test", str(table))
    assert done.exit_code == 2
    assert f"{table}:1:41: config.unknown_key" in done.stderr
    assert home.run(rules, "test", str(home.path / "none.yaml")).exit_code == 2


def test_a_policy_that_is_not_in_force_is_not_tested(home: Home) -> None:
    table = home.write("table.yaml", TABLE)
    home.write("routing.yaml", "schema_version: 2\n")
    done = home.run(rules, "test", str(table))
    assert done.exit_code == 2
    assert "routing.yaml:1:17: config.unknown_value" in done.stderr


def _everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Give all there is in a folder: modes, times and bytes."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [folder, *sorted(folder.rglob("*"))]
    }


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A folder of YAML files that was never a home, on a machine without one."""
    monkeypatch.delenv("POINTSMAN_TEST_KEY", raising=False)
    monkeypatch.delenv("POINTSMAN_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    path = tmp_path / "policies"
    path.mkdir()
    return Home(path)


def test_a_bare_folder_is_checked_and_tested_and_nothing_is_written_in_it(bare: Home) -> None:
    table = bare.write("table.yaml", TABLE)
    (bare.path / "decisions").mkdir()
    bare.write("decisions/d.yaml", "decision: {id: d, type: switch}\n")
    bare.path.chmod(0o755)
    before = _everything(bare.path)
    done = bare.run(rules, "check")
    assert done.exit_code == 2
    assert "decisions/d.yaml:1:11: config.missing_key" in done.stdout
    assert "in force" not in done.stdout
    assert bare.run(rules, "test", str(table)).stdout == "2 of 2 cases passed\n"
    assert _everything(bare.path) == before
    (bare.path / "decisions" / "d.yaml").unlink()
    done = bare.run(rules, "check")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "ok")


@pytest.mark.parametrize("how", ["option", "argument", "variable", "here"])
def test_a_bare_folder_may_be_named_or_be_the_one_we_are_in(
    bare: Home, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.write("routing.yaml", EIGHT)
    words = {"option": ["--home", str(bare.path)], "argument": [str(bare.path)]}.get(how, [])
    if how == "variable":
        monkeypatch.setenv("POINTSMAN_HOME", str(bare.path))
    monkeypatch.chdir(bare.path if how == "here" else bare.path.parent)
    done = CliRunner().invoke(main, ["rules", "check", *words])
    assert done.exit_code == 2
    assert len([line for line in done.stdout.splitlines() if "routing.yaml:" in line]) == 9


def test_a_home_is_not_passed_over_for_the_folder_we_are_in(
    bare: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pointsman(tmp_path / "nobody" / ".pointsman"):
        pass
    bare.write("routing.yaml", EIGHT)
    monkeypatch.chdir(bare.path)
    assert CliRunner().invoke(main, ["rules", "check"]).exit_code == 0
    monkeypatch.setenv("POINTSMAN_HOME", str(tmp_path / "elsewhere"))
    done = CliRunner().invoke(main, ["rules", "check"])
    assert (done.exit_code, "there is no home here" in done.stderr) == (2, True)


def test_a_folder_without_policy_files_is_neither(bare: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for words in (["check"], ["test", "-"]):
        done = CliRunner().invoke(main, ["rules", *words, "--home", str(tmp_path / "empty")])
        assert done.exit_code == 2
        assert "there is no home here" in done.stderr
    assert list((tmp_path / "empty").iterdir()) == []


def test_what_the_environment_holds_does_not_change_how_a_table_goes(
    bare: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bare.write("table.yaml", TABLE)
    for value in ("x", ""):
        monkeypatch.setenv("POINTSMAN_TEST_KEY", value)
        assert bare.run(rules, "test", str(table)).exit_code == 0


def test_a_pattern_that_misses_its_own_letters_is_warned_of_and_no_error(home: Home) -> None:
    pattern = GOOD.replace("message_matches: commit", r"message_matches: '\bübung\b'")
    home.write("routing.yaml", pattern)
    done = home.run(rules, "check")
    assert done.exit_code == 0
    assert "warning: turns.pattern_ascii: `commits`: in " in done.stdout
    assert done.stdout.splitlines()[-1] == "ok, with 1 warning"
    home.write("routing.yaml", pattern.replace(r"\bübung\b", r"\bGröße\b"))
    assert home.run(rules, "check").stdout.splitlines()[-1] == "ok"
