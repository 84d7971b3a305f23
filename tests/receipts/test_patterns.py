"""Patterns mean what RE2 means by them, in both programs, or are said not to be run."""

import json
import random

import pytest
import re2
from tests.receipts.told import NODE, page_answers

from pointsman.kernel.regex import options
from pointsman.receipt_verifier import fold, fold_text, program_of, runs, seen_text
from pointsman.turns.rules.text_patterns import literal_pattern

PATTERNS = [
    "", "a", "^a$", "a|b|", "(?i)straße", "(?i)[k-s]", "(?i)ΣΑΣ", "a{2}", "a{2,}b?", "a{0,2}c",
    "x{", "{1}?a", "[^a-c]", "[]a]", "[a-]", "[-a]", r"[\d\-x]", r"[[:alpha:]_]+\b",
    "[[:^digit:]]", r"\w+@\w+\.\w{2,}", r"\bthe\b", r"\Bhe\B", "(?m)^b$", "(?s)a.b", "a.b", "a$",
    r"a\z", r"\Ab", "(?:ab|cd)+e", "(?P<n>a)b", "(?<n>a)b", "(?i:A)b", "(?i)a(?-i)B",
    r"\Qa.b\E+", r"\x41\x{e9}", r"\t\n", "é+", "[à-ü]", "(?i)[à-ü]", "(?i)é", r"\s\S", r"\D\W",
    "(a*)*b", "(a|aa)+$", "a**", "(?U)a+?", "(?i)k", "(?i)\u017f", r"[\w.]+", "ß", "(?i)ß",
    r"(?i)\w", "(?i)[^k]", "^", "$", "a{1000}", "😀", "[😀-😂]x?", r"(?i)\W",
]  # fmt: skip
LEFT_OUT = [r"\pL", r"\p{Greek}x", r"\C", r"[\pN]"]
TEXTS = [
    "", "a", "A", "b", "B", "ab", "aB", "aab", "aa", "a\n", "a\nb", "b\na", "\nb\n", "a.b",
    "axb", "cde", "ababe", "the", "then he", "x{", "{1}a", "x@y.org", "STRASSE", "straße",
    "STRAẞE", "σας", "ΣΑΣ", "é", "É", "Ý", "K", "\u017f", "kelvin", "S", " \t\n", "\x0b",
    "\x0c a", "7", "-", "]", "^", "Aé", "😀", "😁x", "ß", "ẞ", "_", "a" * 1000, "\u0130\u0131iI",
    "\ud800a", "é b",
]  # fmt: skip


def meant(pattern: str, text: str) -> bool:
    return re2.compile(pattern, options()).search(seen_text(text)) is not None


def is_read(pattern: str) -> bool:
    try:
        re2.compile(pattern, options())
    except re2.error:
        return False
    return True


READ = [each for each in PATTERNS if is_read(each)]


def test_patterns_are_run_as_re2_runs_them():
    for pattern in READ:
        program = program_of(pattern)
        assert not isinstance(program, str), (pattern, program)
        for text in TEXTS:
            assert runs(program, seen_text(text)) == meant(pattern, text), (pattern, text)


@pytest.mark.skipif(NODE is None, reason="there is no node here")
def test_the_page_runs_them_alike():
    asked = [(pattern, text) for pattern in (*READ, *LEFT_OUT) for text in TEXTS]
    found = page_answers({"pattern": pattern, "text": text} for pattern, text in asked)
    for (pattern, text), said in zip(asked, found, strict=True):
        want = None if pattern in LEFT_OUT else meant(pattern, text)
        assert json.loads(said) == want, (pattern, text)


@pytest.mark.parametrize("pattern", LEFT_OUT)
def test_what_is_not_run_is_said(pattern):
    assert is_read(pattern)
    assert isinstance(program_of(pattern), str)


def test_random_patterns_are_run_as_re2_runs_them():
    draw = random.Random(25)
    parts = [
        "a",
        "b",
        "é",
        ".",
        "^",
        "$",
        r"\b",
        "(a|b)",
        "[ab]",
        "[^a]",
        "(?i:A)",
        r"\w",
        "(?:ab)",
    ]
    for _ in range(400):
        chosen = [
            draw.choice(parts) + draw.choice(["", "", "*", "+?", "?", "{1,2}"]) for _ in range(4)
        ]
        pattern = "".join(chosen)
        if not is_read(pattern):
            continue
        program = program_of(pattern)
        assert not isinstance(program, str), (pattern, program)
        for _ in range(10):
            text = "".join(draw.choice("abéA \n") for _ in range(draw.randrange(8)))
            assert runs(program, text) == meant(pattern, text), (pattern, text)


def test_words_are_found_whatever_their_case_as_re2_finds_them():
    for code in (*range(0xD800), *range(0xE000, 0x1_F000)):
        letter = chr(code)
        for other in {letter.lower(), letter.upper(), fold(letter)}:
            if other != letter and len(other) == 1:
                found = meant(literal_pattern([other]), letter)
                assert (fold_text(other) in fold_text(letter)) == found, (letter, other)
