from decimal import Decimal

import pytest

from pointsman.errors import DocumentError, Place
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, escape, in_order, path_text, quote, refuse

DOCUMENT = Document(
    "policy.yaml",
    {"rules": [{"use": Decimal("0.5")}]},
    {(): (1, 1), ("rules",): (2, 3), ("rules", 0): (2, 5), ("rules", 0, "use"): (2, 10)},
    {("rules",): (1, 1), ("rules", 0, "use"): (2, 5)},
)


def test_place_of_a_value_is_where_it_was_written():
    assert DOCUMENT.place(("rules", 0, "use")) == Place("policy.yaml", 2, 10)


def test_place_of_a_key_is_where_the_key_was_written():
    assert DOCUMENT.place(("rules", 0, "use"), key=True) == Place("policy.yaml", 2, 5)


def test_place_of_something_absent_is_its_nearest_parent():
    assert DOCUMENT.place(("rules", 0, "when", "x")) == Place("policy.yaml", 2, 5)


def test_place_of_an_absent_key_is_the_value_of_its_nearest_parent():
    assert DOCUMENT.place(("rules", 0, "when"), key=True) == Place("policy.yaml", 2, 5)


def test_place_without_any_marks_is_the_start():
    assert Document("x", None, {}, {}).place(("a",)) == Place("x", 1, 1)


def test_problem_carries_place_code_message_and_hint():
    problem = DOCUMENT.problem(("rules", 0), Code.UNKNOWN_VALUE, "no such model", "add it")
    assert str(problem) == "policy.yaml:2:5: config.unknown_value: no such model (add it)"


@pytest.mark.req(209)
def test_problems_are_raised_together_in_the_order_of_the_text():
    late = DOCUMENT.problem(("rules", 0, "use"), "x.late", "late")
    early = DOCUMENT.problem((), "x.early", "early")
    with pytest.raises(DocumentError) as caught:
        refuse([late, early, late])
    assert caught.value.problems == (early, late)


def test_no_problems_refuse_nothing():
    refuse([])
    assert in_order([]) == ()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("rules", 1, "use"), "rules[1].use"),
        (("max-tokens",), "max-tokens"),
        (("models", "a b"), 'models["a b"]'),
        ((0, 'q"'), '[0]["q\\""]'),
    ],
    ids=["root", "nested", "kebab", "spaced", "quoted"],
)
def test_paths_read_as_people_write_them(path, text):
    assert path_text(path) == text


def test_what_cannot_be_shown_is_escaped():
    assert quote("a\nb") == '"a\\u000ab"'


def test_long_text_is_cut():
    assert escape("x" * 100) == "x" * 59 + "…"


def test_every_code_is_dotted_lower_snake_and_has_a_meaning():
    for code in Code:
        assert code.replace("_", "a").replace(".", "a").islower()
        assert code.startswith("config.")
        assert code.meaning


def test_codes_are_distinct():
    assert len({str(code) for code in Code}) == len(Code.__members__)
