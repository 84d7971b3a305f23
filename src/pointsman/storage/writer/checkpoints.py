"""Checkpoints on disk, outside the database: one folder a chain, with `notes` and `leaves`.

`notes` holds the signed checkpoints one after the other; `leaves` the hash of every entry they
cover, 32 bytes each, so that a verifier can name the very entry that was rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from pointsman.errors import LedgerBroken
from pointsman.kernel.checkpoint import Checkpoint, read_checkpoint, split_checkpoints
from pointsman.kernel.entry import Chain
from pointsman.kernel.signing import VerifyKey
from pointsman.kernel.verification import HASH_SIZE
from pointsman.storage.files import make_folder, read_if_there, write_at

SYNC_LEAVES_EVERY = 4096
"""Fewer than a starting writer verifies and writes again, so that no lost leaf stays lost."""


class NewestNotes(NamedTuple):
    """The newest checkpoints of a chain, the number of all, and how far their file was read."""

    texts: tuple[str, ...] = ()
    total: int = 0
    read_to: int = 0


NO_NOTES: Final = NewestNotes()


class CheckpointFolder:
    """The checkpoints of one chain."""

    def __init__(self, root: Path, chain: Chain) -> None:
        self.chain = chain
        self._root = root
        self._notes = root / chain.name / "notes"
        self._leaves = root / chain.name / "leaves"
        self._end: int | None = None  # where the next note goes, once it is known

    def texts(self) -> tuple[list[str], str]:
        """Return the whole checkpoints and what a crash left of an unfinished one."""
        return self._kept_texts()

    def newest(self, most: int, known: NewestNotes) -> NewestNotes:
        """Return the newest checkpoints and their number; reads the notes added since `known`.

        Unverified, like all texts: an earlier note that is changed meanwhile is not noticed here.
        """
        size = self._notes.stat().st_size if self._notes.exists() else 0
        if size < known.read_to:
            known = NO_NOTES
        if size == known.read_to:
            return known
        notes, _ = self._kept_texts(known.read_to)
        read_to = known.read_to + sum(len(each.encode()) + 1 for each in notes)
        return NewestNotes((*known.texts, *notes)[-most:], known.total + len(notes), read_to)

    def _kept_texts(self, start: int = 0) -> tuple[list[str], str]:
        data = read_if_there(self._notes, start)
        # A crash may cut within a character; only the text behind the last note can be torn.
        whole = data.rfind(b"\n\n") + 2
        try:
            notes, rest = split_checkpoints(data[:whole].decode())
        except UnicodeDecodeError as error:
            raise LedgerBroken("the checkpoints are not text", where=str(self._notes)) from error
        rest += data[whole:].decode(errors="replace")
        if notes and "\0" in notes[-1]:
            # A power cut fills with NUL what did not reach the disk of the last note.
            rest = f"{notes.pop()}\n{rest}"
        return notes, rest

    def all(self, keys: Sequence[VerifyKey]) -> list[Checkpoint]:
        """Read and verify every checkpoint; sizes must grow."""
        found: list[Checkpoint] = []
        for text in self.texts()[0]:
            found.append(read_checkpoint(self.chain, text, keys))
            if len(found) > 1 and found[-2].size >= found[-1].size:
                raise LedgerBroken("checkpoints are out of order", where=str(self._notes))
        return found

    def tail(self, keys: Sequence[VerifyKey], *, back_to: int) -> list[Checkpoint]:
        """Read the newest checkpoint and, where there is one, the last that covers `back_to`."""
        texts = self.texts()[0]
        older = [text for text in texts[:-1] if claimed_size(text) <= back_to]
        return [read_checkpoint(self.chain, text, keys) for text in (*older[-1:], *texts[-1:])]

    def leaves(self) -> bytes:
        """Return the hashes of the entries that checkpoints cover."""
        return read_if_there(self._leaves)

    def leaf_range(self, first: int, end: int) -> bytes:
        """Return the hashes of a range of entries, as far as checkpoints cover it."""
        return read_if_there(self._leaves, first * HASH_SIZE, (end - first) * HASH_SIZE)

    def append(self, text: str, leaves: Sequence[bytes], *, before: int) -> None:
        """Add a checkpoint durably, with the hashes of the entries since the one before it."""
        end, self._end = self._end, None
        if end is None:
            make_folder(self._notes.parent)
        self.keep_leaves(leaves, before=before)
        if end is None:
            end = sum(len(note.encode()) + 1 for note in self._kept_texts()[0])
        data = f"{text}\n".encode()
        write_at(self._notes, data, end, durable=True)
        self._end = end + len(data)

    def keep_leaves(self, leaves: Sequence[bytes], *, before: int) -> None:
        """Write hashes from an entry on, seldom synced: a starting writer writes them again."""
        is_due = before // SYNC_LEAVES_EVERY != (before + len(leaves)) // SYNC_LEAVES_EVERY
        write_at(self._leaves, b"".join(leaves), before * HASH_SIZE, durable=is_due)


def claimed_size(text: str) -> int:
    """Return the size a checkpoint claims, unverified: only good for choosing which to verify."""
    line = text.split("\n", 2)[1]
    return int(line) if line.isascii() and line.isdigit() else 0


class Checkpoints(Protocol):
    """The checkpoints of a home, wherever they are kept."""

    def chains(self) -> list[str]:
        """Name the chains that have checkpoints, whether or not the database knows them."""
        ...

    def of(self, chain: Chain) -> CheckpointFolder:
        """Return those of one chain."""
        ...


class CheckpointFolders(Struct, frozen=True):
    """The checkpoints of a home, chain by chain."""

    root: Path

    def chains(self) -> list[str]:
        """Name the chains that have checkpoints, whether or not the database knows them."""
        return chains_with_checkpoints(self.root)

    def of(self, chain: Chain) -> CheckpointFolder:
        """Return those of one chain."""
        return CheckpointFolder(self.root, chain)


def chains_with_checkpoints(root: Path) -> list[str]:
    """Name the chains that have checkpoints here, whether or not the database knows them."""
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.exists() else []
