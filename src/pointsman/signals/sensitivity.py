"""What a text holds, as a fact for placement; a detector that fails is a fact too.

A long text comes in parts, of which most were looked at before: each run of parts is looked at by
itself and remembered by its digest, and again where two runs meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.content import seal_text
from pointsman.placement.facts import Sensitivity, SensitivityFinding
from pointsman.signals.detectors import DETECTOR, detect
from pointsman.signals.fact_memo import FactMemo
from pointsman.signals.hit import Hit
from pointsman.signals.steps import run_to_end

MOST_FINDINGS: Final = 64
"""Facts stay small: of more findings only these are kept, the kinds of all."""

RUN_BYTES: Final = 4096
"""From so many bytes on a run of parts is closed: short messages are looked at together."""

OVERLAP: Final = 1024
"""How many characters of either run are looked at where two meet."""

NEAR: Final = 512
"""How far from there a finding may stand that is due to the meeting: no finder looks further."""

PIECE: Final = 16 * 1024
"""How many characters are looked at at once: a few milliseconds; other requests may go between."""

_RUN_SIZE: Final = 200
_FINDING_SIZE: Final = 400

Find = Callable[[str], Sequence[Hit]]


class TextPart(Protocol):
    """A part of a long text."""

    @property
    def digest(self) -> bytes:
        """The digest of the part; parts with one digest have one text."""
        ...

    @property
    def raw(self) -> bytes:
        """Its bytes, as they were sent; their number tells how long a run is."""
        ...

    def text(self) -> str:
        """Return its text."""
        ...


class RunFindings(Struct, frozen=True):
    """What one run of parts holds; places count from its start."""

    length: int
    total: int
    kinds: tuple[str, ...]
    findings: tuple[SensitivityFinding, ...]

    @property
    def size(self) -> int:
        """About its size in memory."""
        return _RUN_SIZE + _FINDING_SIZE * len(self.findings)


FindingsMemo = FactMemo[RunFindings]


class LongText(Struct, frozen=True):
    """A text in parts, and the memo of findings in such parts."""

    parts: Sequence[TextPart]
    memo: FindingsMemo

    def text(self) -> str:
        """Return the whole text; places of findings count in it."""
        return "\n".join(each.text() for each in self.parts)


def sensitivity(text: str, key: bytes, find: Find = detect) -> Sensitivity:
    """Look for personal data and secrets; report hits by kind, place and keyed digest."""
    try:
        return _sensitivity([_look_at(text, find(text), key)])
    except Exception:  # noqa: BLE001 - whatever the detector dies of, nothing may leave then
        return _no_answer()


def sensitivity_of_parts(
    parts: Sequence[TextPart], key: bytes, memo: FindingsMemo, find: Find = detect
) -> Sensitivity:
    """Look for the same in a text that comes in parts, a line break between each two."""
    return run_to_end(sensitivity_steps(parts, key, memo, find))


def sensitivity_steps(
    parts: Sequence[TextPart], key: bytes, memo: FindingsMemo, find: Find = detect
) -> Generator[None, None, Sensitivity]:
    """Look for the same; pauses after each piece that was looked at."""
    found: list[RunFindings] = []
    start, previous = 0, None
    try:
        for run in _runs(parts, key):
            if previous is not None:
                meeting = _look_where_they_meet(previous, run, key, memo, find)
                found.append(_shift(meeting, start - 1))
            known = memo.find(run.digest)
            if known is None:
                text = run.text()
                known = _look_at(text, (yield from _hits_in_steps(text, find)), key)
                memo.keep(run.digest, known)
            found.append(_shift(known, start))
            start += known.length + 1
            previous = run
        return _sensitivity(found)
    except Exception:  # noqa: BLE001 - whatever the detector dies of, nothing may leave then
        return _no_answer()


class _Run:
    """Parts that are looked at together."""

    __slots__ = ("_parts", "digest")

    def __init__(self, parts: Sequence[TextPart], key: bytes) -> None:
        self._parts = parts
        names = (f"{DETECTOR} ".encode(), key, *(each.digest for each in parts))
        self.digest = hashlib.sha256(b"".join(names)).digest()

    def text(self) -> str:
        """Return the text of the run."""
        return "\n".join(each.text() for each in self._parts)


def _runs(parts: Sequence[TextPart], key: bytes) -> Iterator[_Run]:
    """Cut parts into runs, from the front: a run that is closed stays when parts are added."""
    # DETERMINISM: the bytes of the parts alone say where a run ends.
    run: list[TextPart] = []
    size = 0
    for part in parts:
        run.append(part)
        size += len(memoryview(part.raw))
        if size >= RUN_BYTES:
            yield _Run(run, key)
            run, size = [], 0
    if run:
        yield _Run(run, key)


def _look_where_they_meet(
    run: _Run, following: _Run, key: bytes, memo: FindingsMemo, find: Find
) -> RunFindings:
    """Return the findings due to one run following another; places count from between them."""
    digest = hashlib.sha256(run.digest + following.digest).digest()
    known = memo.find(digest)
    if known is None:
        before, after = run.text()[-OVERLAP:], following.text()[:OVERLAP]
        text = f"{before}\n{after}"
        hits = _hits_of_meeting(text, len(before), len(before) + 1, find)
        known = _shift(_look_at(text, hits, key), -len(before))
        memo.keep(digest, known)
    return known


def _hits_of_meeting(text: str, end: int, start: int, find: Find) -> list[Hit]:
    """Find the hits due to the text from `start` on following the one up to `end`."""
    hits = find(text)
    if not hits:
        return []
    alone = {(hit.kind, hit.start, hit.end) for hit in find(text[:end])}
    alone |= {(hit.kind, start + hit.start, start + hit.end) for hit in find(text[start:])}
    return [
        hit
        for hit in hits
        if (hit.kind, hit.start, hit.end) not in alone
        and hit.end > end - NEAR
        and hit.start < start + NEAR
    ]


def _hits_in_steps(text: str, find: Find) -> Generator[None, None, list[Hit]]:
    """Find the hits of a text; a long one is looked at piece by piece."""
    found: list[Hit] = []
    start = 0
    while True:
        end = _end_of_piece(text, start)
        if start:
            first = max(0, start - OVERLAP)
            meeting = text[first : min(end, start + OVERLAP)]
            hits = _hits_of_meeting(meeting, start - first, start - first, find)
            found += [_shift_hit(hit, first) for hit in hits]
        found += [_shift_hit(hit, start) for hit in find(text[start:end])]
        yield
        if end == len(text):
            return sorted(found, key=lambda hit: (hit.start, hit.end, hit.kind))
        start = end


def _end_of_piece(text: str, start: int) -> int:
    """Return where a piece ends: behind a line or a word, where there is one."""
    end = start + PIECE
    if end >= len(text):
        return len(text)
    for sign in ("\n", " "):
        at = text.rfind(sign, start + PIECE // 2, end)
        if at >= 0:
            return at + 1
    return end


def _shift_hit(hit: Hit, by: int) -> Hit:
    return replace(hit, start=hit.start + by, end=hit.end + by) if by else hit


def _look_at(text: str, hits: Sequence[Hit], key: bytes) -> RunFindings:
    kinds = sorted({f"{hit.group}.{hit.kind}" for hit in hits})
    findings = tuple(_finding(text, hit, key) for hit in hits[:MOST_FINDINGS])
    return RunFindings(len(text), len(hits), tuple(kinds), findings)


def _shift(found: RunFindings, by: int) -> RunFindings:
    if not by or not found.findings:
        return found
    findings = tuple(
        replace(each, start=each.start + by, end=each.end + by) for each in found.findings
    )
    return replace(found, findings=findings)


def _sensitivity(found: Sequence[RunFindings]) -> Sensitivity:
    total = sum(each.total for each in found)
    kinds = sorted({kind for each in found for kind in each.kinds})
    findings = sorted(
        (finding for each in found for finding in each.findings),
        key=lambda finding: (finding.start, finding.end, finding.kind),
    )
    kept = tuple(findings[:MOST_FINDINGS])
    return Sensitivity(DETECTOR, False, total, tuple(kinds), kept)  # noqa: FBT003 - a fact


def _no_answer() -> Sensitivity:
    return Sensitivity(DETECTOR, has_failed=True, total=0, kinds=(), findings=())


def _finding(text: str, hit: Hit, key: bytes) -> SensitivityFinding:
    digest = seal_text(text[hit.start : hit.end], key).digest
    return SensitivityFinding(hit.kind, hit.group, hit.start, hit.end, digest, hit.reason)
