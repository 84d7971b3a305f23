from decimal import Decimal

import pytest
import yaml

from pointsman.errors import DocumentError
from pointsman.kernel import yaml_text
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.yaml_text import parse_yaml, read_yaml


@pytest.fixture(autouse=True, params=["fast", "pure"])
def _parser(request, monkeypatch):
    if request.param == "pure":
        monkeypatch.setattr(yaml_text, "FAST_LOADER", yaml.SafeLoader)


def read(text, **limits):
    raw = text if isinstance(text, bytes) else text.encode("utf-8")
    return read_yaml(raw, "s", DocumentLimits(**limits)).value


def refusals(text, **limits):
    with pytest.raises(DocumentError) as caught:
        read(text, **limits)
    return [f"{each.place.line}:{each.place.column} {each.code}" for each in caught.value.problems]


@pytest.mark.parametrize(
    "text", ["no", "yes", "on", "off", "y", "n", "22:00", "1_000", "0b1", "1e"]
)
def test_words_that_yaml_1_1_would_convert_stay_text(text):
    assert read(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    "text", ["2024-01-01", "1.2.3", "+", ".", "0o8", "0xg", "nul", "=", "-0x1"]
)
def test_words_that_only_look_like_numbers_stay_text(text):
    assert read(f"a: {text}\n") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("False", False),
        ("FALSE", False),
        ("null", None),
        ("Null", None),
        ("NULL", None),
        ("~", None),
        ("0", 0),
        ("-7", -7),
        ("+7", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("9007199254740991", 2**53 - 1),
        ("0.1", Decimal("0.1")),
        (".5", Decimal("0.5")),
        ("5.", Decimal(5)),
        ("1e3", Decimal(1000)),
        ("-1.5E-3", Decimal("-0.0015")),
        ('"1"', "1"),
        ("'true'", "true"),
        ('"a\\tb\\u00e9"', "a\tbé"),
        ('"\\ud83d\\ude00"', "😀"),
        ("'it''s'", "it's"),
        ("|\n  one\n  two\n", "one\ntwo\n"),
        (">-\n  one\n  two\n", "one two"),
        ("[1, a, {b: c}]", [1, "a", {"b": "c"}]),
        ("{}", {}),
        ("'a\tb'", "a\tb"),
        ("what? [now]", "what? [now]"),
    ],
)
def test_values_follow_the_core_schema(text, value):
    found = read(f"a: {text}")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "--- \n...\n"])
def test_a_text_without_content_is_nothing(text):
    assert read(text) is None


def test_blocks_read_as_nested_lists_and_mappings():
    text = "---\nrules:\n  - use: small\n    when: {tokens: 5}\n  - ~\nlast: [\n  x,\n]\n...\n"
    assert read(text) == {
        "rules": [{"use": "small", "when": {"tokens": 5}}, None],
        "last": ["x"],
    }


def test_every_value_and_key_knows_its_position():
    document = parse_yaml(b"a:\r\n  - b: 1\n    c:\nd: |\n  x\n", "s")
    assert document.values == {
        (): (1, 1),
        ("a",): (2, 3),
        ("a", 0): (2, 5),
        ("a", 0, "b"): (2, 8),
        ("a", 0, "c"): (3, 5),
        ("d",): (4, 4),
    }
    assert document.keys == {
        ("a",): (1, 1),
        ("a", 0, "b"): (2, 5),
        ("a", 0, "c"): (3, 5),
        ("d",): (4, 1),
    }


