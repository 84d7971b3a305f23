"""`witnesses:` of `pointsman.yaml`: who countersigns checkpoints, how many must, how often."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from pointsman.errors import InputError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.note import WITNESS, NoteKey, read_note_key

MOST_WITNESSES = 16
Seconds = Annotated[int, Meta(ge=1, le=86_400)]
Text = Annotated[str, Meta(min_length=1, max_length=1000)]


class Witness(Struct, frozen=True, forbid_unknown_fields=True):
    """One witness: where it takes checkpoints, and the key it published."""

    url: Text
    key: Text

    @property
    def note_key(self) -> NoteKey:
        """The key, read."""
        return read_note_key(self.key, WITNESS)


class TimeStamps(Struct, frozen=True, forbid_unknown_fields=True):
    """An authority for time stamps (RFC 3161).

    `certificate` is a PEM file: the authority's own certificate, or the one that issued it. A
    stamp is asked for every `every_s`, for chains that grew.
    """

    url: Text
    certificate: Text
    every_s: Seconds = 3600


class WitnessSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The witnesses of a home; without any, no checkpoint leaves it.

    `quorum` is how many of them must have cosigned before entries count as witnessed. New
    checkpoints are submitted every `every_s`. A witness that has not answered for `gap_s` is
    recorded as lost, and recorded again when it is back. Read when a process starts.
    """

    of: Annotated[tuple[Witness, ...], Meta(max_length=MOST_WITNESSES)] = ()
    quorum: Annotated[int, Meta(ge=1, le=MOST_WITNESSES)] = 1
    every_s: Seconds = 10
    gap_s: Seconds = 60
    timeout_s: Annotated[int, Meta(ge=1, le=60)] = 10
    time_stamps: TimeStamps | None = None

    @property
    def is_used(self) -> bool:
        """Whether anything is to be submitted at all."""
        return bool(self.of) or self.time_stamps is not None


NO_WITNESSES = WitnessSettings()


def witness_problems(settings: WitnessSettings, document: Document) -> Iterable[Problem]:
    """Return the problems of the section."""
    path, invalid = ("witnesses",), Code.INVALID_VALUE
    names: set[str] = set()
    for index, each in enumerate(settings.of):
        place = (*path, "of", index)
        if not _is_url(each.url):
            hint = "write it like https://witness.example/prefix"
            yield document.problem((*place, "url"), invalid, "this is not a witness's URL", hint)
        try:
            key = each.note_key
        except InputError as error:
            yield document.problem((*place, "key"), invalid, error.message, error.hint)
            continue
        if key.name in names or key.key.id in names:
            message = f"the witness `{key.name}` is named twice"
            yield document.problem((*place, "key"), invalid, message, "each counts once")
        names |= {key.name, key.key.id}
    if settings.of and settings.quorum > len(settings.of):
        message = f"{settings.quorum} of {len(settings.of)} witnesses can never cosign"
        yield document.problem((*path, "quorum"), invalid, message, "lower it, or add witnesses")
    if settings.time_stamps is not None and not _is_url(settings.time_stamps.url):
        hint = "write it like https://authority.example/tsr"
        where = (*path, "time_stamps", "url")
        yield document.problem(where, invalid, "this is not an authority's URL", hint)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
