"""One transaction on the pattern store: counting, scoring, importing, forgetting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import astuple

from pointsman.kernel.instant import DAY, Instant
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.storage.connection import Connection
from pointsman.storage.stores.patterns.look import SQL, Changed, Look
from pointsman.turns.learning.fingerprint import FINGERPRINT_FORM, Fingerprint

if TYPE_CHECKING:
    from pointsman.storage.stores.patterns.index import PatternIndex


class Caps(Struct, frozen=True):
    """How many fingerprints are kept, and for how long after a turn last looked like them."""

    soft: int = 5_000
    hard: int = 10_000
    age_days: int = 180


DEFAULT_CAPS = Caps()

EvictionTrigger = Literal["age_trim", "hard_cap_evict"]


class Evicted(Struct, frozen=True):
    """The evicted rows: `entries_evicted` counts fingerprints."""

    trigger: EvictionTrigger
    fingerprints_before: int
    fingerprints_after: int
    outcomes_before: int
    outcomes_after: int
    entries_evicted: int
    oldest_evicted_age_days: int


class Recorded(Struct, frozen=True):
    """What recording a turn did; `is_new_turn` is False where it was recorded before."""

    fingerprint_id: str
    is_new_turn: bool
    is_new_fingerprint: bool
    sample_size_before: int
    sample_size_after: int
    is_over_soft_cap: bool
    evicted: tuple[Evicted, ...]


class Imported(Struct, frozen=True):
    """What an import did; rows imported before are skipped."""

    added: int
    skipped: int
    is_over_soft_cap: bool
    evicted: tuple[Evicted, ...]


ScoreUpdate = Literal["counted", "unsure", "known", "no_such_turn"]


class ImportRow(Struct, frozen=True):
    """An outcome from elsewhere; the same `id` is imported once."""

    id: str
    fingerprint: Fingerprint
    vector: bytes
    model: str
    success: Billionths | None
    cost_microusd: MicroUsd
    sample_size: int


class Sample(Struct, frozen=True):
    """The amounts added to an outcome."""

    model: str
    samples: int
    score_sum: int
    score_count: int
    cost_microusd: int
    latency_ms: int
    pricing_version: str
    at: Instant


class PatternVerdict(Struct, frozen=True):
    """The rating of a turn."""

    turn: str
    score: Billionths
    eval: str
    is_sure: bool


class Writing:
    """One transaction, and the fingerprints it changed."""

    def __init__(self, connection: Connection, caps: Caps) -> None:
        self._connection = connection
        self._caps = caps
        self._added: list[Look] = []
        self._deleted: list[str] = []
        self._scored: list[str] = []

    @property
    def changes(self) -> Changed:
        """The fingerprints counted on, and those forgotten."""
        counted = dict.fromkeys([*(look.id for look in self._added), *self._scored])
        for name in self._deleted:
            counted.pop(name, None)
        return Changed([*counted], tuple(self._deleted))

    def record(self, look: Look, sample: Sample, turn_id: str, origin: str = "") -> Recorded:
        """Count a turn, unless it was counted before."""
        before = self._samples(look.id, sample.model)
        is_new_turn = self._get("find_turn", turn_id) is None
        is_new = False
        if is_new_turn:
            is_new = self._count(look, sample)
            self._run("add_turn", turn_id, look.id, sample.model, sample.at)
            if origin:
                self._run("add_origin", turn_id, origin)
        evicted = self._evict_surplus(sample.at)
        return Recorded(
            fingerprint_id=look.id,
            is_new_turn=is_new_turn,
            is_new_fingerprint=is_new,
            sample_size_before=before,
            sample_size_after=before + is_new_turn,
            is_over_soft_cap=self._total("count_fingerprints") > self._caps.soft,
            evicted=evicted,
        )

    def score(self, verdict: PatternVerdict) -> ScoreUpdate:
        """Put a verdict in the place of the one before it."""
        found = self._get("find_turn", verdict.turn)
        if found is None:
            return "no_such_turn"
        self._run("add_eval", verdict.eval, verdict.turn)
        if self._connection.changes() == 0:
            return "known"
        if not verdict.is_sure:
            return "unsure"
        name, model, old = found
        moved = verdict.score - (old or 0)
        self._run("move_score", moved, 1 if old is None else 0, name, model)
        self._run("set_turn_score", verdict.score, verdict.turn)
        self._scored.append(name)
        return "counted"

    def import_rows(self, rows: Sequence[ImportRow], at: Instant) -> Imported:
        """Count rows from elsewhere."""
        added = 0
        for row in rows:
            look = Look.of(row.fingerprint, row.vector)
            if self._get("is_imported", row.id) is None:
                self._count(look, _import_sample(row, at))
                self._run("add_import", row.id, look.id)
                added += 1
        evicted = self._evict_surplus(at)
        is_over = self._total("count_fingerprints") > self._caps.soft
        return Imported(added, len(rows) - added, is_over, evicted)

    def put_tokens(self, name: str, letters: bytes, tokens: bytes) -> bool:
        """Set the tokens of a fingerprint that has these letters."""
        found = self._connection.execute(SQL["letters_of"], (name,)).fetchone()
        if not letters or found is None or bytes(found[0]) != letters:
            return False
        self._run("add_tokens", name, tokens)
        self._run("touch_fingerprint", name)
        self._scored.append(name)
        return True

    def delete(self, names: Sequence[str]) -> None:
        """Forget fingerprints."""
        self._connection.executemany(SQL["delete_fingerprint"], [(name,) for name in names])
        self._deleted += names

    def forget_turns(self, turn_ids: Iterable[str]) -> int:
        """Forget the fingerprints that turns were counted for; return how many."""
        found = [self._get("find_turn", each) for each in turn_ids]
        names = [*dict.fromkeys(row[0] for row in found if row is not None)]
        self.delete(names)
        return len(names)

    def follow(self, index: PatternIndex) -> None:
        """Apply the changes of the table to the index."""
        index.add(self._added)
        for name in self._deleted:
            index.remove(name)

    def _count(self, look: Look, sample: Sample) -> bool:
        """Add a sample; gives whether its fingerprint is new."""
        is_new = self._get("is_known", look.id) is None
        body = FINGERPRINT_FORM.encode(look.fingerprint)
        self._run("add_fingerprint", look.id, body, look.vector, sample.samples, sample.at)
        self._run("add_outcome", look.id, *astuple(sample))
        if look.tokens:
            self._run("add_tokens", look.id, look.tokens)
        self._added.append(look)
        return is_new

    def _evict_surplus(self, at: Instant) -> tuple[Evicted, ...]:
        """Delete outdated patterns, then the surplus: oldest first, then least sampled."""
        oldest = at - self._caps.age_days * DAY
        self._run("delete_turns", oldest)
        aged = self._pairs("aged", oldest)
        evicted = [self._evict("age_trim", aged, at)] if aged else []
        surplus = self._total("count_fingerprints") - self._caps.hard
        if surplus > 0:
            evicted.append(self._evict("hard_cap_evict", self._pairs("oldest", surplus), at))
        return tuple(evicted)

    def _evict(
        self, trigger: EvictionTrigger, found: Sequence[tuple[str, int]], at: Instant
    ) -> Evicted:
        before = self._total("count_fingerprints"), self._total("count_outcomes")
        self.delete([name for name, _ in found])
        after = self._total("count_fingerprints"), self._total("count_outcomes")
        age = (at - found[0][1]) // DAY
        return Evicted(trigger, before[0], after[0], before[1], after[1], len(found), age)

    def _samples(self, name: str, model: str) -> int:
        row = self._get("outcome_samples", name, model)
        return 0 if row is None else int(row[0])

    def _total(self, query: str) -> int:
        return int(self._connection.execute(SQL[query]).get)

    def _pairs(self, query: str, value: int) -> list[tuple[str, int]]:
        return [(str(name), int(at)) for name, at in self._connection.execute(SQL[query], (value,))]

    def _get(self, query: str, *values: str) -> tuple[str, str, int | None] | None:
        return self._connection.execute(SQL[query], values).fetchone()

    def _run(self, query: str, *values: str | bytes | int) -> None:
        self._connection.execute(SQL[query], values)


def _import_sample(row: ImportRow, at: Instant) -> Sample:
    count = row.sample_size
    judged = 0 if row.success is None else count
    return Sample(
        model=row.model,
        samples=count,
        score_sum=judged * (row.success or 0),
        score_count=judged,
        cost_microusd=count * row.cost_microusd,
        latency_ms=0,
        pricing_version="",
        at=at,
    )
