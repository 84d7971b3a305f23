"""No public name goes away or changes its shape without the diff showing it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.scripts import script

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "public_names.py"


@pytest.fixture(scope="module")
def names() -> object:
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        return script("public_names")
    finally:
        sys.path.remove(str(SCRIPT.parent))


@pytest.mark.slow
def test_the_product_has_exactly_the_public_names_of_the_list() -> None:
    # A process of its own: the script imports every module, and other tests look at what is loaded.
    run = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("public names: no difference\n", "")


def test_differences_are_listed_gone_names_first(names) -> None:
    known = {"cli": ["a", "b"], "gone": ["x"]}
    living = {"cli": ["b", "c"], "new": ["y"]}
    assert names.differences(known, living) == ["- cli: a", "+ cli: c", "- gone: x", "+ new: y"]


def test_the_check_fails_for_an_addition_and_says_how_to_accept_it(
    names, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert names.main([], tmp_path, {"cli": ["a"]}) == 0
    assert names.main(["--check"], tmp_path, {"cli": ["a"]}) == 0
    capsys.readouterr()
    assert names.main(["--check"], tmp_path, {"cli": ["a", "b"]}) == 1
    told = capsys.readouterr().out
    assert told.startswith("+ cli: b\n")
    assert "make public-names" in told
    assert names.read_list(tmp_path) == {"cli": ["a"]}


def test_a_name_that_is_gone_stays_in_the_list_until_it_is_dropped(names, tmp_path: Path) -> None:
    names.main([], tmp_path, {"cli": ["a", "b"]})
    assert names.main([], tmp_path, {"cli": ["b", "c"]}) == 1
    assert names.read_list(tmp_path) == {"cli": ["a", "b", "c"]}
    assert names.main(["--check"], tmp_path, {"cli": ["b", "c"]}) == 1
    assert names.main(["--drop"], tmp_path, {"cli": ["b", "c"]}) == 0
    assert names.read_list(tmp_path) == {"cli": ["b", "c"]}


def test_a_shape_names_fields_and_types_but_no_class(names) -> None:
    schemas = {
        "Inner": {"title": "Inner", "type": "object", "properties": {"b": {"type": "integer"}}},
    }
    outer = {
        "title": "Outer",
        "description": "Words may change.",
        "type": "object",
        "properties": {
            "one": {"$ref": "#/components/schemas/Inner"},
            "many": {"type": "array", "items": {"$ref": "Inner"}, "default": []},
            "either": {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]},
        },
        "required": ["one"],
        "additionalProperties": False,
    }
    assert names.shape(outer, schemas) == (
        "{either?: any (anyOf null | string (maxLength=9)), many?: array[{b}] (default=[]),"
        " one: {b}} closed"
    )


def test_docstrings_and_raised_words_are_no_texts(names) -> None:
    tree = names.ast.parse(
        'class A:\n    """A docstring."""\n    x = f"a {1} text"\n    raise E("an error text")\n'
    )
    assert [*names._constants(tree, is_raised=False)] == ["a {} text"]
    assert [*names._constants(tree)] == ["a {} text", "an error text"]
