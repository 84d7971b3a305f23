"""Patterns of users: what can be used, and why the others cannot."""

import pytest
import re2

from pointsman.kernel.regex import MAX_PATTERN, options, refusal


@pytest.mark.parametrize("pattern", ["", "a+b", "(?i:commit)", "\\bgrüße\\b", "a" * MAX_PATTERN])
@pytest.mark.parametrize("is_case_sensitive", [True, False])
def test_a_pattern_that_can_be_used_is_not_refused(pattern, is_case_sensitive):
    assert refusal(pattern, is_case_sensitive=is_case_sensitive) == ""


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("a" * (MAX_PATTERN + 1), f"it is longer than {MAX_PATTERN} characters"),
        ("(", "missing ): ("),
        ("(?=ahead)", "invalid perl operator: (?="),
        ("(a)\\1", "invalid escape sequence: \\1"),
        ("\ud800", "it holds half of a surrogate pair"),
    ],
)
def test_a_pattern_that_cannot_be_used_says_why(pattern, told):
    assert refusal(pattern) == told


def test_letters_match_whatever_their_case_only_where_it_is_asked_for():
    assert re2.compile("commit", options()).search("COMMIT") is None
    assert re2.compile("commit", options(is_case_sensitive=False)).search("COMMIT") is not None
