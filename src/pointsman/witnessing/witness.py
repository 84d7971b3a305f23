"""A witness (C2SP tlog-witness): cosigns a checkpoint only if it grew from all before it.

The folder of a witness holds `witness.yaml`, its key and the trees it has seen. HTTP is
the gateway's business, not this module's.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pointsman.errors import HomeError, InputError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.consistency import is_consistent
from pointsman.kernel.cosignature import (
    CosignRequest,
    TreeHead,
    cosignature_line,
    read_request,
    read_tree_head,
)
from pointsman.kernel.document import Document
from pointsman.kernel.instant import SECOND, Instant
from pointsman.kernel.merkle import EMPTY_ROOT
from pointsman.kernel.note import LOG, WITNESS, NoteKey, note_key_id, read_note_key, split_note
from pointsman.kernel.schema import conform
from pointsman.kernel.signing import SigningKey
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.storage.files import make_folder, write_new
from pointsman.storage.home import read_secret
from pointsman.storage.stores.witnessed_logs import WitnessedLogs

MOST_REQUEST: Final = 64 * 1024
MOST_LISTED: Final = 1000
TEXT: Final = "text/plain; charset=utf-8"
SIZE: Final = "text/x.tlog.size"
SETTINGS: Final = "witness.yaml"
SEEN: Final = "seen.db"
STARTER: Final = """\
# A witness cosigns a checkpoint of these logs only if it grew from all it has cosigned before.
name: {name}
logs: []
# - one line for each ledger: its operator prints it with `pointsman witness key`
"""

_NAME = r"^[^\s+]{1,100}$"


class WitnessFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`witness.yaml`: the name a witness signs under, and the keys of the logs it knows.

    A key named `pointsman/LEDGER` stands for every chain of the ledger. `max_logs` bounds how many
    logs are kept, all keys together.
    """

    name: Annotated[str, Meta(pattern=_NAME)]
    logs: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    max_logs: Annotated[int, Meta(ge=1, le=100_000)] = 1000


class Refusal(Exception):
    """Why a checkpoint is not cosigned, as the protocol says it."""

    def __init__(self, status: int, message: str, media: str = TEXT) -> None:
        super().__init__(message)
        self.status, self.body, self.media = status, f"{message}\n", media


class LogView(Struct, frozen=True):
    """A log as a witness knows it; `note` carries the witness's cosignature."""

    origin: str
    size: int
    note: str


class WitnessView(Struct, frozen=True):
    """Everything a witness has seen of some logs, under its key."""

    witness: str
    logs: tuple[LogView, ...]


def make_witness(folder: Path, name: str) -> str:
    """Make the folder of a witness, unless it is there; return its public key as text."""
    _read_file(STARTER.format(name=name).encode(), SETTINGS)
    make_folder(folder)
    write_new(folder / SETTINGS, STARTER.format(name=name).encode())
    write_new(folder / "key", secrets.token_bytes(32).hex().encode() + b"\n")
    return witness_key(folder)


def witness_key(folder: Path) -> str:
    """Return the public key of a witness as homes take it."""
    name = _open_file(folder).name
    return NoteKey(name, WITNESS, SigningKey(read_secret(folder / "key"))).text()


class CosigningWitness:
    """A witness that is open for requests; may be shared by threads."""

    def __init__(self, folder: Path, now: Callable[[], Instant], seen: WitnessedLogs) -> None:
        self._file = _open_file(folder)
        self._key = SigningKey(read_secret(folder / "key"))
        self._trusted = [read_note_key(text, LOG) for text in self._file.logs]
        self._now = now
        self._seen = seen
        self.key = NoteKey(self._file.name, WITNESS, self._key).text()

    def close(self) -> None:
        """Let go of the folder."""
        self._seen.close()

    def cosign(self, data: bytes) -> str:
        """Cosign a request's checkpoint and return the line, or raise the refusal.

        DURABILITY: the tree is on disk before the line is returned.
        """
        request, body, head = _read(data)
        self._check_signed(request.note, body, head)
        if request.old > head.size:
            raise Refusal(400, "the old size is larger than that of the checkpoint")
        line = cosignature_line(self._file.name, self._key, body, self._now() // SECOND)

        def decide(kept: str, count: int) -> tuple[int, str]:
            if not kept and count >= self._file.max_logs:
                raise Refusal(404, "this witness takes no more logs")
            _check_growth(request, _kept_head(kept, head.origin), head)
            return head.size, f"{body}\n{line}"

        self._seen.advance(head.origin, decide)
        return line

    def view(self, prefix: str) -> WitnessView:
        """Return the trees seen of the logs whose origin begins like this."""
        rows = self._seen.logs(prefix, MOST_LISTED)
        return WitnessView(self.key, tuple(LogView(*msgspec.structs.astuple(row)) for row in rows))

    def _check_signed(self, note: str, body: str, head: TreeHead) -> None:
        origin = head.origin
        known = [each for each in self._trusted
                 if origin == each.name or origin.startswith(f"{each.name}/")]  # fmt: skip
        if not known:
            raise Refusal(404, "this witness does not know the log")
        for signed in split_note(note)[1]:
            for each in known:
                is_known = signed.name in {origin, each.name}
                key_id = note_key_id(signed.name, LOG, each.key.public)
                is_known = is_known and signed.key_id == key_id
                if is_known and each.key.verifies(body.encode(), signed.signature):
                    return
        raise Refusal(403, "no key of this log signed the checkpoint")


def _read(data: bytes) -> tuple[CosignRequest, str, TreeHead]:
    try:
        request = read_request(data)
        body, _ = split_note(request.note)
        return request, body, read_tree_head(body)
    except ValueError as error:
        raise Refusal(400, str(error)[:200]) from error


def _kept_head(note: str, origin: str) -> TreeHead:
    return read_tree_head(split_note(note)[0]) if note else TreeHead(origin, 0, EMPTY_ROOT)


def _check_growth(request: CosignRequest, kept: TreeHead, head: TreeHead) -> None:
    """Refuse a checkpoint that is not the largest one cosigned, grown."""
    is_fork = kept.size == head.size > 0 and kept.root != head.root
    if request.old != kept.size or is_fork:
        raise Refusal(409, str(kept.size), SIZE)
    if not is_consistent((kept.size, kept.root), (head.size, head.root), request.proof):
        raise Refusal(422, "the proof does not show that the log grew from what was cosigned")


def _open_file(folder: Path) -> WitnessFile:
    path = folder / SETTINGS
    try:
        return _read_file(path.read_bytes(), str(path))
    except OSError as error:
        raise HomeError(
            "there is no witness here",
            where=str(folder),
            hint="make one: `pointsman witness init DIR --name NAME`",
        ) from error


def _read_file(text: bytes, source: str) -> WitnessFile:
    return conform(parse_yaml(text, source), WitnessFile, _problems)


def _problems(file: WitnessFile, document: Document) -> Iterable[Problem]:
    for index, text in enumerate(file.logs):
        try:
            read_note_key(text, LOG)
        except InputError as error:
            path = ("logs", index)
            yield document.problem(path, Code.INVALID_VALUE, error.message, error.hint)
