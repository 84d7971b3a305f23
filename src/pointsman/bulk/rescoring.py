"""Bulk re-scoring: the scores of turns, read from the ledger, counted for patterns again.

After the weight of a signal was changed, or the pattern store was made anew from a copy, the scores
in it are those that today's rules give to the recorded verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from msgspec import UNSET, Struct

from pointsman.audit.ranges import Range
from pointsman.audit.replay import ledger_ranges
from pointsman.bulk.work import BulkKind, BulkResult, value_of
from pointsman.errors import IntegrityFailure
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ONE, Billionths
from pointsman.learning.feedback import FEEDBACK, FEEDBACK_FORM
from pointsman.learning.recorded_runs import SHADOW
from pointsman.learning.shadow_runs import JUDGE_VERDICT_FORM, JUDGED
from pointsman.sessions.envelope import is_event, read_event
from pointsman.sessions.events.session import FeedbackExplicit, FeedbackImplicit
from pointsman.sessions.feedback import RATING_VERDICTS, SIGNAL_VERDICTS, TurnVerdict
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.patterns.patterns import PatternStore

RANGE = 20_000
_SAID = "event.feedback."


class RescoreGiven(Struct, frozen=True):
    """The length of a range; nothing else is to be chosen."""

    length: int = RANGE


class TurnScore(Struct, frozen=True):
    """The score of a turn, or of a shadow run of it, by one recorded verdict.

    A user's word counts for more than a judge's verdict, that for more than a sign in a user's
    acts; then the later one.
    """

    turn_id: str
    score: Billionths
    confidence: Billionths
    is_said: bool
    at: Instant
    chain: str
    seq: int
    entry_id: str
    is_judged: bool = False

    @property
    def rank(self) -> tuple[bool, bool, int, str, int]:
        """The weightier score has the higher rank."""
        return self.is_said, self.is_judged, self.at, self.chain, self.seq


class RescorePart(Struct, frozen=True):
    """The score that counts for each turn of one range, and how many verdicts there were."""

    verdicts: int
    thoughts: tuple[TurnScore, ...]


class _ScoreReader:
    def __init__(self, home: Home, _given: RescoreGiven) -> None:
        self._ledger = LedgerReader(home.database)

    def part(self, each: Range) -> RescorePart:
        told = [
            *self._ledger.entries_in(each.number, each.first, each.end, _SAID),
            *self._ledger.entries_in(each.number, each.first, each.end, JUDGED),
        ]
        entries = sorted(told, key=lambda entry: entry.seq)
        found = [score for entry in entries for score in self._scores(each.chain, entry)]
        return RescorePart(len(found), weightiest_scores(found))

    def _scores(self, chain: str, entry: Entry) -> Iterator[TurnScore]:
        return self._judge_scores(chain, entry) if entry.kind == JUDGED else scores_in(chain, entry)

    def _judge_scores(self, chain: str, entry: Entry) -> Iterator[TurnScore]:
        """Yield a judge's verdict, under the name by which the judged answer is counted."""
        try:
            judged = JUDGE_VERDICT_FORM.read(entry.payload)
        except IntegrityFailure:
            # The entry was changed: that is for `verify` to name.
            return
        about = [
            (each.entry.kind, each.entry.ref) for each in self._ledger.with_id(judged.decision_id)
        ]
        run = judged.decision_id if (SHADOW, entry.ref) in about else entry.ref
        is_said, is_judged = False, True
        place = (entry.at, chain, entry.seq, entry.id)
        yield TurnScore(run, judged.score, ONE, is_said, *place, is_judged)

    def close(self) -> None:
        self._ledger.close()


def weightiest_scores(found: Iterable[TurnScore]) -> tuple[TurnScore, ...]:
    """Return the score that counts for each turn, in the order in which turns were first judged."""
    kept: dict[str, TurnScore] = {}
    for each in found:
        before = kept.get(each.turn_id)
        if before is None or before.rank < each.rank:
            kept[each.turn_id] = each
    return tuple(kept.values())


def scores_in(chain: str, entry: Entry) -> Iterator[TurnScore]:
    """Yield the score in an entry; most entries hold none."""
    try:
        turn, verdict, is_said = _read_verdict(entry)
    except IntegrityFailure:
        # A changed entry is for `verify` to name.
        return
    if turn and verdict is not None:
        values = (verdict.score, verdict.confidence, is_said)
        yield TurnScore(turn, *values, entry.at, chain, entry.seq, entry.id)


def _read_verdict(entry: Entry) -> tuple[str, TurnVerdict | None, bool]:
    if entry.kind == FEEDBACK:
        given = FEEDBACK_FORM.read(entry.payload)
        sure = ONE if given.confidence is UNSET else given.confidence
        return entry.ref, TurnVerdict(given.score, sure), given.sign is UNSET
    if not is_event(entry):
        return "", None, False
    match read_event(entry).payload:
        case FeedbackExplicit(subject_turn_id=turn, rating=rating):
            return turn or "", RATING_VERDICTS[rating], True
        case FeedbackImplicit(subject_turn_id=turn, signal=signal):
            return (
                turn or "",
                next((v for name, v in SIGNAL_VERDICTS.items() if name == signal), None),
                False,
            )
        case _:
            return "", None, False


def _conclude(home: Home, _given: RescoreGiven, parts: Sequence[RescorePart]) -> BulkResult:
    scores = weightiest_scores(each for part in parts for each in part.thoughts)
    counts = {"counted": 0, "unsure": 0, "known": 0, "no_such_turn": 0}
    if home.patterns.exists():
        with closing(PatternStore(home.patterns)) as store:
            for each in scores:
                counts[_update_score(store, each)] += 1
    told = f"{counts['counted']} of {len(scores)} judged turns scored anew"
    value = {"verdicts": sum(each.verdicts for each in parts), "turns": len(scores), **counts}
    return BulkResult(True, told, value_of(value))  # noqa: FBT003 - it either ends or raises


def _update_score(store: PatternStore, each: TurnScore) -> str:
    # The name holds the score, so that the same is counted once and a new one again.
    name = f"{each.entry_id}.{each.score}.{each.confidence}"
    return store.update_score(each.turn_id, each.score, each.confidence, name)


RESCORE = BulkKind(
    "rescore",
    (RescoreGiven, RescorePart),
    lambda home, given: ledger_ranges(home, given.length),
    _ScoreReader,
    _conclude,
)
