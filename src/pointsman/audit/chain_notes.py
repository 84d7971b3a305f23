"""The checkpoints of a chain: their texts while a writer may add to them, and the proof."""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.errors import InputError, LedgerBroken
from pointsman.kernel.checkpoint import EVERY_ENTRIES, Checkpoint, origin, read_checkpoint
from pointsman.kernel.entry import Chain, Head
from pointsman.kernel.merkle import Frontier
from pointsman.kernel.signing import VerifyKey
from pointsman.kernel.verification import Fault, FaultCode
from pointsman.storage.home import Home
from pointsman.storage.writer.checkpoints import CheckpointFolder

Notes = tuple[list[str], str]
"""Whole checkpoints in order, and the rest behind them that is none."""

SIGNATURE_CHARS = 92


class ChainNotes:
    """The checkpoint texts of one chain, read before and after the database was looked at.

    A checkpoint that was there before must be covered by the database; one that came after may
    speak of entries that came after, too.
    """

    def __init__(self, folder: CheckpointFolder) -> None:
        self.folder = folder
        self._before = _texts(folder)

    def with_later(self, end: int) -> Notes:
        """Return the texts that cover no more than a chain of this size."""
        (first, torn), (texts, rest) = self._before, _texts(self.folder)
        if texts[: len(first)] != first:
            return self._before
        later = [text for text in texts[len(first) :] if claimed_size(text) <= end]
        # A rest that is being written while we look says nothing yet.
        return [*first, *later], rest if (texts, rest) == (first, torn) else ""


def claimed_size(text: str) -> int:
    """Return the size a checkpoint claims, unverified; -1 when it claims none."""
    line = [*text.split("\n", 2), "", ""][1]
    return int(line) if line.isascii() and line.isdigit() and len(line) < 20 else -1


def notes_of(home: Home) -> dict[str, ChainNotes]:
    """Read the checkpoints of every chain that has some."""
    names = home.notes.chains()
    return {name: chain_notes(home, name) for name in names if can_name(home, name)}


def chain_notes(home: Home, name: str) -> ChainNotes:
    """Read the checkpoints of one chain."""
    return ChainNotes(home.notes.of(Chain(home.identity.ledger, name)))


def can_name(home: Home, name: str) -> bool:
    """Tell whether a writer of this home can have named a chain like this."""
    try:
        Chain(home.identity.ledger, name)
    except InputError:
        return False
    return True


def start_at(checkpoint: Checkpoint) -> tuple[Head, Frontier]:
    """Return the state in which a pass continues behind a checkpoint."""
    return Head(checkpoint.size, checkpoint.head, checkpoint.at), checkpoint.frontier


def read_notes(
    chain: Chain, notes: Notes, keys: Sequence[VerifyKey]
) -> tuple[list[Checkpoint], Fault | None]:
    """Verify checkpoints up to the first that is broken, and say which that is."""
    texts, rest = notes
    found: list[Checkpoint] = []
    for number, text in enumerate(texts, 1):
        size = found[-1].size if found else 0
        try:
            found.append(read_checkpoint(chain, text, keys))
            _check_step(size, found)
        except LedgerBroken as error:
            return found, _broken(chain, size, f"checkpoint {number}: {error.message}")
    if rest and not _is_torn(chain, rest):
        last = _read_rest(chain, rest, keys)
        if last is None:
            size = found[-1].size if found else 0
            return found, _broken(
                chain, size, f"checkpoint {len(found) + 1}: it was cut or changed"
            )
        found.append(last)
    return found, None


def read_checkpoints(chain: Chain, notes: Notes, keys: Sequence[VerifyKey]) -> list[Checkpoint]:
    """Verify all checkpoints of a chain, or raise with the first that is broken."""
    found, broken = read_notes(chain, notes, keys)
    if broken is not None:
        raise LedgerBroken(broken.message, where=chain.name, hint="run `pointsman verify`")
    return found


def _texts(folder: CheckpointFolder) -> Notes:
    try:
        return folder.texts()
    except LedgerBroken as error:
        # Passed on as a checkpoint that cannot verify, so that it is reported like any other.
        return [error.message], ""


def _check_step(before: int, found: list[Checkpoint]) -> None:
    """Refuse a checkpoint that goes back, or so far ahead that one between was removed."""
    if not before < found[-1].size <= before + EVERY_ENTRIES:
        taken = found.pop()
        raise LedgerBroken(f"it covers {taken.size} entries, the one before it {before}")


def _is_torn(chain: Chain, rest: str) -> bool:
    """Tell whether a crash while a checkpoint was written can have left this beginning of one."""
    name = origin(chain) + "\n"
    body, _, line = rest.partition("\n\n")
    whole = len(f"\N{EM DASH} {origin(chain)} ") + SIGNATURE_CHARS
    begins = rest.startswith(name) or name.startswith(rest)
    return begins and "\N{EM DASH}" not in body and len(line) < whole


def _read_rest(chain: Chain, rest: str, keys: Sequence[VerifyKey]) -> Checkpoint | None:
    try:
        return read_checkpoint(chain, rest.removesuffix("\n") + "\n", keys)
    except LedgerBroken:
        return None


def _broken(chain: Chain, seq: int, message: str) -> Fault:
    return Fault(chain.name, seq, FaultCode.CHECKPOINT_BROKEN, message)
