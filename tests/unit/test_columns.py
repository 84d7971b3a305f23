"""Lines are cut, folded and padded by the columns a terminal shows."""

import pytest

from pointsman.kernel.columns import column_count, cut_line, fold_line, pad_line, table

HEART = "\u2764\ufe0f"
FLAG = "\U0001f1e8\U0001f1ed"
ACUTE = "\u0301"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("plain", 5),
        ("é", 1),
        (f"e{ACUTE}{ACUTE}", 1),
        ("世界", 4),
        ("\uff46\uff55", 4),
        ("\u1112\u1161\u11ab", 2),
        ("😀", 2),
        (HEART, 2),
        ("\u2764", 1),
        ("😀\ufe0f", 2),
        (FLAG, 2),
        ("", 0),
    ],
)
def test_columns_of_wide_letters_marks_and_emoji(text: str, columns: int) -> None:
    assert column_count(text) == columns


@pytest.mark.parametrize("letter", ["x", "界", "😀", HEART, FLAG, f"e{ACUTE}"])
def test_a_cut_line_fits_and_leaves_out_no_more_than_it_must(letter: str) -> None:
    for width in range(4, 20):
        cut = cut_line(letter * 40, width)
        assert cut.endswith("…")
        assert width - column_count(letter) <= column_count(cut) <= width


def test_a_line_that_fits_is_left_as_it_is() -> None:
    assert cut_line("世" * 40) == "世" * 40
    assert cut_line("x" * 81) == "x" * 79 + "…"


def test_a_mark_stays_with_its_letter() -> None:
    letter = f"e{ACUTE}"
    assert cut_line(letter * 10, 4) == letter * 3 + "…"
    assert fold_line(letter * 6, 4, 0) == [letter * 4, letter * 2]
    assert cut_line(HEART * 10, 4) == f"{HEART}…"


def test_a_folded_line_is_indented_and_breaks_only_words_wider_than_a_line() -> None:
    assert fold_line("  one two three", 9, 1) == ["  one two", "   three"]
    assert fold_line("世界世界世界 end", 6) == [
        "世界世",
        "    界",
        "    世",
        "    界",
        "    en",
        "    d",
    ]
    assert fold_line("short", 9) == ["short"]


def test_columns_of_a_table_stand_below_each_other() -> None:
    lines = table([("name", "n"), ("世界", "1"), (f"e{ACUTE}", "2"), ("", "\x1b")]).splitlines()
    assert lines == ["name  n", "世界  1", f"e{ACUTE}     2", "-     \\u001b"]
    assert table([]) == ""
    assert pad_line("世界", 3) == "世界"