@pytest.mark.req(200)
@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a: b: c", "1:5 config.syntax"),
        ("a: [1", "1:6 config.syntax"),
        ("a: 'x", "1:6 config.syntax"),
        ("a:\n\t- b", "2:1 config.syntax"),
        ("a: 1\n b: 2", "2:3 config.syntax"),
        ("a: 1\nb", "2:2 config.syntax"),
        ("@a", "1:1 config.syntax"),
        ('"\\UFFFFFFFF"', "1:4 config.syntax"),
        ("%YAML 1." + "9" * 5000 + "\n---\n", "1:9 config.syntax"),
    ],
)
def test_malformed_yaml_is_refused_at_its_place(text, refusal):
    assert refusals(text) == [refusal]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a: &x 1", "1:4 config.anchor"),
        ("a: &x [1]", "1:4 config.anchor"),
        ("a: *x", "1:4 config.alias"),
        ("*x : a", "1:1 config.alias"),
        ("a: !!int 1", "1:4 config.tag"),
        ("a: !x {b: 1}", "1:4 config.tag"),
        ("a: ! x", "1:4 config.tag"),
        ("a: {<<: 1}", "1:5 config.merge_key"),
        ("a: 1\n---\nb: 2", "2:1 config.many_documents"),
        ("%YAML 1.1\n---\na: 1", "1:1 config.directive"),
        ("%TAG ! tag:x,1:\n---\na: 1", "1:1 config.directive"),
        ("1: a", "1:1 config.key_not_text"),
        ("0x1: a", "1:1 config.key_not_text"),
        ("null: a", "1:1 config.key_not_text"),
        ("true: a", "1:1 config.key_not_text"),
        ("?\n: a", "1:1 config.key_not_text"),
        (".nan: a", "1:1 config.key_not_text"),
        ("? [a, b]\n: c", "1:3 config.key_not_text"),
        ("{{a: 1}: b}", "1:2 config.key_not_text"),
        ("? [a]\n: b\n'': c", "1:3 config.key_not_text"),
        ("a: 1\nb: {a: 1}\na: 2", "3:1 config.duplicate_key"),
        ('a: 1\n"a": 2', "2:1 config.duplicate_key"),
        ("a: 010", "1:4 config.leading_zero"),
        ("a: -00.5", "1:4 config.leading_zero"),
        ("a: .inf", "1:4 config.not_finite"),
        ("a: -.Inf", "1:4 config.not_finite"),
        ("a: .NaN", "1:4 config.not_finite"),
        ("a: 9007199254740992", "1:4 config.integer_too_large"),
        ("a: 0x20000000000000", "1:4 config.integer_too_large"),
        ("a: 0x" + "f" * 5000, "1:4 config.integer_too_large"),
        ("a: 0." + "1" * 64, "1:4 config.number_too_long"),
        ('a: "\\ud800"', "1:4 config.character"),
        ("a: \x07", "1:4 config.character"),
        ("a: 1\nb: x\u2028y", "2:5 config.character"),
        (b"\xef\xbb\xbfa: 1", "1:1 config.encoding"),
        (b"a: \xe9", "1:4 config.encoding"),
    ],
)
def test_what_has_no_single_meaning_is_refused_at_its_place(text, refusal):
    assert refusals(text) == [refusal]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a:", "1:1 config.empty_value"),
        ("a: # later", "1:1 config.empty_value"),
        ("a: 1\nb:\nc: 2", "2:1 config.empty_value"),
        ("a: {b: , c: 1}", "1:5 config.empty_value"),
        ("a: {b}", "1:5 config.empty_value"),
        ("a: [{b: }]", "1:6 config.empty_value"),
        ("? a", "1:3 config.empty_value"),
        ("a:\n  - x\n  -\n", "2:5 config.empty_value"),
        ("-", "1:1 config.empty_value"),
    ],
)
def test_a_key_or_list_item_with_nothing_behind_it_is_refused(text, refusal):
    assert refusals(text) == [refusal]


@pytest.mark.parametrize("text", ["a: ''", 'a: ""', "a: ~", "a: null", "a: {}", "a: []", "a: |\n"])
def test_a_value_that_says_nothing_on_purpose_is_no_empty_value(text):
    assert not read(text)["a"]


def test_an_empty_value_is_named_with_its_path_and_a_next_step():
    with pytest.raises(DocumentError) as caught:
        read("rules: [{when: {cost: }}]\nlist:\n  -\n")
    assert [f"{each.message} ({each.hint})" for each in caught.value.problems] == [
        "`rules[0].when.cost` has no value (write one, or leave the key out)",
        "`list[0]` has no value (write one)",
    ]


