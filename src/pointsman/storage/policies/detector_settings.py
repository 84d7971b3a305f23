"""Detectors of an operator's own, as `pointsman.yaml` names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document


class DetectorSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A detector asked beside the built-in one: a Python function, or a service over HTTP.

    `python` is `module:function`, importable where the process runs, called with the text. To `url`
    the text is posted as `{"text": …}`. Both answer findings of `kind`, `start` and `end`. One that
    has not answered after `timeout_ms` has failed. `version` stands in the facts.
    """

    name: Annotated[str, Meta(pattern="^[a-z][a-z0-9_-]{0,39}$")]
    python: (
        Annotated[
            str, Meta(max_length=200, pattern="^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")
        ]
        | None
    ) = None
    url: Annotated[str, Meta(max_length=2048, pattern="^https?://[^@]+$")] | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] = 1_000
    version: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,40}$")] = "1"


class PrivacySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What looks into texts beside the built-in detector. Read when a process starts."""

    detectors: Annotated[tuple[DetectorSettings, ...], Meta(max_length=16)] = ()


def detector_problems(settings: PrivacySettings, document: Document) -> Iterable[Problem]:
    """Find detectors that say not one way to be asked, and names that are taken."""
    seen: set[str] = set()
    for index, each in enumerate(settings.detectors):
        path = ("privacy", "detectors", index)
        if (each.python is None) == (each.url is None):
            message = "a detector has either `python` or `url`"
            yield document.problem(path, Code.INVALID_VALUE, message)
        if each.name in seen:
            message = f"the name `{each.name}` is taken by an earlier detector"
            yield document.problem((*path, "name"), Code.DUPLICATE_KEY, message)
        seen.add(each.name)
