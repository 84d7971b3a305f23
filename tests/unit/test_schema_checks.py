"""Checks of meaning run on what is left of a document with other mistakes."""

from typing import Literal

import msgspec
import pytest

from pointsman.errors import DocumentError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.json_text import read_json
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import read_yaml


class Picky(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Refuses one number when it is made."""

    number: int

    def __post_init__(self) -> None:
        if self.number == 13:
            raise ValueError("unlucky")


def _even(value: Picky, document: Document) -> list[Problem]:
    odd = document.problem(("number",), Code.INVALID_VALUE, "`number` is odd")
    return [odd] if value.number % 2 else []


def _picky_codes(text: bytes) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        conform(read_yaml(text, "f"), Picky, _even)
    return [problem.code for problem in caught.value.problems]


@pytest.mark.req(209)
def test_unknown_keys_do_not_hide_what_the_checks_find() -> None:
    assert _picky_codes(b"number: 3\nextra: 1\n") == ["config.invalid_value", "config.unknown_key"]


class Pickier(Picky, frozen=True, forbid_unknown_fields=True):
    """Has more that can be wrong."""

    name: str = ""
    inner: dict[str, int] = {}
    items: tuple[int, ...] = ()


def _pickier_codes(text: bytes) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        conform(read_yaml(text, "f"), Pickier, _even)
    return [problem.code for problem in caught.value.problems]


@pytest.mark.req(209)
def test_members_of_a_wrong_type_do_not_hide_what_the_checks_find() -> None:
    text = b"number: 3\nname: 7\ninner: {a: x, b: 1}\nextra: 1\n"
    assert _pickier_codes(text) == [
        "config.invalid_value",
        "config.wrong_type",
        "config.wrong_type",
        "config.unknown_key",
    ]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (b"number: x\nextra: 1\n", ["config.wrong_type", "config.unknown_key"]),
        (b"number: 13\nextra: 1\n", ["config.unknown_key"]),
        (b"number: 3\nitems: [x]\n", ["config.wrong_type"]),
        (b"name: x\nextra: 1\n", ["config.missing_key", "config.unknown_key"]),
        (b"- 1\n", ["config.wrong_type"]),
    ],
    ids=["needed member", "refused when made", "member of a list", "missing key", "no mapping"],
)
def test_checks_are_left_out_where_the_rest_has_no_form(text: bytes, codes: list[str]) -> None:
    assert sorted(_pickier_codes(text)) == sorted(codes)


class _Levels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    levels: dict[str, Literal["low", "high"]] = {}


def test_a_problem_inside_of_what_was_taken_out_for_another_is_told_too() -> None:
    document = read_json(b'{"levels": {"": 1, "k": 2}}', "given")
    with pytest.raises(DocumentError) as caught:
        conform(document, _Levels, lambda _value, _document: ())
    assert len(caught.value.problems) == 2
