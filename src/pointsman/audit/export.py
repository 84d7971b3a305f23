"""Export a home's ledger as one signed file that another machine can verify on its own.

`docs/ledger-format.md` gives the format. Message text is not part of the ledger and stays out.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

import apsw
import msgspec
from msgspec import Struct

from pointsman.audit.chain_notes import ChainNotes, chain_notes, claimed_size, notes_of
from pointsman.audit.frozen_reader import FrozenReader
from pointsman.errors import InputError, LedgerBroken
from pointsman.kernel.entry import Chain, Entry, empty_head
from pointsman.kernel.signing import SigningKey, signed_bytes
from pointsman.kernel.verification import HASH_SIZE
from pointsman.storage.files import replace_file, sync_folder
from pointsman.storage.home import Home

FORMAT = "pointsman/bundle/1"
VERIFIER = "pointsman_verify.py"
MAX_LINE = 64 << 20

_ENCODER = msgspec.json.Encoder(order="sorted")


class BundleSummary(Struct, frozen=True):
    """The exported bundle; a reader compares `key_id` with the one the owner published."""

    path: Path
    verifier: Path
    ledger: str
    key_id: str
    chains: int
    entries: int
    checkpoints: int
    lines: int
    digest: str


def export_bundle(home: Home, target: Path) -> BundleSummary:
    """Write the whole ledger of a home to `target`, and the offline verifier beside it."""
    key = home.signing_key()
    verifier = target.parent / VERIFIER
    try:
        with _replacement(target) as file:
            bundle = _Bundle(file)
            _write(home, bundle)
            digest = bundle.sign(key)
        replace_file(verifier, (files("pointsman") / "offline_verifier.py").read_bytes())
    except OSError as error:
        message = f"the bundle cannot be written: {error.strerror or error}"
        raise InputError(message, where=str(target)) from error
    except (apsw.Error, LedgerBroken, UnicodeError, TypeError) as error:
        raise LedgerBroken(
            f"the database cannot be read: {error}",
            where=str(home.database),
            hint="run `pointsman verify` to see what is wrong with it",
        ) from error
    counts = (bundle.chains, bundle.entries, bundle.checkpoints, bundle.lines)
    return BundleSummary(target, verifier, home.identity.ledger, key.id, *counts, digest)


class _Bundle:
    """Lines on their way into a file, counted and digested."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.lines = self.chains = self.entries = self.checkpoints = 0

    def write_line(self, value: dict[str, object]) -> None:
        line = _ENCODER.encode(value) + b"\n"
        if len(line) > MAX_LINE:
            raise InputError(f"one value takes {len(line)} bytes, past the {MAX_LINE} of a bundle")
        self._file.write(line)
        self._digest.update(line)
        self.lines += 1

    def sign(self, key: SigningKey) -> str:
        digest = self._digest.digest()
        message = signed_bytes("bundle", digest + self.lines.to_bytes(8, "big"))
        signature = key.sign(message).hex()
        footer = {"digest": digest.hex(), "key": key.id, "lines": self.lines}
        self.write_line({**footer, "signature": signature})
        return digest.hex()


def _write(home: Home, bundle: _Bundle) -> None:
    # Checkpoints are read first, so that the database holds every entry they cover.
    notes = notes_of(home)
    keys = list(home.identity.keys)
    bundle.write_line({"format": FORMAT, "keys": keys, "ledger": home.identity.ledger})
    if not home.database.exists():
        for name in sorted(notes):
            _write_chain(bundle, notes[name].folder.chain, (), notes[name].with_later(0)[0])
        return
    reader = FrozenReader(home)
    try:
        for name in sorted({*notes, *reader.chains()}):
            _write_stored(home, bundle, reader, name, notes.get(name))
    finally:
        reader.close()


def _write_stored(
    home: Home, bundle: _Bundle, reader: FrozenReader, name: str, notes: ChainNotes | None
) -> None:
    known = notes or chain_notes(home, name)
    number = reader.chains().get(name)
    if number is None:
        _write_chain(bundle, known.folder.chain, (), known.with_later(0)[0])
        return
    texts, _ = known.with_later(reader.size(number))
    _write_chain(bundle, known.folder.chain, _entries_with_bodies(reader, number), texts)


def _entries_with_bodies(reader: FrozenReader, number: int) -> Iterator[tuple[Entry, list[bytes]]]:
    """Yield every entry with its attachments, reading both side by side."""
    bodies = ((row[0], row[3]) for row in reader.chain_attachments(number) if row[2] is not None)
    following = next(bodies, None)
    for entry in reader.all_entries(number):
        mine = []
        while following is not None and following[0] == entry.seq:
            mine.append(following[1])
            following = next(bodies, None)
        yield entry, mine


def _write_chain(
    bundle: _Bundle,
    chain: Chain,
    entries: Iterator[tuple[Entry, list[bytes]]] | tuple[()],
    texts: Sequence[str],
) -> None:
    bundle.write_line({"chain": chain.name})
    bundle.chains += 1
    size, head = 0, empty_head(chain).hash
    waiting = list(reversed(texts))
    for entry, bodies in entries:
        bundle.write_line(_entry_line(entry))
        for place, body in enumerate(bodies):
            bundle.write_line({"attachment": place, **_text_or_hex(body, "text", "hex")})
        size, head = size + 1, entry.hash
        while waiting and claimed_size(waiting[-1]) == size:
            _write_checkpoint(bundle, waiting.pop())
    # Checkpoints that cover more than there is, or cannot be read, are for the verifier to judge.
    while waiting:
        _write_checkpoint(bundle, waiting.pop())
    bundle.write_line({"end": chain.name, "entries": size, "head": head.hex()})
    bundle.entries += size


def _write_checkpoint(bundle: _Bundle, text: str) -> None:
    bundle.write_line({"checkpoint": text})
    bundle.checkpoints += 1


def _entry_line(entry: Entry) -> dict[str, object]:
    digests = entry.attached
    starts = range(0, len(digests), HASH_SIZE)
    return {
        "seq": entry.seq,
        "at": entry.at,
        "kind": entry.kind,
        "id": entry.id,
        "ref": entry.ref,
        **_text_or_hex(entry.payload, "payload", "payload_hex"),
        "attached": [digests[start : start + HASH_SIZE].hex() for start in starts],
        "prev": entry.prev.hex(),
        "hash": entry.hash.hex(),
    }


def _text_or_hex(data: bytes, text: str, hexed: str) -> dict[str, str]:
    try:
        return {text: data.decode()}
    except UnicodeDecodeError:
        return {hexed: data.hex()}


@contextmanager
def _replacement(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` in one step, or leaves it as it was."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