@pytest.mark.parametrize(
    ("text", "flaws"),
    [
        ("a:\nb: 1", {("a",)}),
        ("a: [x, 010]", {("a", 1)}),
        ("{b: *y}", {("b",)}),
        ("a: &x 1\na: 2", set()),
        ("010", {()}),
    ],
)
def test_parsing_goes_on_after_a_problem_and_marks_the_value_it_is_about(text, flaws):
    document = parse_yaml(text.encode(), "s")
    assert document.problems
    assert (document.flaws, document.strays) == (flaws, set())


@pytest.mark.parametrize(
    ("text", "strays"),
    [
        ("a: {<<: 1, b: 2}", {("a", "<<")}),
        ("1: x", {("1",)}),
        ("? [k]\n: x", {("",)}),
        ("{*x : 1}", {("*x",)}),
    ],
)
def test_parsing_goes_on_after_a_key_that_means_nothing(text, strays):
    document = parse_yaml(text.encode(), "s")
    assert document.problems
    assert (document.flaws, document.strays) == (set(), strays)


def test_a_duplicate_key_names_the_line_of_the_first_in_the_same_mapping():
    with pytest.raises(DocumentError) as caught:
        read("a: {b: 1}\na:\n  b: 1\n  b: 2\n")
    assert [each.message for each in caught.value.problems] == [
        "key `a` is already in this mapping, on line 1",
        "key `b` is already in this mapping, on line 3",
    ]


def test_quoted_keys_are_text_whatever_they_look_like():
    assert read('{"1": a, "<<": b, \'null\': c, "": d}') == {
        "1": "a",
        "<<": "b",
        "null": "c",
        "": "d",
    }


@pytest.mark.parametrize(
    "text",
    ["a: &x 1", "a: *x", "<<: 1", "a: !x 1", "a: 1\n---\n", "1: a", "a: 010", "a: .inf", "[a]: b"],
)
def test_refusals_of_valid_yaml_name_a_next_step(text):
    with pytest.raises(DocumentError) as caught:
        read(text)
    assert all(problem.hint for problem in caught.value.problems)


def test_a_tab_in_the_indentation_names_a_next_step():
    with pytest.raises(DocumentError, match="use spaces instead of tabs"):
        read("a:\n\tb: 1")


@pytest.mark.req(209)
def test_all_problems_are_listed_in_the_order_of_the_text():
    text = "a: &x 010\nb: *x\nb: !t .nan\n1: 9007199254740993\n<<: {}\n"
    assert refusals(text) == [
        "1:4 config.anchor",
        "1:4 config.leading_zero",
        "2:4 config.alias",
        "3:1 config.duplicate_key",
        "3:4 config.tag",
        "3:4 config.not_finite",
        "4:1 config.key_not_text",
        "4:4 config.integer_too_large",
        "5:1 config.merge_key",
    ]


@pytest.mark.req(96)
def test_the_same_text_always_reads_as_the_same_value():
    text = "z: [1.10, 'a', {k: no}]\na: |\n  x\nm: {y: 0x1F, b: ~}\n"
    first = read(text)
    assert all(repr(read(text)) == repr(first) for _ in range(5))
    assert list(first) == ["z", "a", "m"]


def test_an_alias_bomb_is_refused():
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}x]" for i in range(1, 9)]
    found = refusals("\n".join(lines))
    assert {each.split()[1] for each in found} == {"config.anchor", "config.alias"}


def test_a_large_file_is_refused_unread():
    assert refusals(b"\xff" * 10_000_000) == ["1:1 config.too_large"]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("[" * 100_000, "1:33 config.too_deep"),
        ("{a: " * 60_000, "1:129 config.too_deep"),
        ("- " * 100_000, "1:65 config.too_deep"),
    ],
    ids=["lists", "mappings", "blocks"],
)
def test_very_deep_nesting_is_refused_early(text, refusal):
    assert refusals(text) == [refusal]


def test_too_many_values_are_refused_early():
    text = "".join(f"k{i}: 1\n" for i in range(200_000))
    assert refusals(text, bytes=10**9, nodes=500) == ["500:7 config.too_many_values"]


def test_question_marks_without_brackets_cost_nothing():
    assert read("a: " + "?" * 200_000) == {"a": "?" * 200_000}
