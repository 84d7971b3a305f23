r"""Which patterns are warned of because `\b` and `\w` know ASCII alone, and which are not."""

import pytest
import re2
from tests.unit.test_review import found, policy, rule

from pointsman.turns.rules.review import Concern, review
from pointsman.turns.rules.text_patterns import ascii_only

MISSED = [
    (r"\bübung\b", r"\b", "ü", "eine übung hier"),
    (r"café\b", r"\b", "é", "im café ist"),
    (r"\b(über|unter)\b", r"\b", "ü", "wir reden über es"),
    (r"(?i)\b(?:deploy|löschen|é)\b", r"\b", "é", "ist é da"),
    (r"\b(?i)übung", r"\b", "ü", "eine Übung"),
    (r"\bx?ü", r"\b", "ü", "ein ü"),
    (r"[äöü]\b", r"\b", "ä", "ein ü ist"),
    (r"\b\x{fc}b", r"\b", "ü", "ein üb"),
    (r"\b\xfcb", r"\b", "ü", "ein üb"),
    (r"\b^ü", r"\b", "ü", "ü"),
    (r"\b(?P<name>да)\b", r"\b", "д", "ну да же"),
    (r"\Qü\E\b", r"\b", "ü", "ein ü ist"),
    (r"\pL\b", r"\b", r"\pL", "ü"),
    (r"\b\p{Greek}", r"\b", r"\p{Greek}", "ein \u03bb"),
    (r"^größ\w$", r"\w", "ö", "größé"),
    (r"^ü[\w-]$", r"\w", "ü", "üä"),
    (r"^[[:alpha:]]ü$", r"[:alpha:]", "ü", "äü"),
]


@pytest.mark.parametrize(("pattern", "sign", "letter", "text"), MISSED)
def test_what_misses_a_letter_is_told_and_does_miss_it(
    pattern: str, sign: str, letter: str, text: str
) -> None:
    assert ascii_only(pattern) == (sign, letter)
    assert not re2.search(pattern, text)


def test_an_inner_edge_is_the_other_way_round() -> None:
    assert ascii_only(r"\Bü") == (r"\B", "ü")
    assert re2.search(r"\Bü", " ü")
    assert not re2.search(r"\Bü", "xü")


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bcommit\b",
        r"\w+",
        r"\bdie Größe\b",
        r"\bxü",
        r"ü \bword\b",
        r"\b[^ü]x",
        r"\b\PLx",
        r"(?i)übung",
        r"(^|[^\pL])übung([^\pL]|$)",
        r"übung|\w+\.py",
        r"\bx+ü",
        r"\bx{2}ü",
        r"\b(x|yz)ü",
        r"[\w-]+@example",
        r"\d+ ü",
        "(",
        "*ü",
        "",
    ],
)
def test_what_misses_nothing_is_left_alone(pattern: str) -> None:
    assert ascii_only(pattern) == ("", "")


def test_a_rule_with_such_a_pattern_is_warned_of_wherever_the_pattern_stands() -> None:
    bad, concern = r"\bübung\b", Concern.ASCII_ONLY
    for when in (
        {"message_matches": bad},
        {"workspace_path_matches": bad},
        {"any_of": [{"has_images": False}, {"all_of": [{"not": {"message_matches": bad}}]}]},
    ):
        assert found(rule("a", when)) == [(concern, "a", None)]
    own = {"/w": {"rules": [rule("a", {"message_matches": bad})]}}
    assert found(workspaces=own) == [(concern, "a", None)]
    assert found(rule("a", {"message_contains_any": ["übung"]})) == []


def test_the_warning_says_what_to_write_instead() -> None:
    rules = [{"when": {"message_matches": p}, "use": "acme:big"} for p in (r"\bü", r"ü\w")]
    edge, word = (each.message for each in review(policy(rules=rules)))
    assert edge.startswith(
        '`rule_0`: in "\\bü" `\\b` knows ASCII letters only and sees no edge of a'
    )
    assert edge.endswith(" word beside `ü`; `(^|[^\\pL])` knows all letters")
    assert word.startswith('`rule_1`: in "ü\\w" `\\w` knows ASCII letters only and sees no letter')
    assert word.endswith(" in `ü`; `\\pL` knows all letters")
