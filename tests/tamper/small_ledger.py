"""A small real ledger: three chains, snapshots, attachments, several checkpoints."""

from msgspec import Struct

from pointsman.kernel.entry import Chain, Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.snapshot import SnapshotForm, snapshot_draft
from pointsman.storage.home import Home, open_home
from pointsman.storage.sqlite.ledger import LedgerWriter, Place

START = 1_700_000_000_000_000


class Weights(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    level: int


FORM = SnapshotForm("weights", 1, Weights)


def place_of(home: Home) -> Place:
    # What is tested here is not the disk: OFF saves the syncs.
    return Place(home.database, home.checkpoints, sync="OFF")


def opened_writer(home: Home, name: str) -> LedgerWriter:
    opening = Draft("ledger.opened", "open", "", Instant(START), b'{"writer":"test"}')
    return LedgerWriter(
        place_of(home), Chain(home.identity.ledger, name), home.signing_key(), opening
    )


def draft(number: int, attachments=()):
    payload = b'{"n":%d}' % number
    return Draft(
        "decision.turn", f"d-{number}", "t-1", Instant(START + number), payload, attachments
    )


def special_drafts(home: Home) -> list[Draft]:
    snapshot = FORM.make(Weights("first", 3), home.identity.ledger, home.signing_key())
    return [
        snapshot_draft(snapshot, Instant(START + 5)),
        draft(1_000_001, (b'{"facts":"\xc3\xa9"}', b"")),
        Draft("attempt", "a-1", "d-1", Instant(START + 6), b"\xff\x00not text", (b"\x80binary",)),
    ]


def fill(home: Home, name: str, count: int, *, with_specials: bool) -> None:
    """Append this many entries to a chain; a small group each, so that checkpoints are several."""
    writer = opened_writer(home, name)
    specials = special_drafts(home) if with_specials else []
    drafts = [*specials, *(draft(number) for number in range(count - 1 - len(specials)))]
    for start in range(0, len(drafts), 64):
        futures = [writer.append(each) for each in drafts[start : start + 64]]
        for future in futures:
            future.result()
    writer.close()


def make_home(path, sizes=(("alpha", 12), ("cli", 600), ("serve-1", 30))) -> Home:
    home = open_home(path)
    for name, count in sizes:
        fill(home, name, count, with_specials=name != "alpha")
    return home
