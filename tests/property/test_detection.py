"""Whatever the text is: detection and redaction keep their promises."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.signals.detectors import KINDS, detect
from pointsman.signals.redaction import redact

EXAMPLES = settings(derandomize=True, max_examples=200, deadline=None, database=None)
SAMPLES = Path(__file__).parents[1] / "cases" / "detection" / "samples.jsonl"


def joined(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value)


CASES = [
    (joined(case["text"]), [joined(each["value"]) for each in case["expected"]])
    for case in map(json.loads, SAMPLES.read_text(encoding="utf-8").splitlines())
]
FOUND = [(text, text[hit.start : hit.end], hit.kind) for text, _ in CASES for hit in detect(text)]
STRONG = {kind.name for kind in KINDS if kind.has_checksum} | {"email", "jwt", "slack_webhook"}
ALONE = [
    (value, kind)
    for _, value, kind in FOUND
    if kind in STRONG and [hit.kind for hit in detect(value)] == [kind]
]

fragments = st.sampled_from(
    [
        *("@", "a@b.de", "1", "12", "1234", " ", "-", ".", ":", "/", "+49", "(", "\n", "é", "😀"),
        *("4111 1111 1111 1111", "password=", '"', "'", "eyJ", "AKIA", "://", "-----BEGIN "),
        *("PRIVATE KEY-----", "2001:db8::1", "203.0.113.5", "[email]", "BSN ", "tel ", "\u00a0"),
        *("Straße 5", "\ud800", "token: ", "xY7", "415-555-0132", "DE89 3704 0044 0532 0130 00"),
    ]
)
texts = st.text(max_size=60) | st.lists(fragments, max_size=30).map("".join)
any_texts = texts | st.text(st.characters(), max_size=60)


@EXAMPLES
@given(any_texts)
def test_hits_lie_in_the_text_in_order_and_apart(text: str) -> None:
    hits = detect(text)
    places = [place for hit in hits for place in (hit.start, hit.end)]
    assert places == sorted(places)
    assert all(0 <= hit.start < hit.end <= len(text) for hit in hits)


@EXAMPLES
@given(any_texts)
def test_a_text_is_always_judged_the_same(text: str) -> None:
    assert detect(text) == detect(text)


@EXAMPLES
@given(any_texts)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@EXAMPLES
@given(any_texts)
def test_redacted_text_holds_no_personal_data(text: str) -> None:
    assert [hit for hit in detect(redact(text)) if hit.group == "pii"] == []


@settings(EXAMPLES, max_examples=400)
@given(st.sampled_from(ALONE), st.text(max_size=20), st.text(max_size=20))
def test_what_carries_its_own_proof_is_found_in_any_surroundings(
    strong: tuple[str, str], before: str, after: str
) -> None:
    value, kind = strong
    text = f"{before}\n{value}\n{after}"
    assert (kind, value) in [(hit.kind, text[hit.start : hit.end]) for hit in detect(text)]


@pytest.mark.parametrize(("text", "value"), [(text, value) for text, value, _ in FOUND])
def test_no_hit_of_the_corpus_survives_redaction(text: str, value: str) -> None:
    assert value not in redact(text)
