"""Every decision about the design is one page of one shape, and stands in the index."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "adr"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
HEADINGS = ["Context", "Decision", "Consequences", "Rejected options"]
STATUS = re.compile(
    r"^Status: (?:proposed|accepted|amended|(?:amended|superseded) by \[\d{4}\]\(\S+\))\.$",
    re.MULTILINE,
)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_its_number_status_and_four_headings(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {path.name[:4]} ")
    assert STATUS.search(text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_stands_in_the_index_under_its_title(path: Path) -> None:
    title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix(f"# {path.name[:4]} ")
    assert f"| [{path.name[:4]}]({path.name}) | {title} |" in INDEX


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_index_tells_the_status_of_a_record(path: Path) -> None:
    status = re.search(r"^Status: (.+)\.$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert status
    plain = re.sub(r"\[(\d{4})\]\(\S+\)", r"\1", status[1])
    assert re.search(rf"^\| \[{path.name[:4]}\].* \| {plain} \|$", INDEX, re.MULTILINE)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_fits_one_page(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 70


def test_records_are_numbered_from_1_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in RECORDS]
    assert numbers == list(range(1, len(RECORDS) + 1))
    assert len(RECORDS) >= 9


def test_the_index_lists_no_record_that_is_not_there() -> None:
    listed = re.findall(r"\]\((\d{4}-[^)]+\.md)\)", INDEX)
    assert listed == [path.name for path in RECORDS]
