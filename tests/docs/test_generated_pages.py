"""The reference pages that come from the code say what the code says, and leave nothing out."""

import ast
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import get_args

import click
import jsonschema_rs
import pytest
from tests.docs.scripts import script

from pointsman import errors
from pointsman.cli.main import main as command
from pointsman.kernel.codes import Code
from pointsman.kernel.json_text import read_json
from pointsman.kernel.verification import FaultCode
from pointsman.kernel.yaml_text import read_yaml
from pointsman.operations.starter import NAMES, starter_text
from pointsman.placement.rules.table import ErrorCode

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


generator = script("generate_docs")


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def all_commands(each: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, each
    if isinstance(each, click.Group):
        context = click.Context(each)
        for name in each.list_commands(context):
            inner = each.get_command(context, name)
            assert inner is not None
            yield from all_commands(inner, f"{path} {name}")


COMMANDS = dict(all_commands(command, "pointsman"))


def test_generated_pages_are_current() -> None:
    assert generator.stale(ROOT) == [], "run `make docs`"


def test_a_changed_page_is_named_and_ends_the_check_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generator.main([], root=tmp_path) == 0
    assert generator.main(["--check"], root=tmp_path) == 0
    changed = tmp_path / "docs" / "reference" / "errors.md"
    changed.write_text("something else", encoding="utf-8")
    left_over = tmp_path / "docs" / "reference" / "schemas" / "gone.json"
    left_over.write_text("{}", encoding="utf-8")
    capsys.readouterr()
    assert generator.main(["--check"], root=tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "stale  docs/reference/errors.md",
        "stale  docs/reference/schemas/gone.json",
    ]
    assert changed.read_text(encoding="utf-8") == "something else"


def test_a_code_without_a_description_stops_the_generator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "FAULTS", {})
    monkeypatch.setattr(generator, "FaultCode", StrEnum("FaultCode", {"NEW": "ledger.new"}))
    assert generator.main([], root=tmp_path) == 1
    assert "FaultCode.NEW has no description" in capsys.readouterr().err
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option_is_documented(path: str) -> None:
    _, heading, rest = page("cli.md").partition(f"\n## {path}\n")
    assert heading
    section = rest.partition("\n## ")[0]
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            for name in (*parameter.opts, *parameter.secondary_opts):
                assert name in section


def test_help_text_fits_80_columns() -> None:
    inside = "".join(re.findall(r"```text\n(.*?)```", page("cli.md"), re.DOTALL))
    assert max(len(line) for line in inside.splitlines()) <= 80


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_says_what_it_does(path: str) -> None:
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help


def error_codes() -> list[str]:
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    return [each.code for each in kinds if issubclass(each, errors.PointsmanError)]


@pytest.mark.parametrize("code", [*error_codes(), *Code, *FaultCode])
def test_every_code_is_documented_once(code: str) -> None:
    assert page("errors.md").count(f"\n| `{code}` |") == 1


def test_every_error_class_has_its_own_code() -> None:
    codes = error_codes()
    assert len(codes) == len(set(codes))


def test_every_banner_is_documented() -> None:
    found = {
        call.args[0].value
        for path in (ROOT / "src").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "Banner"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    assert found == set(generator.BANNERS)


@pytest.mark.parametrize("name", NAMES)
def test_the_starter_files_conform_to_their_published_schemas(name: str) -> None:
    stem = {"placement.yaml": "placement.schema"}.get(name, Path(name).stem)
    schema = json.loads(page(f"schemas/{stem}.json"))
    value = read_yaml(starter_text(name), name).value
    assert jsonschema_rs.validator_for(schema).is_valid(value)


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_every_error_of_a_placement_is_documented_once(code: str) -> None:
    assert page("errors.md").count(f"\n| `{code}` |") == 1


def test_the_schema_of_facts_takes_a_message_and_refuses_unknown_fields() -> None:
    schema = json.loads(page("schemas/turn-facts.json"))
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(read_json(b'{"message": "hello"}', "facts").value)
    assert not validator.is_valid(read_json(b'{"message": "hello", "mood": 1}', "facts").value)


def test_every_file_of_the_table_of_outcomes_is_on_its_page() -> None:
    notes = [
        read_yaml(path.read_bytes(), path.name).value["note"]
        for path in (ROOT / "tests" / "cases" / "outcomes").glob("*.yaml")
    ]
    assert len(notes) > 20
    assert [note for note in notes if f"\n| {note}" not in page("outcomes.md")] == []
