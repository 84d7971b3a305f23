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
from typing import BinaryIO, Final

import apsw
import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from pointsman.audit.chain_notes import (
    ChainNotes,
    chain_notes,
    claimed_size,
    notes_of,
    read_checkpoints,
)
from pointsman.audit.frozen_reader import HIGHEST, LOWEST, FrozenReader
from pointsman.errors import InputError, LedgerBroken
from pointsman.kernel.checkpoint import Checkpoint
from pointsman.kernel.entry import Chain, Entry, empty_head
from pointsman.kernel.instant import EPOCH, LATEST, Instant, instant_text
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


class Period(Struct, frozen=True):
    """A time: of each chain all entries of it, from one checkpoint to another."""

    since: Instant = EPOCH
    until: Instant = LATEST


ALWAYS: Final = Period()


def export_bundle(home: Home, target: Path, period: Period = ALWAYS) -> BundleSummary:
    """Write the ledger of a home to `target`, and the offline verifier beside it."""
    key = home.signing_key()
    verifier = target.parent / VERIFIER
    try:
        with _replacement(target) as file:
            bundle = _Bundle(file)
            _write(home, bundle, period)
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


def _write(home: Home, bundle: _Bundle, period: Period) -> None:
    # Checkpoints are read first, so that the database holds every entry they cover.
    notes = notes_of(home)
    bundle.write_line(_header(home, period))
    if not home.database.exists():
        for name in sorted(notes):
            _write_chain(bundle, notes[name].folder.chain, (), notes[name].with_later(0)[0])
        return
    reader = FrozenReader(home)
    try:
        for name in sorted({*notes, *reader.chains()}):
            _write_stored(home, bundle, reader, name, notes.get(name), period)
    finally:
        reader.close()


def _header(home: Home, period: Period) -> dict[str, object]:
    identity = home.identity
    header: dict[str, object] = {"format": FORMAT, "keys": [*identity.keys]}
    header["ledger"] = identity.ledger
    if identity.rotations:
        header["rotations"] = [asdict(each) for each in identity.rotations]
    if period != ALWAYS:
        named = (instant_text(period.since), instant_text(period.until))
        header["period"] = dict(zip(("since", "until"), named, strict=True))
    return header


def _write_stored(
    home: Home,
    bundle: _Bundle,
    reader: FrozenReader,
    name: str,
    notes: ChainNotes | None,
    period: Period,
) -> None:
    known = notes or chain_notes(home, name)
    chain, number = known.folder.chain, reader.chains().get(name)
    if number is None:
        _write_chain(bundle, chain, (), known.with_later(0)[0])
        return
    texts = known.with_later(reader.size(number))
    if period == ALWAYS:
        _write_chain(bundle, chain, _entries_with_bodies(reader, number), texts[0])
        return
    start, rest, end = _part(read_checkpoints(chain, texts, home.keys), period)
    first = 0 if start is None else start.size
    entries = _entries_with_bodies(reader, number, first, end)
    _write_chain(bundle, chain, entries, [each.text for each in rest], start)


def _part(
    checkpoints: Sequence[Checkpoint], period: Period
) -> tuple[Checkpoint | None, Sequence[Checkpoint], int]:
    """Return the last checkpoint before a period, those up to its end, and how many entries."""
    before = [each for each in checkpoints if each.at < period.since]
    after = [each for each in checkpoints if each.at >= period.until]
    end = after[0].size if after else HIGHEST
    start = before[-1] if before else None
    first = 0 if start is None else start.size
    return start, [each for each in checkpoints if first < each.size <= end], end


def _entries_with_bodies(
    reader: FrozenReader, number: int, first: int = LOWEST, end: int = HIGHEST
) -> Iterator[tuple[Entry, list[bytes]]]:
    """Yield every entry of a range with its attachments, reading both side by side."""
    rows = reader.attachments_in(number, first, end)
    bodies = ((row[0], row[3]) for row in rows if row[2] is not None)
    following = next(bodies, None)
    for entry in reader.chain_entries(number, first):
        if entry.seq >= end:
            return
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
    start: Checkpoint | None = None,
) -> None:
    size, head = 0, empty_head(chain).hash
    if start is None:
        bundle.write_line({"chain": chain.name})
    else:
        size, head = start.size, start.head
        bundle.write_line({"chain": chain.name, "first": size})
        _write_checkpoint(bundle, start.text)
    bundle.chains += 1
    first, waiting = size, list(reversed(texts))
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
    bundle.entries += size - first


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
