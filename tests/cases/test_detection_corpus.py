"""How well personal data and secrets are told from what looks like them, on a corpus of our own.

The values are made up. Secrets stand in pieces that are joined here, so that no whole one stands in
the repository.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pointsman.signals.detectors import KINDS, detect

FOLDER = Path(__file__).parent / "detection"
WITH_CHECKSUM, WITHOUT = 0.95, 0.90


def joined(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value)


def cases(name: str) -> list[tuple[str, list[tuple[str, str]]]]:
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        (
            joined(case["text"]),
            [(each["kind"], joined(each["value"])) for each in case["expected"]],
        )
        for case in map(json.loads, lines)
    ]


SAMPLES, LOOK_ALIKES = cases("samples"), cases("look_alikes")
HELD_OUT = cases("held_out")


def counted(
    corpus: list[tuple[str, list[tuple[str, str]]]],
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Count by kind: what was found as expected, what was not expected, what was missed."""
    right, wrong, missed = Counter[str](), Counter[str](), Counter[str]()
    for text, expected in corpus:
        wanted = Counter(expected)
        found = Counter((hit.kind, text[hit.start : hit.end]) for hit in detect(text))
        for counter, pairs in (
            (right, wanted & found),
            (wrong, found - wanted),
            (missed, wanted - found),
        ):
            counter.update(kind for kind, _ in pairs.elements())
    return right, wrong, missed


COUNTED = counted(SAMPLES + LOOK_ALIKES)


def ratio(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else 0.0


def test_the_corpus_is_as_large_as_promised_and_covers_every_kind() -> None:
    of_a_kind = Counter(kind for _, expected in SAMPLES for kind, _ in expected)
    assert len(SAMPLES) >= 300
    assert len(LOOK_ALIKES) >= 300
    assert all(of_a_kind[kind.name] >= 8 for kind in KINDS)
    assert set(of_a_kind) == {kind.name for kind in KINDS}


def test_every_expected_value_stands_in_its_text() -> None:
    assert all(value in text for text, expected in SAMPLES for _, value in expected)


def test_the_table_of_precision_and_recall(capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong, missed = COUNTED
    lines = [f"\n{'kind':22} samples  precision  recall"]
    for kind in KINDS:
        found, said, lost = right[kind.name], wrong[kind.name], missed[kind.name]
        share = f"{ratio(found, said):9.3f}  {ratio(found, lost):6.3f}"
        lines.append(f"{kind.name:22} {found + lost:7}  {share}{'  checksum' * kind.has_checksum}")
    with capsys.disabled():
        sys.stdout.write("\n".join(lines) + "\n")
    assert sum(right.values()) > 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_is_found_and_told_apart_as_promised(kind: Any) -> None:
    right, wrong, missed = (counter[kind.name] for counter in COUNTED)
    least = WITH_CHECKSUM if kind.has_checksum else WITHOUT
    assert ratio(right, wrong) >= least
    assert ratio(right, missed) >= least


def test_texts_that_were_never_tuned_on_are_judged_as_the_page_says() -> None:
    right, wrong, missed = (counter.total() for counter in counted(HELD_OUT))
    assert ratio(right, wrong) == 1.0
    assert ratio(right, missed) == 0.9
