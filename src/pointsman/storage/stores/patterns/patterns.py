"""The pattern store: fingerprints of turns, with their model, cost and outcome.

It only remembers; `turns` decides. Its file can be deleted at any time:
every decision has the rows it looked at in its own facts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

import apsw
from msgspec import Struct

from pointsman.errors import (
    InputError,
    LedgerError,
    LedgerUnavailable,
    NotFound,
    PointsmanError,
)
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ONE, ZERO, Billionths, MicroUsd
from pointsman.storage.connection import Connection
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import in_transaction
from pointsman.storage.sqlite.place import place_of
from pointsman.storage.stores.patterns.loading import (
    blank_experience,
    caught_up,
    load_index,
    vector_search,
)
from pointsman.storage.stores.patterns.look import SQL, Changed, Look, halves
from pointsman.storage.stores.patterns.outcomes import (
    ModelTotal,
    Pattern,
    Summary,
    model_total,
    outcomes_of,
    pattern_row,
    summary,
)
from pointsman.storage.stores.patterns.renewal import Renewal
from pointsman.storage.stores.patterns.writing import (
    DEFAULT_CAPS,
    Caps,
    Imported,
    ImportRow,
    PatternVerdict,
    Recorded,
    Sample,
    ScoreUpdate,
    Writing,
)
from pointsman.turns.learning.evidence import Evidence
from pointsman.turns.learning.evidence_look import STATIC
from pointsman.turns.learning.fingerprint import Fingerprint
from pointsman.turns.learning.pattern import ExploringSoFar, Target
from pointsman.turns.learning.pattern_row import PatternRow, nearest_first

if TYPE_CHECKING:
    from pointsman.storage.stores.patterns.calibration import Experience
    from pointsman.storage.stores.patterns.index import PatternIndex
    from pointsman.storage.stores.patterns.vector_search import VectorSearch

T = TypeVar("T")

Origin = Literal["explored", "shadow"]

FEW_LOOKS = 512
"""So many looks are read at once, in some 20 ms; more are read in the background."""

MIN_EVAL_CONFIDENCE = Billionths(500_000_000)
"""Verdicts that are less sure than this are remembered, but count for nothing."""


class FoundRows(Struct, frozen=True):
    """The nearest rows, or none and the reason why they could not be read."""

    rows: tuple[PatternRow, ...]
    reason: str = ""


class FoundEvidence(Struct, frozen=True):
    """The evidence about a turn, or none and the reason why it could not be read."""

    evidence: Evidence | None
    reason: str = ""


class PatternStore:
    """The patterns of one home. Opened at its first use; may be shared by threads.

    `maker` is who makes the token numbers that the method `evidence` compares. With `in_background`
    no reader waits until much was read or a threshold was found out: a thread does that.
    """

    def __init__(
        self,
        where: Where,
        caps: Caps = DEFAULT_CAPS,
        maker: bytes = STATIC,
        *,
        in_background: bool = False,
    ) -> None:
        self._place = place_of(where)
        self._caps = caps
        self._maker = maker
        self._using = threading.Lock()
        self._connection: Connection | None = None
        self._search: VectorSearch | None = None
        self._index: PatternIndex | None = None
        self._version = 0
        self._experience: Experience | None = None
        self._experienced = 0
        self._in_background = in_background
        self._renewal: Renewal | None = None

    def close(self) -> None:
        """Let go of the database."""
        self.wait_for_renewal()
        with self._using:
            self._drop()

    def wait_for_renewal(self) -> None:
        """Wait for the thread that renews the experience."""
        if self._renewal is not None:
            self._renewal.wait()

    def record(  # noqa: PLR0913 - each is a column of its own
        self,
        fingerprint: Fingerprint,
        vector: bytes,
        *,
        model: str,
        turn_id: str,
        cost_microusd: MicroUsd,
        latency_ms: int,
        pricing_version: str,
        at: Instant,
        origin: Origin | None = None,
    ) -> Recorded:
        """Count a turn for its fingerprint; a turn counts once.

        `origin` marks one that was not served as the policy says: explored, or run in the shadow.
        """
        sample = Sample(model, 1, 0, 0, cost_microusd, latency_ms, pricing_version, at)
        look = Look.of(fingerprint, vector)
        return self._write(lambda writing: writing.record(look, sample, turn_id, origin or ""))

    def update_score(
        self, turn_id: str, score: Billionths, confidence: Billionths, eval_id: str
    ) -> ScoreUpdate:
        """Count a verdict on a turn in place of the one before it; a verdict counts once."""
        for name, value in (("score", score), ("confidence", confidence)):
            if not ZERO <= value <= ONE:
                raise InputError(f"the {name} of `{eval_id}` is not between 0 and 1")
        is_sure = confidence >= MIN_EVAL_CONFIDENCE
        verdict = PatternVerdict(turn_id, score, eval_id, is_sure)
        return self._write(lambda writing: writing.score(verdict))

    def import_rows(self, rows: Sequence[ImportRow], at: Instant) -> Imported:
        """Count outcomes from elsewhere, all or none of them."""
        return self._write(lambda writing: writing.import_rows(rows, at))

    def put_tokens(self, name: str, letters: bytes, tokens: bytes) -> bool:
        """Return a look tokens of another maker; tells whether these are the letters it has."""
        return self._write(lambda writing: writing.put_tokens(name, letters, tokens))

    def without_tokens(self) -> list[tuple[str, str]]:
        """Return looks that have no tokens of the maker in force, with each turn they come from."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(SQL["without_tokens"], (self._maker,))
            return [(str(name), str(turn)) for name, turn in rows]

    def count_without_tokens(self) -> int:
        """Count the looks of texts that have no tokens of the maker in force."""
        with self._reading() as connection:
            if connection is None:
                return 0
            return int(connection.execute(SQL["count_without_tokens"], (self._maker,)).get)

    def delete(self, name: str) -> str:
        """Forget the fingerprint whose id is or begins like this, and all counted for it."""
        found = self._one_like(name).fingerprint_id
        self._write(lambda writing: writing.delete([found]))
        return found

    def forget_turns(self, turn_ids: Iterable[str]) -> int:
        """Forget the looks these turns were counted for, with all their counts; return how many.

        A look is made of the words of a turn: while it is kept, it says something of them.
        """
        if not self._place.exists():
            return 0
        count = self._write(lambda writing: writing.forget_turns(turn_ids))
        with self._using, self._translate_errors("written"):
            self._open().scrub()
        return count

    def nearest(self, fingerprint: Fingerprint, vector: bytes, k: int) -> tuple[PatternRow, ...]:
        """Return the k nearest rows of outcomes in their order; none where they cannot be read."""
        return self.find_rows(fingerprint, vector, k).rows

    def has_rows(self) -> bool:
        """Tell whether anything was learned; where that cannot be read, a look will say why."""
        try:
            with self._reading() as connection:
                return connection is not None and bool(
                    connection.execute(SQL["has_fingerprints"]).get
                )
        except PointsmanError:
            return True

    def find_rows(self, fingerprint: Fingerprint, vector: bytes, k: int) -> FoundRows:
        """Return the k nearest rows, or why there are none. Never raises: a turn must not fail."""
        try:
            with self._reading() as connection:
                if connection is None:
                    return FoundRows((), "no pattern is recorded yet")
                return FoundRows(self._rows(connection, fingerprint, vector, k))
        except PointsmanError as error:
            return FoundRows((), f"the pattern store cannot be read: {error}")

    def evidence(
        self, fingerprint: Fingerprint, vector: bytes, k: int = 0, target: Target | None = None
    ) -> FoundEvidence:
        """Return the evidence about a turn, or the reason for none. Never raises: no turn may fail.

        A `k` of 0 weighs as many looks as the method wants.
        """
        try:
            with self._reading() as connection:
                if connection is None:
                    return FoundEvidence(None, "no pattern is recorded yet")
                known = self._experience_at_hand(connection)
                if known is None:
                    return FoundEvidence(None, "what was learned is still being read")
                found = known.evidence(
                    connection,
                    (fingerprint, vector),
                    k,
                    target,
                    may_calibrate=not self._in_background,
                )
                if known.wanted and self._in_background:
                    self._renew(connection)
                return FoundEvidence(found)
        except PointsmanError as error:
            return FoundEvidence(None, f"the pattern store cannot be read: {error}")

    @contextmanager
    def experience(self) -> Iterator[tuple[Experience, Connection] | None]:
        """Return what the method `evidence` knows, for a report; None while nothing is recorded."""
        with self._reading() as connection:
            if connection is None:
                yield None
            else:
                yield self._experience_now(connection), connection

    def origins(self) -> dict[str, int]:
        """Count the turns that were explored, or run in the shadow."""
        with self._reading() as connection:
            if connection is None:
                return {}
            return {str(name): int(n) for name, n in connection.execute(SQL["count_origins"])}

    def exploring_so_far(self, since: Instant) -> ExploringSoFar | None:
        """Count how often each model was tried, and about what exploring cost since an instant.

        None where that cannot be read: nothing is explored then. A turn counts with the mean cost
        of its model.
        """
        try:
            with self._reading() as connection:
                if connection is None:
                    return ExploringSoFar({}, MicroUsd(0))
                totals = [model_total(row) for row in connection.execute(SQL["per_model"])]
                costs = {each.model: each.mean_cost_microusd for each in totals}
                explored = connection.execute(SQL["explored_since"], (since,))
                spent = sum(costs.get(str(model), 0) * int(count) for model, count in explored)
        except PointsmanError:
            return None
        return ExploringSoFar({each.model: each.samples for each in totals}, MicroUsd(spent))

    def summaries(self, limit: int = 100) -> list[Summary]:
        """Return fingerprints, the most lately seen first."""
        with self._reading() as connection:
            if connection is None:
                return []
            return [summary(row) for row in connection.execute(SQL["list_fingerprints"], (limit,))]

    def show(self, name: str) -> Pattern:
        """Return the fingerprint whose id is or begins like this, with its outcomes."""
        one = self._one_like(name)
        with self._reading() as connection:
            found = [] if connection is None else outcomes_of(connection, [one.fingerprint_id])
        return Pattern(one, tuple(outcome for _, outcome in found))

    def report(self) -> list[ModelTotal]:
        """Return the outcomes of each model, by its name."""
        with self._reading() as connection:
            if connection is None:
                return []
            return [model_total(row) for row in connection.execute(SQL["per_model"])]

    def _rows(
        self, connection: Connection, fingerprint: Fingerprint, vector: bytes, k: int
    ) -> tuple[PatternRow, ...]:
        # Each fingerprint has a row, so the k nearest rows belong to the k nearest fingerprints.
        letters = halves(vector)[0]
        if self._search is not None:
            alike = dict(self._search.nearest(connection, fingerprint, letters, k))
        else:
            alike = dict(self._in_step(connection).nearest(fingerprint, letters, k))
        found = outcomes_of(connection, [*alike])
        return nearest_first(pattern_row(name, alike[name], outcome) for name, outcome in found)[:k]

    def _in_step(self, connection: Connection) -> PatternIndex:
        """Return the index as the table is now, also where another process has written to it."""
        version = connection.execute(SQL["version"]).get
        index, self._index = self._index, None
        if index is None or index.is_worn:
            index = load_index(connection)
        elif version != self._version:
            index = caught_up(connection, index, self._version)
        self._index, self._version = index, version
        return index

    def _experience_now(self, connection: Connection) -> Experience:
        """Return the experience in the tables, also where another process has written."""
        version = connection.execute(SQL["version"]).get
        known, self._experience = self._experience, None
        if known is None:
            known = blank_experience(self._maker)
            known.refresh(connection)
        elif version != self._experienced:
            changed = Changed.since(connection, self._experienced)
            known.refresh(connection, changed)
        self._experience, self._experienced = known, version
        return known

    def _experience_at_hand(self, connection: Connection) -> Experience | None:
        """Return the experience without a long wait: in the background it may be a moment old."""
        if not self._in_background:
            return self._experience_now(connection)
        if self._experience is None and self._is_small(connection):
            return self._experience_now(connection)
        if self._experience is None or connection.execute(SQL["version"]).get != self._experienced:
            self._renew(connection)
        return self._experience

    def _is_small(self, connection: Connection) -> bool:
        return int(connection.execute(SQL["count_fingerprints"]).get) <= FEW_LOOKS

    def _renew(self, connection: Connection) -> None:
        """Have a thread bring the experience up to date; later writes are news again."""
        if self._renewal is None:
            self._renewal = Renewal(
                lambda: self._place.lasting("patterns.sql", sync="NORMAL"),
                lambda: blank_experience(self._maker),
            )
        version = connection.execute(SQL["version"]).get

        def take_over(renewed: Experience) -> Experience | None:
            with self._using:
                old, self._experience = self._experience, renewed
                self._experienced = version
            return old

        self._renewal.start(self._experience, take_over)

    def _one_like(self, name: str) -> Summary:
        begins = name if name.startswith("sha256:") else f"sha256:{name}"
        with self._reading() as connection:
            found = []
            if connection is not None:
                found = [*connection.execute(SQL["fingerprints_like"], (begins, f"{begins}g"))]
        if not found:
            raise NotFound(f"no pattern is recorded as `{name}`")
        if len(found) > 1:
            raise InputError(f"several patterns begin with `{name}`", hint="give more of the id")
        return summary(found[0])

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """Return the connection, or None while nothing was ever recorded."""
        with self._using, self._translate_errors("read"):
            yield self._open() if self._connection or self._place.exists() else None

    def _write(self, work: Callable[[Writing], T]) -> T:
        with self._using, self._translate_errors("written"):
            connection = self._open()
            writing = Writing(connection, self._caps)
            done: list[T] = []
            # Whatever goes wrong from here on, the index is built anew rather than out of step.
            index, self._index = self._index, None
            known, self._experience = self._experience, None
            in_transaction(connection, lambda: done.append(work(writing)))
            if index is not None:
                writing.follow(index)
                self._index = index
            if known is not None:
                known.refresh(connection, writing.changes)
                self._experience = known
        return done[0]

    @contextmanager
    def _translate_errors(self, done: str) -> Iterator[None]:
        """Turn a failure into an error that says what to do, and start afresh after it."""
        try:
            yield
        except (apsw.Error, LedgerError, OSError) as error:
            self._drop()
            raise LedgerUnavailable(
                f"the pattern store cannot be {done} now: {error}",
                where=str(self._place),
                hint="if it is damaged, move it away: a new one is begun",
            ) from error
        except PointsmanError:
            self._drop()
            raise

    def _open(self) -> Connection:
        if self._connection is None:
            # Losing the last turns to a power cut loses a little evidence, and no decision.
            connection = self._place.lasting("patterns.sql", sync="NORMAL")
            connection.execute(SQL["prepare"])
            self._search = vector_search(connection)
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        self._index = None
        self._search = None
        self._experience = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
