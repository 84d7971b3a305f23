"""Documents read into types: every mistake at its place, with a next step."""

import pytest
from tests.unit.closed_types import Closed, Pinned, Policy, Window

from pointsman.errors import DocumentError
from pointsman.kernel.codes import Code
from pointsman.kernel.json_text import read_json
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import parse_yaml


class Needs(Closed, frozen=True):
    use: str
    when: str


def read(text, kind=Policy, *checks):
    return conform(parse_yaml(text.encode(), "f"), kind, *checks)


def told(text, kind=Policy, *checks):
    with pytest.raises(DocumentError) as caught:
        read(text, kind, *checks)
    return [str(problem) for problem in caught.value.problems]


def test_a_conforming_document_becomes_the_typed_value():
    policy = read("global-default: x\nretries: 5\nrules: [{type: pinned, use: m}]\n")
    assert policy == Policy(global_default="x", retries=5, rules=(Pinned("m"),))


def test_json_and_yaml_conform_alike():
    text = '{"share": 0.50, "pair": [1, "a"]}'
    assert conform(read_json(text.encode(), "f"), Policy) == read(text)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("3", "3"), ("0.10", "0.10"), ('"0.10"', "0.10"), ("1e-3", "0.001"), ("-2.5", "-2.5")],
)
def test_decimals_are_read_exactly(text, amount):
    assert str(read(f"amount: {text}").amount) == amount


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "gloabl-default: x",
            (
                "f:1:1: config.unknown_key: unknown key `gloabl-default`"
                " (did you mean `global-default`?)"
            ),
        ),
        (
            "mode: carefull",
            (
                "f:1:7: config.unknown_value: `mode`: expected one of `careful`, `fast`,"
                " got text `carefull` (did you mean `careful`?)"
            ),
        ),
        (
            "mode: 3",
            "f:1:7: config.unknown_value: `mode`: expected one of `careful`, `fast`, got `3`",
        ),
        (
            "level: hgih",
            (
                "f:1:8: config.unknown_value: `level`: expected one of `high`, `low`,"
                " got text `hgih` (did you mean `high`?)"
            ),
        ),
        (
            "retries: lots",
            "f:1:10: config.wrong_type: `retries`: expected a whole number, got text `lots`",
        ),
        (
            'retries: "3"',
            (
                "f:1:10: config.wrong_type: `retries`: expected a whole number, got text `3`"
                " (write it without quotes)"
            ),
        ),
        (
            "retries: 3.0",
            "f:1:10: config.wrong_type: `retries`: expected a whole number, got `3.0` (write `3`)",
        ),
        (
            "retries: 3.5",
            "f:1:10: config.wrong_type: `retries`: expected a whole number, got `3.5`",
        ),
        (
            "retries: true",
            "f:1:10: config.wrong_type: `retries`: expected a whole number, got `true`",
        ),
        (
            "retries: ~",
            "f:1:10: config.wrong_type: `retries`: expected a whole number, got nothing",
        ),
        (
            "retries:",
            ("f:1:1: config.empty_value: `retries` has no value (write one, or leave the key out)"),
        ),
        (
            "amount:",
            "f:1:1: config.empty_value: `amount` has no value (write one, or leave the key out)",
        ),
        (
            "is-on: yes",
            (
                "f:1:8: config.wrong_type: `is-on`: expected `true` or `false`, got text `yes`"
                " (write `true` or `false`)"
            ),
        ),
        (
            "name: 12",
            "f:1:7: config.wrong_type: `name`: expected a text, got `12` (put it in quotes)",
        ),
        ("tags: a", "f:1:7: config.wrong_type: `tags`: expected a list, got text `a`"),
        ("labels: [1]", "f:1:9: config.wrong_type: `labels`: expected a mapping, got a list"),
        ("retries: 6", "f:1:10: config.out_of_range: `retries`: must be at most 5, got `6`"),
        ("retries: -1", "f:1:10: config.out_of_range: `retries`: must be at least 0, got `-1`"),
        ("step: 0", "f:1:7: config.out_of_range: `step`: must be more than 0, got `0`"),
        ("step: 10", "f:1:7: config.out_of_range: `step`: must be less than 9, got `10`"),
        ("step: 3", "f:1:7: config.out_of_range: `step`: must be a multiple of 2, got `3`"),
        ("name: a", "f:1:7: config.too_short: `name`: must have at least 2 characters, got 1"),
        ("name: abcdef", "f:1:7: config.too_long: `name`: must have at most 5 characters, got 6"),
        ("name: ABC", "f:1:7: config.pattern: `name`: must match `^[a-z]*$`, got text `ABC`"),
        ("tags: []", "f:1:7: config.too_short: `tags`: must have at least 1 items, got 0"),
        ("tags: [a, b, c]", "f:1:7: config.too_long: `tags`: must have at most 2 items, got 3"),
        ("labels: {}", "f:1:9: config.too_short: `labels`: must have at least 1 keys, got 0"),
        (
            "labels: {a: 1, b: 2, c: 3}",
            "f:1:9: config.too_long: `labels`: must have at most 2 keys, got 3",
        ),
        (
            "named: {a: 1, B: 2}",
            "f:1:15: config.pattern: key `named.B`: must match `^[a-z]+$`, got text `B`",
        ),
        ("pair: [1, a, 2]", "f:1:7: config.too_long: `pair`: must have at most 2 items, got 3"),
        (
            "unique: [1, 1]",
            "f:1:9: config.invalid_value: `unique`: a list breaks the rule `uniqueItems`",
        ),
        (
            "amount: lots",
            "f:1:9: config.wrong_type: `amount`: expected a number or nothing, got text `lots`",
        ),
        (
            "default: lots",
            "f:1:10: config.wrong_type: `default`: expected a number, got text `lots`",
        ),
        ("default: [1]", "f:1:10: config.wrong_type: `default`: expected a number, got a list"),
        ("share: -0.1", "f:1:8: config.out_of_range: `share`: must be at least 0, got `-0.1`"),
        ('share: "1"', "f:1:8: config.out_of_range: `share`: must be less than 1, got text `1`"),
        (
            'any-share: "-1"',
            "f:1:12: config.out_of_range: `any-share`: must be at least 0, got text `-1`",
        ),
        (
            "either: 2.0",
            (
                "f:1:9: config.wrong_type: `either`: expected a whole number or `true` or `false`"
                " or nothing, got `2.0`"
            ),
        ),
        ("[]", "f:1:1: config.wrong_type: expected a mapping, got a list"),
        ("", "f:1:1: config.wrong_type: expected a mapping, got nothing"),
        ("rules: [3]", "f:1:9: config.wrong_type: `rules[0]`: expected a mapping, got `3`"),
        (
            "rules: [{type: stikcy, use: m}]",
            (
                "f:1:16: config.unknown_value: `rules[0].type`: expected one of `sticky`, `pinned`,"
                " got text `stikcy` (did you mean `sticky`?)"
            ),
        ),
        (
            "rules: [{use: m}]",
            "f:1:9: config.missing_key: missing key `rules[0].type` (add `type`)",
        ),
        (
            "rules: [{type: pinned}]",
            "f:1:9: config.missing_key: missing key `rules[0].use` (add `use`)",
        ),
        (
            "rules: [{type: pinned, use: m, notes: x}]",
            "f:1:32: config.unknown_key: unknown key `rules[0].notes` (did you mean `note`?)",
        ),
        (
            "short: abc",
            "f:1:8: config.too_long: `short`: must have at most 2 characters, got 3",
        ),
        (
            "hours:\n  - {start: 1, end: 1}\n  - {start: 2, end: 1}",
            "f:3:5: config.invalid_value: the window ends before it starts",
        ),
        (
            "windows: {a: [{start: 2, end: 1}]}",
            "f:1:10: config.invalid_value: the window ends before it starts",
        ),
    ],
)
def test_a_mistake_is_told_at_its_place_with_a_next_step(text, problem):
    assert told(text) == [problem]


