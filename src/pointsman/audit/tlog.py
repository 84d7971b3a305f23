"""A home's chains as C2SP logs: each chain is one log, with its checkpoint and its tiles.

Entries themselves are not served in this form: they are records of people's work, not public.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from pointsman.audit.chain_notes import can_name, claimed_size
from pointsman.audit.witness_entries import COSIGNED, COSIGNED_FORM
from pointsman.errors import NotFound
from pointsman.kernel.checkpoint import origin
from pointsman.kernel.entry import Chain
from pointsman.kernel.instant import LATEST
from pointsman.kernel.tiles import (
    TILE_WIDTH,
    Tile,
    has_tile,
    subtree_root,
    tile_bytes,
    tiles_of,
)
from pointsman.kernel.verification import HASH_SIZE
from pointsman.storage.files import make_folder, replace_file
from pointsman.storage.home import Home
from pointsman.storage.writer.checkpoints import NO_NOTES, CheckpointFolder, NewestNotes

KEPT_ROOTS: Final = 4096
LOOKED_BACK: Final = 200


class WrittenLog(Struct, frozen=True):
    """A log that was written as files: its folder, and how many tiles were new."""

    chain: str
    size: int
    tiles: int


class TransparencyLogs:
    """Serves checkpoints and tiles of a home's chains; may be shared by threads."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._notes: dict[str, NewestNotes] = {}
        # The root over a full tile never changes: the levels above are made of those below.
        self._root = lru_cache(KEPT_ROOTS)(self._work_out_root)

    def checkpoint(self, name: str) -> str:
        """Return a chain's newest checkpoint, or raise that there is none."""
        folder = self._folder(name)
        known = folder.newest(1, self._notes.get(name, NO_NOTES))
        self._notes[name] = known
        if not known.texts:
            raise NotFound(f"the chain `{name[:80]}` has no checkpoint")
        return known.texts[-1]

    def cosigned_checkpoint(self, name: str) -> str:
        """Return a chain's newest checkpoint that witnesses cosigned, with their signatures."""
        log = origin(self._folder(name).chain)
        if self._home.database.exists():
            with closing(self._home.reader()) as reader:
                for stored in reader.recent(COSIGNED, LATEST, LOOKED_BACK):
                    if stored.entry.ref == log:
                        return COSIGNED_FORM.decode(stored.entry.payload).note
        raise NotFound(f"no witness has cosigned the chain `{name[:80]}` lately")

    def tile(self, name: str, tile: Tile) -> bytes:
        """Return a tile of a chain, as far as its newest checkpoint reaches."""
        data = b""
        if has_tile(claimed_size(self.checkpoint(name)), tile):
            data = self._tile(name, tile)
        if len(data) != tile.width * HASH_SIZE:
            raise NotFound("the log has no such tile")
        return data

    def write_files(self, target: Path) -> Iterator[WrittenLog]:
        """Write every chain's tiles and checkpoint below a folder; full tiles only once."""
        for name in self._home.notes.chains():
            if not can_name(self._home, name):
                continue
            text, count = self.checkpoint(name), 0
            for tile in tiles_of(claimed_size(text)):
                path = target / name / "tile" / tile.path
                if not path.exists():
                    make_folder(path.parent)
                    replace_file(path, self._tile(name, tile))
                    count += 1
            # Last, so that a reader never finds a checkpoint before its tiles.
            make_folder(target / name)
            replace_file(target / name / "checkpoint", text.encode())
            yield WrittenLog(name, claimed_size(text), count)

    def _tile(self, name: str, tile: Tile) -> bytes:
        if tile.level == 0:
            return tile_bytes(tile, self._folder(name).leaf_range)
        first = tile.index * TILE_WIDTH
        return b"".join(self._root(name, tile.level, at) for at in range(first, first + tile.width))

    def _work_out_root(self, name: str, level: int, index: int) -> bytes:
        span = TILE_WIDTH**level
        return subtree_root(self._folder(name).leaf_range, index * span, (index + 1) * span)

    def _folder(self, name: str) -> CheckpointFolder:
        if not can_name(self._home, name):
            raise NotFound(f"there is no chain `{name[:80]}`")
        return self._home.notes.of(Chain(self._home.identity.ledger, name))
