from decimal import Decimal

import pytest

from pointsman.errors import DocumentError
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.json_text import read_json


def read(text, **limits):
    raw = text if isinstance(text, bytes) else text.encode("utf-8")
    return read_json(raw, "s", DocumentLimits(**limits)).value


def refusals(text, **limits):
    with pytest.raises(DocumentError) as caught:
        read(text, **limits)
    return [f"{each.place.line}:{each.place.column} {each.code}" for each in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        (" true ", True),
        ("false", False),
        ("0", 0),
        ("-0", 0),
        ("9007199254740991", 2**53 - 1),
        ("-9007199254740991", -(2**53) + 1),
        ("0.1", Decimal("0.1")),
        ("1.50", Decimal("1.50")),
        ("1e3", Decimal("1e3")),
        ("-2.5E-2", Decimal("-2.5E-2")),
        ('""', ""),
        ('"a\\n\\"\\\\\\/\\b\\f\\r\\t\\u00e9"', 'a\n"\\/\b\f\r\té'),
        ('"\\ud83d\\ude00"', "😀"),
        ('"é😀"', "é😀"),
        ("[]", []),
        ("{}", {}),
        ("[ ]", []),
        ("{ }", {}),
        ('[1, [2], {"a": []}, {}]', [1, [2], {"a": []}, {}]),
        ('{"b": 1, "a": {"c": null}}', {"b": 1, "a": {"c": None}}),
    ],
)
def test_valid_json_reads_as_its_value(text, value):
    assert read(text) == value
    assert type(read(text)) is type(value)


def test_a_number_with_a_fraction_keeps_its_digits():
    assert str(read("1.50")) == "1.50"


def test_mapping_keeps_the_order_of_the_text():
    assert list(read('{"b": 1, "a": 2}')) == ["b", "a"]


def test_every_value_and_key_knows_its_position():
    document = read_json(b'{\r\n "a": [1,\n {"b": 2}]}', "s")
    assert document.values == {
        (): (1, 1),
        ("a",): (2, 7),
        ("a", 0): (2, 8),
        ("a", 1): (3, 2),
        ("a", 1, "b"): (3, 8),
    }
    assert document.keys == {("a",): (2, 2), ("a", 1, "b"): (3, 3)}


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", "1:1 config.syntax"),
        ("[1,]", "1:3 config.syntax"),
        ('{"a":1,}', "1:7 config.syntax"),
        ("[1 2]", "1:4 config.syntax"),
        ("[1}", "1:3 config.syntax"),
        ("[", "1:2 config.syntax"),
        ('{"a" 1}', "1:6 config.syntax"),
        ('{"a":}', "1:6 config.syntax"),
        ("{a: 1}", "1:2 config.syntax"),
        ("{,}", "1:2 config.syntax"),
        ("1 2", "1:3 config.syntax"),
        ("{}\n}", "2:1 config.syntax"),
        ("01", "1:1 config.syntax"),
        ("-", "1:1 config.syntax"),
        ("1.", "1:1 config.syntax"),
        (".5", "1:1 config.syntax"),
        ("+1", "1:1 config.syntax"),
        ("1e", "1:1 config.syntax"),
        ("0x1F", "1:1 config.syntax"),
        ("True", "1:1 config.syntax"),
        ("hello", "1:1 config.syntax"),
        ("'a'", "1:1 config.syntax"),
        ("// x\n1", "1:1 config.syntax"),
        ("# x", "1:1 config.syntax"),
        ('"abc', "1:1 config.syntax"),
        ('["\\x"]', "1:3 config.syntax"),
        ('["\\', "1:3 config.syntax"),
        ('["\\u12"]', "1:3 config.syntax"),
        ('"a\nb"', "1:3 config.character"),
        ('"\x00"', "1:2 config.character"),
        ('["\\ud800"]', "1:2 config.character"),
        ('["\\udc00\\ud800"]', "1:2 config.character"),
        ("[NaN]", "1:2 config.not_finite"),
        ("[Infinity]", "1:2 config.not_finite"),
        ("[-Infinity]", "1:2 config.not_finite"),
        ("[9007199254740992]", "1:2 config.integer_too_large"),
        ("-9007199254740992", "1:1 config.integer_too_large"),
        ("1" * 65, "1:1 config.number_too_long"),
        ("0." + "1" * 64, "1:1 config.number_too_long"),
        ("1e65", "1:1 config.number_too_long"),
        ("1e-65", "1:1 config.number_too_long"),
        ("1e" + "9" * 9000, "1:1 config.number_too_long"),
        ('{"a":1,"b":{"a":1},"a":2}', "1:20 config.duplicate_key"),
        ('{"a":1,"\\u0061":2}', "1:8 config.duplicate_key"),
        (b"\xef\xbb\xbf{}", "1:1 config.encoding"),
        (b"\xff\xfe{\x00}\x00", "1:1 config.encoding"),
        (b'{"a":\n "\xc3\xa9\xff"}', "2:4 config.encoding"),
        (b'"\xed\xa0\x80"', "1:2 config.encoding"),
    ],
)
def test_what_is_not_strict_json_is_refused_at_its_place(text, refusal):
    assert refusals(text) == [refusal]


@pytest.mark.req(209)
def test_all_problems_that_do_not_end_reading_are_listed():
    text = '{"a": NaN,\n "a": 9007199254740992,\n "b": "\\ud800", "c": [1'
    assert refusals(text) == [
        "1:7 config.not_finite",
        "2:2 config.duplicate_key",
        "2:7 config.integer_too_large",
        "3:7 config.character",
        "3:24 config.syntax",
    ]


def test_reading_stops_after_a_hundred_problems():
    found = refusals("[" + "NaN," * 500 + "1]")
    assert len(found) == 101
    assert found[-1].endswith("config.too_many_problems")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("'a'", "texts stand in double quotes"),
        ("hello", "texts stand in double quotes"),
        ("#", "JSON has no comments"),
        ("None", "write `true`, `false` or `null`"),
        ("01", "a number has no leading zero or plus, and digits on both sides of its point"),
        ("", ""),
    ],
)
def test_a_syntax_error_says_what_to_write_instead(text, hint):
    with pytest.raises(DocumentError) as caught:
        read(text)
    assert caught.value.problems[0].hint == hint


def test_size_limit_is_exact():
    assert read("[1]", bytes=3) == [1]
    assert refusals("[11]", bytes=3) == ["1:1 config.too_large"]


def test_depth_limit_is_exact():
    assert read("[[1]]", depth=2) == [[1]]
    assert refusals("[[[1]]]", depth=2) == ["1:3 config.too_deep"]


def test_count_limit_is_exact():
    assert read('{"a":1}', nodes=2) == {"a": 1}
    assert refusals("[1,2]", nodes=2) == ["1:4 config.too_many_values"]


def test_very_deep_nesting_is_refused_without_recursion():
    assert refusals("[" * 100_000) == ["1:33 config.too_deep"]
    assert refusals('{"a":' * 40_000) == ["1:161 config.too_deep"]


def test_depth_may_be_larger_than_the_interpreter_stack():
    depth = 1_500
    value = read("[" * depth + "]" * depth, depth=depth, nodes=depth)
    for _ in range(depth - 1):
        (value,) = value
    assert value == []
