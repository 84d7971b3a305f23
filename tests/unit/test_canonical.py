"""Canonical bytes and content ids."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
import rfc8785
from msgspec import Meta, Raw, Struct

from pointsman.errors import IntegrityFailure, ValueRefused
from pointsman.kernel.canonical import (
    MAX_INT,
    Form,
    canonical_json,
    check_content,
    content_id,
    untag,
)
from pointsman.kernel.document import Json


class Colour(StrEnum):
    RED = "red"


class Inner(Struct, frozen=True):
    z: int
    a: str = "x"


class Everything(Struct, frozen=True):
    flag: bool
    number: Annotated[int, Meta(ge=0)]
    text: str
    nothing: None
    colour: Colour
    choice: Literal["a", "b"]
    inner: Inner | None
    items: tuple[Inner, ...]
    named: dict[str, Inner]
    raw: Raw
    told: Annotated[int, Meta(description="a number")] = 0
    more: "Everything | None" = None


WHOLE = Everything(
    True, 1, "é", None, Colour.RED, "b", Inner(2), (Inner(3),), {"k": Inner(4)}, Raw(b"[1]")
)


def test_a_struct_is_written_as_rfc_8785_writes_its_members() -> None:
    written = Form(Everything).encode(WHOLE)
    plain = msgspec.json.decode(written)
    assert written == rfc8785.dumps(plain)
    assert plain["raw"] == [1]
    assert list(plain) == sorted(plain)


def test_a_struct_is_read_back_equal() -> None:
    form = Form(Everything)
    read = form.decode(form.encode(WHOLE))
    assert bytes(read.raw) == b"[1]"
    assert msgspec.structs.replace(read, raw=WHOLE.raw) == WHOLE


def test_the_content_id_is_the_sha_256_of_the_bytes() -> None:
    assert Form(Inner).id(Inner(1)) == content_id(b'{"a":"x","z":1}')
    assert content_id(b"") == (
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )


def test_bytes_under_another_id_are_an_integrity_failure() -> None:
    check_content(content_id(b"{}"), b"{}", "facts")
    with pytest.raises(IntegrityFailure, match="facts"):
        check_content(content_id(b"{}"), b"{ }", "facts")


@pytest.mark.parametrize(
    "stored",
    [
        b'{"z":1}',
        b'{"a":"x","b":1,"z":1}',
        b'{"z":1,"a":"x"}',
        b'{"a":"x", "z":1}',
        b'{"a":"x","z":1.5}',
        b'{"a":"x","z":',
        b'\xff{"a":"x","z":1}',
        b'{"a":"\xff","z":1}',
    ],
    ids=["missing key", "unknown key", "order", "space", "float", "cut", "not json", "not utf-8"],
)
def test_stored_bytes_that_the_form_would_not_write_are_refused(stored: bytes) -> None:
    with pytest.raises(IntegrityFailure, match="inner"):
        Form(Inner).decode(stored)


@pytest.mark.parametrize(
    "kind",
    [
        float,
        Any,
        bytes,
        set[str],
        list[int],
        dict[int, str],
        dict[str, float],
        tuple[float, ...],
        tuple[int, str],
        Decimal,
        object,
    ],
    ids=str,
)
def test_a_type_that_could_hold_something_inexact_has_no_form(kind: Any) -> None:
    made = msgspec.defstruct("Made", [("field", kind)])
    with pytest.raises(ValueRefused) as caught:
        Form(made)
    assert "Made.field" in caught.value.where


def test_a_name_outside_ascii_has_no_form() -> None:
    made = msgspec.defstruct("Made", [("größe", int)])
    with pytest.raises(ValueRefused, match="ASCII"):
        Form(made)


def test_keys_are_ordered_by_utf_16_unit_also_past_the_basic_plane() -> None:
    value: Json = {"\U0001f600": 1, "\ufb33": [{"\U0001f600": 1, "\ufb33": 2}]}
    assert canonical_json(value) == rfc8785.dumps(value)
    assert canonical_json(value) != msgspec.json.encode(value, order="sorted")


def test_decimals_are_tagged_and_come_back() -> None:
    value: Json = {"rate": Decimal("0.10"), "text": "d:0.1", "plain": "x", "n": [None, True, 5]}
    written = canonical_json(value)
    assert written == b'{"n":[null,true,5],"plain":"x","rate":"d:0.1","text":"s:d:0.1"}'
    assert untag(msgspec.json.decode(written)) == value


@pytest.mark.parametrize("text", ["1", "1.0", "1e0", "10e-1"])
def test_one_number_has_one_content_id_however_it_is_written(text: str) -> None:
    assert canonical_json(Decimal(text)) == b"1"


@pytest.mark.parametrize(
    ("value", "written"),
    [(Decimal("1e20"), b'"d:100000000000000000000"'), (Decimal("-0.5"), b'"d:-0.5"')],
)
def test_a_decimal_is_written_without_an_exponent(value: Decimal, written: bytes) -> None:
    assert canonical_json(value) == written


def _deep(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        0.5,
        MAX_INT + 1,
        -MAX_INT - 1,
        Decimal("NaN"),
        Decimal("1e99"),
        b"x",
        {1: 2},
        {"a": {"b": {3}}},
        (1,),
        "\ud800",
        {"\udfff": 1},
    ],
    ids=repr,
)
def test_a_value_without_exact_bytes_is_refused(value: Any) -> None:
    with pytest.raises(ValueRefused):
        canonical_json(value)


def test_nesting_past_the_limit_is_refused_with_a_place() -> None:
    assert canonical_json(_deep(64))
    with pytest.raises(ValueRefused) as caught:
        canonical_json(_deep(65))
    assert caught.value.where.startswith("[0][0]")


def test_a_refusal_names_its_place() -> None:
    with pytest.raises(ValueRefused) as caught:
        canonical_json({"a": [1, {"b": 0.5}]})  # type: ignore[list-item,dict-item]
    assert caught.value.where == ".a[1].b"


def test_a_float_of_pythons_is_refused_with_the_decimal_to_give_instead() -> None:
    with pytest.raises(ValueRefused, match=r"float 0\.1 is not exact") as caught:
        canonical_json({"a": [1, {"score": 0.1}]})  # type: ignore[dict-item]
    assert caught.value.where == ".a[1].score"
    assert caught.value.hint.startswith('give `Decimal("0.1")`')
    assert canonical_json({"score": Decimal("0.1")})
