"""What the pattern store holds, read into memory: all of it, or what others changed since."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from pointsman.errors import IntegrityFailure
from pointsman.storage.connection import Connection
from pointsman.storage.stores.patterns.look import SQL, Changed, Look
from pointsman.turns.learning.fingerprint import Fingerprint

if TYPE_CHECKING:
    from pointsman.storage.stores.patterns.calibration import Experience
    from pointsman.storage.stores.patterns.index import PatternIndex
    from pointsman.storage.stores.patterns.vector_search import VectorSearch

LOADED_AT_ONCE = 1_024

_BODY = msgspec.json.Decoder(Fingerprint)


def load_index(connection: Connection) -> PatternIndex:
    """Return an index of all fingerprints as they are now."""
    # Imported here: numpy takes longer to load than most commands take, and few compare anything.
    from pointsman.storage.stores.patterns.index import PatternIndex  # noqa: PLC0415 - see above

    index = PatternIndex()
    rows = connection.execute(SQL["all_fingerprints"])
    for part in iter(lambda: [*islice(rows, LOADED_AT_ONCE)], []):
        index.add([_look(*row) for row in part])
    return index


def caught_up(connection: Connection, index: PatternIndex, since: int) -> PatternIndex:
    """Do to the index what others did to the table; where that is not known, read it anew."""
    changed = Changed.since(connection, since)
    if changed is None:
        return load_index(connection)
    rows = connection.execute(SQL["fingerprints_of"], (changed.names_json,))
    index.add([_look(*row) for row in rows])
    for name in changed.gone:
        index.remove(name)
    return index


def vector_search(connection: Connection) -> VectorSearch | None:
    """Return the search of a database that can compare vectors itself; None where it cannot."""
    if not connection.execute(SQL["has_vectors"]).get:
        return None
    # Imported here for the same reason as above.
    from pointsman.storage.stores.patterns.vector_search import VectorSearch  # noqa: PLC0415 - see above

    return VectorSearch(connection)


def blank_experience(maker: bytes) -> Experience:
    """Return what the method `evidence` knows before it has read anything."""
    # Likewise.
    from pointsman.storage.stores.patterns.calibration import Experience  # noqa: PLC0415 - see above

    return Experience(maker)


def _look(name: str, body: bytes, vector: bytes) -> Look:
    look = Look.of(read_fingerprint(body), vector)
    if look.id != name:
        raise IntegrityFailure(f"the pattern `{name}` is not what was recorded")
    return look


def read_fingerprint(body: bytes) -> Fingerprint:
    """Read a stored fingerprint."""
    try:
        return _BODY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise IntegrityFailure(f"a stored pattern cannot be read: {error}") from error
