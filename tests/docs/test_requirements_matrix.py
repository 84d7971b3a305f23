"""The matrix finds the marks wherever they may stand, and refuses numbers that do not exist."""

import json
from pathlib import Path

import pytest
from tests.docs.scripts import script

ROOT = Path(__file__).parents[2]


matrix = script("requirements_matrix")


def marked(source: str) -> list[tuple[int, str]]:
    return sorted({(m.number, m.test) for m in matrix.marks_in_module(source, "t.py")})


def a_repository(root: Path, source: str) -> Path:
    (root / "docs").mkdir()
    lines = [f"{number}. 002 {number}.1 | line {number}" for number in range(1, 10)]
    (root / "docs" / "requirements.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / "tests" / "cases").mkdir(parents=True)
    (root / "tests" / "test_it.py").write_text(source, encoding="utf-8")
    return root


def test_a_mark_on_a_test_counts_for_it() -> None:
    assert marked("@pytest.mark.req(1, 2)\ndef test_a(): ...\ndef test_b(): ...") == [
        (1, "test_a"),
        (2, "test_a"),
    ]


def test_a_mark_on_a_module_counts_for_every_test_in_it() -> None:
    source = "pytestmark = [pytest.mark.slow, pytest.mark.req(3)]\ndef test_a(): ...\n"
    assert marked(source + "async def test_b(): ...") == [(3, "test_a"), (3, "test_b")]


def test_marks_on_and_in_a_class_count_for_its_tests() -> None:
    source = (
        "@pytest.mark.req(1)\nclass TestX:\n    pytestmark = pytest.mark.req(2)\n"
        "    @pytest.mark.req(3)\n    def test_a(self): ...\n"
    )
    assert marked(source) == [(1, "TestX::test_a"), (2, "TestX::test_a"), (3, "TestX::test_a")]


def test_marks_on_parameters_count_for_the_test() -> None:
    source = (
        "@pytest.mark.parametrize('x', [1, pytest.param(2, marks=pytest.mark.req(4)),"
        " pytest.param(3, marks=[pytest.mark.req(5)])])\ndef test_a(x): ..."
    )
    assert marked(source) == [(4, "test_a"), (5, "test_a")]


def test_marks_kept_under_a_name_count_where_the_name_is_used() -> None:
    source = (
        "covers = pytest.mark.req(6)\n"
        "CASES = [pytest.param(1, marks=pytest.mark.req(7))]\n"
        "@covers\ndef test_a(): ...\n"
        "@pytest.mark.parametrize('x', CASES)\ndef test_b(x): ...\n"
    )
    assert marked(source) == [(6, "test_a"), (7, "test_b")]


def test_a_range_of_numbers_may_be_given() -> None:
    assert [n for n, _ in marked("@pytest.mark.req(*range(3, 6))\ndef test_a(): ...")] == [3, 4, 5]


def test_a_number_that_cannot_be_read_from_the_source_is_refused() -> None:
    with pytest.raises(matrix.Unreadable, match=r"t\.py:1: `NUMBER`"):
        marked("@pytest.mark.req(NUMBER)\ndef test_a(): ...")


def test_cases_name_their_requirements() -> None:
    text = "cases:\n  - note: rule beats pattern\n    req: [8, 9]\n  - name: other\n    req: 1\n"
    found = matrix.marks_in_case(text, "c.yaml")
    assert [(m.number, m.line, m.test) for m in found] == [
        (8, 3, "rule beats pattern"),
        (9, 3, "rule beats pattern"),
        (1, 5, "other"),
    ]


def test_a_case_whose_req_is_no_number_is_refused() -> None:
    with pytest.raises(matrix.Unreadable, match=r"c\.yaml:1: `req` takes a list of numbers"):
        matrix.marks_in_case("req: [none]\n", "c.yaml")


def test_open_numbers_are_shown_as_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_repository(tmp_path, "@pytest.mark.req(4, 6)\ndef test_a(): ...\n")
    assert matrix.main([], root=tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["2 of 9 covered", "open: 1-3, 5, 7-9"]
    assert lines[3:5] == ["   4 002 4.1 | line 4", "       tests/test_it.py: test_a"]


def test_a_number_that_does_not_exist_ends_the_run_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_repository(tmp_path, "@pytest.mark.req(10)\ndef test_a(): ...\n")
    assert matrix.main([], root=tmp_path) == 1
    assert capsys.readouterr().err == ("error: tests/test_it.py:1: there is no requirement 10\n")


def test_json_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_repository(tmp_path, "@pytest.mark.req(9)\ndef test_a(): ...\n")
    (tmp_path / "tests" / "cases" / "c.yaml").write_text("req: [1]\n", encoding="utf-8")
    assert matrix.main(["--json"], root=tmp_path) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["total"], value["covered"], value["open"]) == (9, 2, [2, 3, 4, 5, 6, 7, 8])
    assert value["requirements"][8]["tests"] == ["tests/test_it.py::test_a"]


def test_the_404_requirements_are_all_there() -> None:
    text = (ROOT / "docs" / "requirements.md").read_text(encoding="utf-8")
    assert list(matrix.read_requirements(text)) == list(range(1, 405))


def test_every_mark_in_these_tests_names_a_requirement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert matrix.main([]) == 0
    assert " of 404 covered" in capsys.readouterr().out
