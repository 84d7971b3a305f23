"""The nearest fingerprints, found by PostgreSQL with pgvector; equal to `PatternIndex.nearest`.

The server compares texts, which are many and long; how alike structures are, which are few, is
reckoned here, by the rules that everything else uses. No approximate index takes part.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from pointsman.kernel.number import ZERO, Billionths
from pointsman.storage.connection import Connection, Row
from pointsman.storage.stores.patterns.index import PatternIndex
from pointsman.storage.stores.patterns.look import Look
from pointsman.turns.learning.fingerprint import ALPHA, DIMENSIONS, Fingerprint, blend, cosine_of

MARGIN: Final = 4
"""How far, in billionths, the server's estimate of a likeness may be off: a rounding of the cosine
and one of the whole on both sides of a comparison come to less than two."""

LOADED_AT_ONCE: Final = 1_024

_BODY: Final = msgspec.json.Decoder(Fingerprint)

_HOME: Final = """
SELECT quote_ident(n.nspname) FROM pg_extension AS e
JOIN pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""
_STRUCTURES: Final = "SELECT number, body FROM structures WHERE number > ? ORDER BY number"

_NEAREST: Final = """
WITH alike AS MATERIALIZED (
    SELECT * FROM unnest(CAST(:numbers AS BIGINT[]), CAST(:likenesses AS BIGINT[]))
        AS a (structure, likeness)
), compared AS MATERIALIZED (
    SELECT l.fingerprint, l.square, a.likeness,
        CASE WHEN l.look IS NOT NULL
            THEN -(l.look OPERATOR({home}.<#>) CAST(:look AS {home}.halfvec)) END AS product
    FROM looks AS l JOIN alike AS a ON a.structure = l.structure
), estimated AS MATERIALIZED (
    SELECT *, CASE WHEN product IS NULL THEN likeness ELSE
        :text_part * greatest(product, 0) / sqrt(greatest(square * :square, 1))
        + (1 - :text_part / 1e9) * likeness END AS estimate
    FROM compared
)
SELECT fingerprint, likeness, product, square FROM estimated
WHERE estimate >= coalesce(
    (SELECT estimate FROM estimated ORDER BY estimate DESC OFFSET :k - 1 LIMIT 1), 0) - :margin
"""
# Likenesses are in billionths; so is the estimate of one, but as a float that is not rounded.


class VectorSearch:
    """Searches the looks of one pattern store."""

    def __init__(self, connection: Connection) -> None:
        self._structures = PatternIndex()
        self._numbers: dict[str, int] = {}
        self._last = 0
        # Tables are looked for in the store's schema only, and the extension lies elsewhere.
        self._nearest = _NEAREST.format(home=connection.execute(_HOME).get)
        self._learn(connection)

    def nearest(
        self, connection: Connection, fingerprint: Fingerprint, vector: bytes, k: int
    ) -> list[tuple[str, Billionths]]:
        """Return the k fingerprints most like this one, the most similar first, then by id."""
        self._learn(connection)
        if k < 1 or not len(self._structures):
            return []
        numbers = [self._numbers[name] for name in self._structures.names()]
        likenesses = self._structures.similarities(fingerprint, b"").tolist()
        letters = [*memoryview(vector).cast("b")] if len(vector) == DIMENSIONS else None
        square = sum(each * each for each in letters or ())
        bound = {
            "numbers": _array(numbers),
            "likenesses": _array(likenesses),
            "look": None if letters is None else msgspec.json.encode(letters).decode(),
            "square": square,
            "text_part": float(ALPHA),
            "k": k,
            "margin": MARGIN,
        }
        rows = connection.execute(self._nearest, bound).fetchall()
        found = sorted((-_likeness(row, square), str(row[0])) for row in rows)
        return [(name, Billionths(-negative)) for negative, name in found[:k]]

    def _learn(self, connection: Connection) -> None:
        """Read the structures that were added since; none is ever changed or removed."""
        rows = iter(connection.execute(_STRUCTURES, (self._last,)))
        for part in iter(lambda: [*islice(rows, LOADED_AT_ONCE)], []):
            looks = [Look.of(_BODY.decode(body), b"") for _, body in part]
            self._structures.add(looks)
            self._numbers |= {
                look.id: int(number) for look, (number, _) in zip(looks, part, strict=True)
            }
            self._last = int(part[-1][0])


def _likeness(row: Row, square: int) -> Billionths:
    """Return how alike a row is exactly, as `turns.fingerprint.likeness` does it."""
    _, structural, product, own = row
    if product is None:
        return Billionths(structural)
    cosine = max(ZERO, cosine_of(int(product), square, int(own)))
    return blend(ALPHA, cosine, Billionths(structural))


def _array(numbers: list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
