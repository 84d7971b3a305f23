"""A small real ledger: three chains, snapshots, attachments, several checkpoints."""

from pathlib import Path

from msgspec import Struct

from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.rotation import rotation_draft
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.operations.signing_keys import rotate_signing_key
from pointsman.storage.home import Home, open_home
from pointsman.storage.sqlite.ledger import WritePlace
from pointsman.storage.writer.ledger import LedgerWriter

START = 1_700_000_000_000_000


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    level: int


FORM = SnapshotForm("weights", 1, Weights)


def opened_writer(home: Home, name: str) -> LedgerWriter:
    # What is tested here is not the disk: OFF saves the syncs.
    place = WritePlace(home.database, home.checkpoints, sync="OFF")
    chain = Chain(home.identity.ledger, name)
    opening = Draft("ledger.opened", "open", "", Instant(START), b'{"writer":"test"}')
    rotations = [rotation_draft(each) for each in home.identity.rotations]
    older = home.keys[:-1]
    return LedgerWriter(
        place, chain, home.signing_key(), opening, older_keys=older, rotations=rotations
    )


def draft(number: int, attachments: tuple[bytes, ...] = (), padding: int = 0) -> Draft:
    payload = b'{"n":%d,"text":"%s"}' % (number, b"x" * padding)
    at = Instant(START + number)
    return Draft("decision.turn", f"d-{number}", "t-1", at, payload, attachments)


def special_drafts(home: Home) -> list[Draft]:
    """A snapshot, a decision with two attachments, and bytes that are no text."""
    snapshot = FORM.make(Weights("first", 3), home.identity.ledger, home.signing_key())
    return [
        snapshot_draft(snapshot, Instant(START + 5)),
        draft(1_000_001, (b'{"facts":"\xc3\xa9"}', b"")),
        Draft("attempt", "a-1", "d-1", Instant(START + 6), b"\xff\x00not text", (b"\x80binary",)),
    ]


def fill(home: Home, name: str, drafts: list[Draft]) -> None:
    """Append to a chain and close it, which signs a checkpoint."""
    writer = opened_writer(home, name)
    for start in range(0, len(drafts), 64):
        futures = [writer.append(each) for each in drafts[start : start + 64]]
        for future in futures:
            future.result()
    writer.close()


def make_home(path: Path) -> Home:
    """Make a ledger of 642 entries in three chains, the largest with several checkpoints."""
    home = open_home(path)
    fill(home, "alpha", [draft(number) for number in range(11)])
    fill(home, "cli", [*special_drafts(home), *(draft(number) for number in range(596))])
    fill(home, "serve-1", [*special_drafts(home), *(draft(number) for number in range(26))])
    return home


def make_bundle_home(path: Path) -> Home:
    """Make a ledger whose bundle has about 60 kB: 98 entries in three chains, 8 checkpoints.

    Its signing key was replaced before the last chain began.
    """
    home = open_home(path)
    for start in (0, 20, 40, 60):
        specials = special_drafts(home) if start in (0, 40) else []
        numbers = range(start, start + 16)
        fill(home, "cli", [*specials, *(draft(number, padding=320) for number in numbers)])
    fill(home, "alpha", [draft(number, padding=320) for number in range(11)])
    rotate_signing_key(home, bytes(range(1, 33)), Instant(START + 100))
    fill(home, "web", [*special_drafts(home), *(draft(number, padding=320) for number in range(9))])
    return home
