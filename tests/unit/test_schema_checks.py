"""Checks of meaning run on what is left of a document with other mistakes."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from pointsman.agents.file.agents_file import AgentsFile
from pointsman.branches.file.decisions_file import DecisionsFile
from pointsman.errors import DocumentError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.json_text import read_json
from pointsman.kernel.schema import conform, json_schema, variants
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.operations.rules.cases import RuleCase
from pointsman.placement.rules.table import PlacementFile
from pointsman.storage.policies.sensor_file import SensorsFile
from pointsman.storage.policies.settings import Settings
from pointsman.storage.policies.workflow_file import WorkflowFile
from pointsman.turns.policy import RoutingFile
from pointsman.turns.registry.models import ModelsFile


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
        conform(parse_yaml(text, "f"), Picky, _even)
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
        conform(parse_yaml(text, "f"), Pickier, _even)
    return [problem.code for problem in caught.value.problems]


@pytest.mark.req(209)
def test_members_of_a_wrong_type_do_not_hide_what_the_checks_find() -> None:
    text = b"number: 3\nname: 7\ninner: {a: x, b: 1}\nextra: 1\nitems: [1, x]\n"
    assert _pickier_codes(text) == [
        "config.invalid_value",
        "config.wrong_type",
        "config.wrong_type",
        "config.unknown_key",
        "config.wrong_type",
    ]


@pytest.mark.req(209)
def test_what_the_reader_refuses_does_not_hide_what_the_checks_find() -> None:
    text = b"number: 3\nname:\ninner: {a: 010, a: &x 1}\nitems: [.inf]\n"
    assert _pickier_codes(text) == [
        "config.invalid_value",
        "config.empty_value",
        "config.leading_zero",
        "config.duplicate_key",
        "config.anchor",
        "config.not_finite",
    ]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (b"number: x\nextra: 1\n", ["config.wrong_type", "config.unknown_key"]),
        (b"number:\n", ["config.empty_value"]),
        (b"name: x\nextra: 1\n", ["config.missing_key", "config.unknown_key"]),
        (b"- 1\n", ["config.wrong_type"]),
    ],
    ids=["needed member", "empty member", "missing key", "no mapping"],
)
def test_nothing_is_told_of_what_stands_in_for_a_mistake(text: bytes, codes: list[str]) -> None:
    assert sorted(_pickier_codes(text)) == sorted(codes)


def test_checks_are_left_out_where_the_rest_has_no_form() -> None:
    assert _pickier_codes(b"number: 13\nextra: 1\n") == ["config.unknown_key"]


def test_checks_are_left_out_where_more_is_wrong_than_anybody_reads() -> None:
    extras = "".join(f"extra{number}: 1\n" for number in range(100)).encode()
    assert "config.invalid_value" in _pickier_codes(b"number: 3\n" + extras)
    many = b"items: [" + b"x, " * 101 + b"]\n"
    assert set(_pickier_codes(b"number: 3\n" + many)) == {"config.wrong_type"}


class _Levels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    levels: dict[str, Literal["low", "high"]] = {}


def test_a_problem_inside_of_what_was_taken_out_for_another_is_told_too() -> None:
    document = read_json(b'{"levels": {"": 1, "k": 2}}', "given")
    with pytest.raises(DocumentError) as caught:
        conform(document, _Levels, lambda _value, _document: ())
    assert len(caught.value.problems) == 2


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What its other members mean depends on its kind."""

    id: Annotated[str, Meta(min_length=1, pattern="^[a-z-]+$")]
    kind: Literal["by_time", "by_hand", "by_file"]
    at: str | None = None
    path: str | None = None


