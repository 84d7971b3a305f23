"""The published placement table cannot drift: each kind of drift fails the check with one line."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import jsonschema_rs
import pytest
from tests.docs.scripts import script

from pointsman.kernel.yaml_text import read_yaml
from pointsman.placement.policy import BUILT_IN, read_policy
from pointsman.placement.rules import table as placement_table
from pointsman.placement.rules.policy_rule import Action, Field, Operator
from pointsman.placement.rules.table import ErrorCode, GivenCondition, placement_schema

ROOT = Path(__file__).parents[2]


checker = script("check_placement_table")
NAMES = (checker.PAGE, checker.JSON, checker.SCHEMA, checker.STARTER)
PAGE = (ROOT / checker.PAGE).read_text(encoding="utf-8")
TABLE = checker.table_text(PAGE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with nothing but what the check reads."""
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def changed(root: Path, name: str, change: Callable[[str], str]) -> None:
    before = (root / name).read_text(encoding="utf-8")
    after = change(before)
    assert after != before
    (root / name).write_text(after, encoding="utf-8")


@pytest.mark.req(82, 83, 95)
def test_the_published_table_is_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert checker.main([]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.req(96)
def test_the_same_yaml_always_gives_the_same_json_whatever_its_layout() -> None:
    value = read_yaml(TABLE, "table").value
    flow = json.dumps(value).encode()
    assert checker.as_json(TABLE, "a") == checker.as_json(TABLE, "b") == checker.as_json(flow, "c")


@pytest.mark.req(70, 95)
def test_the_published_table_is_the_one_built_in() -> None:
    assert read_policy(TABLE, "table", ()) == BUILT_IN


DRIFTS = {
    "a changed number on the page": (
        checker.PAGE,
        lambda text: text.replace("token_threshold: 4096", "token_threshold: 8192"),
        "`defaults` differs from the table built into the program",
    ),
    "an unknown field on the page": (
        checker.PAGE,
        lambda text: text.replace("auto: advisory", "auto: advisory\nmood: calm"),
        "breaks docs/reference/schemas/placement.schema.json",
    ),
    "a rule taken from the page": (
        checker.PAGE,
        lambda text: re.sub(r"  - id: AUTO_CLOUD\n.*\n.*\n", "", text),
        "a gap: no rule holds for privacy_level auto",
    ),
    "two rules for one input on the page": (
        checker.PAGE,
        lambda text: text.replace(
            "  - id: PRIVACY_CLOUD\n",
            "  - {id: TWICE, condition: {privacy_level: cloud}, action: {route: local}}\n"
            "  - id: PRIVACY_CLOUD\n",
        ),
        "an overlap: `TWICE` and `PRIVACY_CLOUD`",
    ),
    "an invariant taken from the page": (
        checker.PAGE,
        lambda text: text.replace("[deterministic, ", "["),
        "invariants: breaks docs/reference/schemas/placement.schema.json",
    ),
    "yaml that cannot be read": (
        checker.PAGE,
        lambda text: text.replace("auto: advisory", "auto: [advisory"),
        "config.syntax",
    ),
    "a second block on the page": (
        checker.PAGE,
        lambda text: text + "\n```yaml\nauto: binding\n```\n",
        "one YAML block is expected, 2 found",
    ),
    "no block on the page": (
        checker.PAGE,
        lambda text: text.replace("```yaml", "```text"),
        "one YAML block is expected, 0 found",
    ),
    "another starter file": (
        checker.STARTER,
        lambda text: text.replace("# local_model: ollama:llama3.2", "auto: binding"),
        "placement.yaml: `auto` differs from docs/reference/placement.md",
    ),
    "another json": (
        checker.JSON,
        lambda text: text.replace("4096", "4097"),
        "placement.json: differs from docs/reference/placement.md",
    ),
    "json with another layout": (
        checker.JSON,
        lambda text: json.dumps(json.loads(text), indent=1),
        "placement.json: differs",
    ),
    "a schema that lets unknown fields pass": (
        checker.SCHEMA,
        lambda text: text.replace('"additionalProperties": false', '"additionalProperties": true'),
        "allows unknown fields",
    ),
}


@pytest.mark.req(77, 82, 95)
@pytest.mark.parametrize("name", DRIFTS)
def test_a_drift_fails_with_one_line_that_names_it(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file, change, said = DRIFTS[name]
    changed(root, file, change)
    assert checker.main([], root=root) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_fails_with_one_line(
    root: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (root / name).unlink()
    assert checker.main([], root=root) == 1
    assert f"error: {name}: cannot be read" in capsys.readouterr().err


@pytest.mark.req(95)
def test_the_json_is_written_anew_from_a_sound_page_and_from_no_other(root: Path) -> None:
    (root / checker.JSON).write_text("{}")
    assert checker.main(["--write"], root=root) == 0
    assert (root / checker.JSON).read_bytes() == (ROOT / checker.JSON).read_bytes()
    (root / checker.JSON).write_text("{}")
    changed(root, checker.PAGE, lambda text: text.replace("route: cloud", "route: moon"))
    assert checker.main(["--write"], root=root) == 1
    assert (root / checker.JSON).read_text() == "{}"


@pytest.mark.req(82)
def test_the_check_is_part_of_make_check() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2]
    assert "scripts/check_placement_table.py\n" in recipe.partition("\n\n")[0] + "\n"


SCHEMA = json.loads((ROOT / checker.SCHEMA).read_text(encoding="utf-8"))
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)


def test_the_published_schema_is_that_of_the_program() -> None:
    assert json.loads(json.dumps(placement_schema())) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


REFUSED = {
    "neither route nor error": (("failure_rules", 2, "action"), {}),
    "route and error": (
        ("failure_rules", 0, "action"),
        {"route": "cloud", "log_escalation": True, "return_error": True},
    ),
    "an escalation that is not logged": (("failure_rules", 0, "action"), {"route": "cloud"}),
    "an error that asks to be confirmed": (
        ("failure_rules", 2, "action"),
        {"return_error": True, "requires_confirmation": True},
    ),
    "a token test with two operators": (
        ("rules", 2, "condition", "token_count"),
        {"lte": "token_threshold", "gt": "token_threshold"},
    ),
    "a token test with none": (("rules", 2, "condition", "token_count"), {}),
    "a token test against a number": (("rules", 2, "condition", "token_count"), {"lte": 4096}),
    "otherwise that is not true": (("rules", 3, "condition", "otherwise"), False),
    "an invariant twice": (("invariants", 0), "no_hidden_fallback"),
    "invariants as maps": (("invariants", 0), {"deterministic": True}),
    "no rules": (("rules",), []),
    "no failure rules": (("failure_rules",), []),
    "a threshold of 0": (("defaults", "token_threshold"), 0),
    "a threshold that is no whole number": (("defaults", "token_threshold"), 4096.5),
    "a fallback that is no boolean": (("defaults", "fallback_allowed"), "no"),
    "an unknown condition": (("rules", 0, "condition", "mood"), "calm"),
    "an unknown action": (("rules", 0, "action", "retry"), True),
    "an unknown error code": (("failure_rules", 2, "action", "error_code"), "E-MOOD-001"),
}


@pytest.mark.req(73, 74, 75, 76, 77, 79, 80, 83, 84)
@pytest.mark.parametrize("name", REFUSED)
def test_the_published_schema_refuses_by_itself(name: str) -> None:
    table = json.loads((ROOT / checker.JSON).read_text(encoding="utf-8"))
    assert VALIDATOR.is_valid(table)
    (*path, last), value = REFUSED[name]
    part = table
    for step in path:
        part = part[step]
    part[last] = value
    assert not VALIDATOR.is_valid(table)


@pytest.mark.req(72, 76)
@pytest.mark.parametrize(
    "name", ["router_version", "defaults", "rules", "failure_rules", "invariants"]
)
def test_the_published_schema_requires_every_part_of_the_table(name: str) -> None:
    table = json.loads((ROOT / checker.JSON).read_text(encoding="utf-8"))
    del table[name]
    assert not VALIDATOR.is_valid(table)


def test_the_page_names_every_condition_action_code_and_field() -> None:
    words = {
        *GivenCondition.__struct_fields__,
        *get_args(ErrorCode),
        *get_args(Action),
        *get_args(Field),
        *get_args(Operator),
        *placement_table.OPERATORS,
    }
    assert {word for word in words if f"`{word}`" not in PAGE} == set()


def test_the_page_names_every_rule_that_is_not_in_the_table() -> None:
    source = (ROOT / "src" / "pointsman" / "placement" / "decide.py").read_text(encoding="utf-8")
    ids = set(re.findall(r'"([A-Z]+_[A-Z_]+)"', source)) - {"NO_RULE", "PRIVACY_LOCAL"}
    assert len(ids) >= 7
    assert {name for name in ids if f"`{name}`" not in PAGE} == set()
