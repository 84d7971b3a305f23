"""Findings as facts: keyed digests, never the text, and a failing detector is a fact."""

import pytest

from pointsman.kernel.content import seal_text
from pointsman.signals.detectors import DETECTOR, detect
from pointsman.signals.sensitivity import MOST_FINDINGS, sensitivity

KEY = b"k" * 32


@pytest.mark.req(386)
def test_a_finding_holds_a_keyed_digest_and_no_text() -> None:
    text = "mail jane@example.org"
    found = sensitivity(text, KEY)
    (finding,) = found.findings
    assert found.detector == DETECTOR
    assert finding.digest == seal_text("jane@example.org", KEY).digest
    assert (finding.start, finding.end) == (5, 21)
    assert "jane" not in repr(found)


def test_equal_finds_have_equal_digests_under_one_key_only() -> None:
    one, two = sensitivity("a@example.org a@example.org", KEY).findings
    other = sensitivity("a@example.org", b"other").findings[0]
    assert one.digest == two.digest != other.digest


def test_a_detector_that_errs_is_a_fact_and_no_exception() -> None:
    def broken(_text: str) -> tuple[()]:
        raise RuntimeError("jane@example.org")

    found = sensitivity("jane@example.org", KEY, find=broken)
    assert found.has_failed
    assert (found.total, found.kinds, found.findings) == (0, (), ())


def test_of_many_findings_the_first_are_kept_and_all_are_counted() -> None:
    text = "a@example.org " * 100 + "4111 1111 1111 1111"
    found = sensitivity(text, KEY)
    assert len(found.findings) == MOST_FINDINGS
    assert found.total == len(detect(text)) == 101
    assert found.kinds == ("pii.email", "pii.payment_card")


def test_a_text_without_hits_holds_nothing() -> None:
    found = sensitivity("nothing to see", KEY)
    assert (found.has_failed, found.total, found.kinds) == (False, 0, ())