def test_a_key_far_from_all_known_ones_lists_them():
    assert told("zzzzzz: 1\nuse: a\nwhen: b", Needs) == [
        "f:1:1: config.unknown_key: unknown key `zzzzzz` (known here: `use`, `when`)"
    ]


def test_many_known_names_are_listed_in_part():
    (problem,) = told("zzzzzz: 1")
    assert problem.endswith("`either` and 9 more)")


@pytest.mark.req(209)
def test_all_mistakes_are_told_in_one_run_in_the_order_of_the_text():
    text = "zzz: 1\nretries: many\nmode: x\nrules:\n  - {type: sticky}\n  - 4\ntags: [1]\n"
    assert [each.partition(": ")[0] for each in told(text)] == [
        "f:1:1",
        "f:2:10",
        "f:3:7",
        "f:5:5",
        "f:6:5",
        "f:7:8",
    ]


def test_each_missing_key_is_told():
    assert [each.split(": ")[2] for each in told("{}", Needs)] == [
        "missing key `use` (add `use`)",
        "missing key `when` (add `when`)",
    ]


def _known_models(policy, document):
    for index, rule in enumerate(policy.rules):
        if rule.use != "known":
            path = ("rules", index, "use")
            yield document.problem(path, Code.UNKNOWN_VALUE, f"no model `{rule.use}`", "add it")


def _late_mode(policy, document):
    yield document.problem(("mode",), "turns.mode", "not now", key=True)


@pytest.mark.req(209)
def test_checks_of_meaning_are_told_together_with_places():
    text = "rules:\n  - {type: pinned, use: a}\n  - {type: pinned, use: known}\nmode: fast\n"
    assert told(text, Policy, _late_mode, _known_models) == [
        "f:2:25: config.unknown_value: no model `a` (add it)",
        "f:4:1: turns.mode: not now",
    ]


def test_checks_that_find_nothing_let_the_value_pass():
    assert read("rules: []", Policy, _known_models) == Policy()


def test_a_struct_that_refuses_the_whole_document_is_placed_at_its_start():
    assert told("start: 2\nend: 1", Window) == [
        "f:1:1: config.invalid_value: the window ends before it starts"
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gloabl_default", "global_default"),
        ("global-default", "global_default"),
        ("MODE", "mode"),
        ("mod", "mode"),
        ("mdoe", "mode"),
        ("c", None),
        ("weather", None),
        ("x" * 65, None),
        ("", None),
    ],
)
def test_nearest_is_a_typing_mistake_away(name, meant):
    assert nearest(name, ["global_default", "mode", "node", "a"]) == meant


def test_nearest_gives_ties_to_the_first_known():
    assert nearest("bode", ["mode", "node"]) == "mode"