class Rows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows that name each other."""

    schema_version: Literal[1]
    rows: tuple[Row, ...] = ()
    first: str | None = None
    named: dict[Annotated[str, Meta(pattern="^[a-z]+$")], int] = {}


def _row_problems(value: Rows, document: Document) -> Iterator[Problem]:
    needs = {"by_time": "at", "by_file": "path"}
    known = [row.id for row in value.rows]
    for index, row in enumerate(value.rows):
        need = needs.get(row.kind)
        if need and getattr(row, need) is None:
            yield document.problem(("rows", index), Code.MISSING_KEY, f"needs `{need}`")
        if row.id in known[:index]:
            yield document.problem(("rows", index, "id"), Code.DUPLICATE_KEY, "taken")
        if row.at == "never":
            yield document.problem(("rows", index, "at"), Code.INVALID_VALUE, "never is no time")
    if value.first is not None and value.first not in known:
        yield document.problem(("first",), Code.UNKNOWN_VALUE, "no such row")


def _told(text: str) -> list[str]:
    try:
        conform(parse_yaml(text.encode(), "f"), Rows, _row_problems)
    except DocumentError as error:
        return [f"{each.place.line}: {each.message}" for each in error.problems]
    return []


WHOLE = """schema_version: 1
first: b
rows:
  - {id: a, kind: by_time, at: noon}
  - {id: b, kind: by_hand}
  - {id: c, kind: by_file, path: x}
"""


@pytest.mark.req(209)
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("schema_version: 1", "schema_version: 2", ["1: `schema_version`: expected `1`, got `2`"]),
        ("schema_version: 1\n", "\n", ["2: missing key `schema_version`"]),
        ("id: b", "id: 7", ["5: `rows[1].id`: expected a text, got `7`", "2: no such row"]),
        ("kind: by_hand", "kind: by_hnd", ["5: `rows[1].kind`: expected one of"]),
        (", kind: by_hand", "", ["5: missing key `rows[1].kind`"]),
        ("kind: by_file", "knd: by_file", ["6: missing key", "6: unknown key `rows[2].knd`"]),
        ("path: x", "pth: x", ["6: unknown key `rows[2].pth`"]),
        ("{id: c, kind: by_file, path: x}", "3", ["6: `rows[2]`: expected a mapping"]),
        ("path: x", "path: 3", ["6: `rows[2].path`: expected a text or nothing, got `3`"]),
        ("at: noon", "at: ", ["4: `rows[0].at` has no value"]),
        ("first: b", "first: b\nnamed: {A: 1}", ["3: key `named.A`: must match"]),
        ("path: x", "pth: ", ["6: `rows[2].pth` has no value", "6: unknown key `rows[2].pth`"]),
        ("path: x", "path: x, 1: y", ["6: key `1` is not a text"]),
        (
            "first: b",
            "first: b\nnamed: {A: }",
            ["3: `named.A` has no value", "3: key `named.A`: must match"],
        ),
    ],
)
def test_an_error_does_not_hide_others_and_brings_none_that_only_follow(
    old: str, new: str, told: list[str]
) -> None:
    assert _told(WHOLE) == []
    more = "  - {id: a, kind: by_time, at: never}\n"
    found = _told(WHOLE.replace(old, new) + more)
    others = [each for each in found if not each.endswith(("taken", "never is no time"))]
    assert len(found) == len(others) + 2, found
    assert len(others) == len(told), found
    for wanted, got in zip(sorted(told), sorted(others), strict=True):
        assert got.startswith(wanted)


def test_what_follows_from_each_value_that_may_have_been_meant_is_told() -> None:
    text = WHOLE.replace("kind: by_hand", "kind: hand, at: never")
    assert [each.partition(": ")[2][:16] for each in _told(text)] == [
        "`rows[1].kind`: ",
        "never is no time",
    ]


FILES = (
    Settings, ModelsFile, RoutingFile, PlacementFile, AgentsFile, DecisionsFile, WorkflowFile,
    SensorsFile, RuleCase,
)  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_there_is_a_stand_in_for_every_value_of_every_file(kind: type) -> None:
    schema = json_schema(kind)
    document = Document("f", None, {}, {}, flaws=frozenset({()}))
    assert all(msgspec.convert(each, kind) for each in variants(document, schema))
    for part in schema["$defs"]:
        whole = {**schema, "$ref": f"#/$defs/{part}"}
        properties = schema["$defs"][part].get("properties", {})
        flaws = frozenset((name,) for name in properties)
        found = next(variants(Document("f", {}, {}, {}, flaws=flaws), whole))
        assert isinstance(found, dict)
        assert [name for name in properties if _is_bare(found[name], properties[name])] == []


def _is_bare(value: object, node: dict[str, Any]) -> bool:
    """Tell whether there is no stand-in although only a text will do."""
    return value is None and node.get("type") == "string"
