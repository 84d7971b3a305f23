"""Bulk re-scoring: what was thought of turns, read from the ledger, counted for patterns again.

After the weight of a signal was changed, or the pattern store was made anew from a copy, the scores
in it are those that today's rules give to what is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from msgspec import UNSET, Struct

from pointsman.audit.ranges import Range
from pointsman.audit.replay import ledger_ranges
from pointsman.bulk.work import Conclusion, Work, value_of
from pointsman.errors import IntegrityFailure
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ONE, Billionths
from pointsman.learning.feedback import FEEDBACK, FEEDBACK_FORM
from pointsman.learning.recorded_runs import SHADOW
from pointsman.learning.shadow_runs import JUDGE_VERDICT_FORM, JUDGED
from pointsman.sessions.envelope import is_event, read_event
from pointsman.sessions.events.feedback import FeedbackExplicit, FeedbackImplicit
from pointsman.sessions.feedback import RATING_VERDICTS, SIGNAL_VERDICTS, TurnVerdict
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.patterns.patterns import PatternStore

RANGE = 20_000
_SAID = "event.feedback."


class RescoreGiven(Struct, frozen=True):
    """Nothing is to be chosen."""

    length: int = RANGE


class Thought(Struct, frozen=True):
    """What was thought of a turn, or of a shadow run of it.

    What people said counts for more than what a judge found, that for more than what was shown;
    then the later.
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
        """What is weightier has the higher rank."""
        return self.is_said, self.is_judged, self.at, self.chain, self.seq


class RescorePart(Struct, frozen=True):
    """What counts of the verdicts in one range, a turn each, and how many there were."""

    verdicts: int
    thoughts: tuple[Thought, ...]


class _Reading:
    def __init__(self, home: Home, _given: RescoreGiven) -> None:
        self._ledger = LedgerReader(home.database)

    def part(self, each: Range) -> RescorePart:
        told = [
            *self._ledger.entries_in(each.number, each.first, each.end, _SAID),
            *self._ledger.entries_in(each.number, each.first, each.end, JUDGED),
        ]
        entries = sorted(told, key=lambda entry: entry.seq)
        found = [thought for entry in entries for thought in self._thoughts(each.chain, entry)]
        return RescorePart(len(found), weightiest(found))

    def _thoughts(self, chain: str, entry: Entry) -> Iterator[Thought]:
        return self._found(chain, entry) if entry.kind == JUDGED else thoughts_of(chain, entry)

    def _found(self, chain: str, entry: Entry) -> Iterator[Thought]:
        """Give what a judge found, under the name by which the answer it looked at is counted."""
        try:
            judged = JUDGE_VERDICT_FORM.read(entry.payload)
        except IntegrityFailure:
            # Somebody changed it: that is for `verify` to name.
            return
        about = [
            (each.entry.kind, each.entry.ref) for each in self._ledger.with_id(judged.decision_id)
        ]
        run = judged.decision_id if (SHADOW, entry.ref) in about else entry.ref
        is_said, is_judged = False, True
        place = (entry.at, chain, entry.seq, entry.id)
        yield Thought(run, judged.score, ONE, is_said, *place, is_judged)

    def close(self) -> None:
        self._ledger.close()


def weightiest(found: Iterable[Thought]) -> tuple[Thought, ...]:
    """Keep for each turn what counts, in the order in which turns were first judged."""
    kept: dict[str, Thought] = {}
    for each in found:
        before = kept.get(each.turn_id)
        if before is None or before.rank < each.rank:
            kept[each.turn_id] = each
    return tuple(kept.values())


def thoughts_of(chain: str, entry: Entry) -> Iterator[Thought]:
    """Give what an entry says was thought of a turn; most entries say nothing of it."""
    try:
        turn, verdict, is_said = _judged(entry)
    except IntegrityFailure:
        # An entry that somebody changed is for `verify` to name.
        return
    if turn and verdict is not None:
        values = (verdict.score, verdict.confidence, is_said)
        yield Thought(turn, *values, entry.at, chain, entry.seq, entry.id)


def _judged(entry: Entry) -> tuple[str, TurnVerdict | None, bool]:
    if entry.kind == FEEDBACK:
        given = FEEDBACK_FORM.read(entry.payload)
        sure = ONE if given.confidence is UNSET else given.confidence
        return entry.ref, TurnVerdict(given.score, sure), True
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


def _concluded(home: Home, _given: RescoreGiven, parts: Sequence[RescorePart]) -> Conclusion:
    thoughts = weightiest(each for part in parts for each in part.thoughts)
    counts = {"counted": 0, "unsure": 0, "known": 0, "no_such_turn": 0}
    if home.patterns.exists():
        with closing(PatternStore(home.patterns)) as store:
            for each in thoughts:
                counts[_rescored(store, each)] += 1
    told = f"{counts['counted']} of {len(thoughts)} judged turns scored anew"
    value = {"verdicts": sum(each.verdicts for each in parts), "turns": len(thoughts), **counts}
    return Conclusion(True, told, value_of(value))  # noqa: FBT003 - it either ends or raises


def _rescored(store: PatternStore, each: Thought) -> str:
    # The name holds what is counted, so that the same is counted once and a new score again.
    name = f"{each.entry_id}.{each.score}.{each.confidence}"
    return store.update_score(each.turn_id, each.score, each.confidence, name)


RESCORE = Work(
    "rescore",
    (RescoreGiven, RescorePart),
    lambda home, given: ledger_ranges(home, given.length),
    _Reading,
    _concluded,
)
