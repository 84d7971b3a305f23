"""Detectors of an operator's own, beside the built-in one: a Python function or an HTTP service.

Their answers are facts like its own. One that fails, is late or answers nonsense counts as a find:
nothing leaves then.
"""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.client import HTTPConnection, HTTPSConnection
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from pointsman.kernel.content import seal_text
from pointsman.placement.facts import Sensitivity, SensitivityFinding
from pointsman.signals.sensitivity import MOST_FINDINGS
from pointsman.storage.policies.detector_settings import DetectorSettings

MOST_ANSWERS: Final = 512
"""How many texts' answers are remembered; a conversation asks for its own again and again."""

MOST_FOUND: Final = 10_000
THREADS: Final = 8
"""How many calls may be under way; one behind them that runs out of its time has failed."""

MOST_BYTES: Final = 1024 * 1024
"""The largest answer of a service that is read."""

Kind = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,39}$")]


class OwnHit(Struct, frozen=True):
    """One thing a detector found; places count characters of the text."""

    kind: Kind
    start: Annotated[int, Meta(ge=0)]
    end: Annotated[int, Meta(ge=1)]


class _Answer(Struct, frozen=True):
    findings: Annotated[tuple[OwnHit, ...], Meta(max_length=MOST_FOUND)]


_ANSWER: Final = msgspec.json.Decoder(_Answer)


class OwnFindings(Struct, frozen=True):
    """What all of them said about one text, each hit with the detector's name."""

    has_failed: bool
    hits: tuple[tuple[str, OwnHit], ...]


class OwnDetectors:
    """The detectors of one home; may be shared by threads."""

    def __init__(self, detectors: Sequence[DetectorSettings]) -> None:
        self._detectors = tuple(detectors)
        self.names = "+".join(f"{each.name}/{each.version}" for each in detectors)
        """Recorded in facts, behind the name of the built-in detector."""
        self._threads = ThreadPoolExecutor(THREADS, "detectors")
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, OwnFindings] = OrderedDict()

    def find(self, text: str) -> OwnFindings:
        """Ask every detector about a text, or remember its answer. Blocks until all have answered.

        A failure is told once: the next turn with this text asks anew.
        """
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            known = self._known.pop(digest, None)
            if known is not None and not known.has_failed:
                self._known[digest] = known
        if known is None:
            known = self._ask(text)
            with self._lock:
                self._known[digest] = known
                while len(self._known) > MOST_ANSWERS:
                    self._known.popitem(last=False)
        return known

    def close(self) -> None:
        """End the threads; a call under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, text: str) -> OwnFindings:
        asked = [(each, self._threads.submit(self._call, each, text)) for each in self._detectors]
        hits: list[tuple[str, OwnHit]] = []
        has_failed = False
        for each, answer in asked:
            try:
                found = answer.result(each.timeout_ms / 1000)
                if any(not hit.start < hit.end <= len(text) for hit in found):
                    raise ValueError("a place outside the text")  # noqa: TRY301 - as all failures
                hits += [(each.name, hit) for hit in found]
            except Exception:  # noqa: BLE001 - whatever a detector dies of, nothing may leave then
                has_failed = True
        return OwnFindings(has_failed, tuple(hits))

    def _call(self, detector: DetectorSettings, text: str) -> Sequence[OwnHit]:
        if detector.url is not None:
            return _ANSWER.decode(_post(detector.url, text, detector.timeout_ms / 1000)).findings
        module, _, name = (detector.python or "").partition(":")
        found: Iterable[object] = getattr(importlib.import_module(module), name)(text)
        return msgspec.convert([*found], list[OwnHit], from_attributes=True)


def _post(url: str, text: str, seconds: float) -> bytes:
    """Post a text to a service and return the body of its answer; no redirect is followed."""
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=seconds)
    try:
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        body = msgspec.json.encode({"text": text})
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        found = answer.read(MOST_BYTES + 1)
        if answer.status != HTTPStatus.OK or len(found) > MOST_BYTES:
            raise ValueError("no answer that can be used")
        return found
    finally:
        connection.close()


def with_own(
    found: Sensitivity, names: str, own: OwnFindings, text: str, key: bytes
) -> Sensitivity:
    """Return a sensitivity with what detectors of the operator's own said."""
    findings = [
        SensitivityFinding(
            hit.kind,
            "own",
            hit.start,
            hit.end,
            seal_text(text[hit.start : hit.end], key).digest,
            f"said by the detector {name}",
        )
        for name, hit in own.hits
    ]
    everything = sorted((*found.findings, *findings), key=lambda each: (each.start, each.end))
    kinds = {*found.kinds, *(f"own.{hit.kind}" for _, hit in own.hits)}
    return replace(
        found,
        detector=f"{found.detector}+{names}",
        has_failed=found.has_failed or own.has_failed,
        total=found.total + len(findings),
        kinds=tuple(sorted(kinds)),
        findings=tuple(everything[:MOST_FINDINGS]),
    )
