"""The history of recorded turns: the runs on each model, their tokens, time, cost and verdicts.

Read leniently, for nothing is proved from it: an entry that was changed is for `verify` to name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.audit.recorded_turns import TURN
from pointsman.kernel.entry import Entry
from pointsman.kernel.number import SCALE
from pointsman.kernel.record import DECISION, OUTCOME
from pointsman.storage.stores.entries import LedgerReader

SHADOW: Final = f"{TURN}.shadow"
_VERDICTS: Final = {"event.turn.judged": 1, "event.feedback.given": 2}
"""A user's word counts for more than a judge's verdict, then the later one."""

_PER_MILLE: Final = SCALE // 1000

Tokens = tuple[int, int, int, int]
"""Of one run: plain input, input read from a cache and written to one, output."""


class ModelRun(Struct, frozen=True):
    """All calls under one decision: their use, their end, and the score of the answer.

    `score` is in thousandths. A run whose last call failed is not answered. A run in the shadow
    was paid for, too, but answered no caller.
    """

    model: str
    tokens: Tokens
    cost_microusd: int | None
    elapsed_ms: int
    is_answered: bool
    is_shadow: bool = False
    score: int | None = None


class _Spent(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost_microusd: int | None = None


class _End(Struct):
    model: str = ""
    elapsed_us: int = 0
    spent: _Spent | None = None


class _Ended(Struct):
    status: str = ""
    detail: Raw = Raw(b"{}")


class _Verdict(Struct):
    decision_id: str = ""
    score: int = 0


_ENDED: Final = msgspec.json.Decoder(_Ended)
_END: Final = msgspec.json.Decoder(_End)
_VERDICT: Final = msgspec.json.Decoder(_Verdict)


class _Read:
    """Everything that was read about some turns, by the decision it belongs to."""

    def __init__(self) -> None:
        self.ends: defaultdict[str, list[tuple[bool, _End]]] = defaultdict(list)
        self.scores: dict[str, tuple[int, int]] = {}
        self.later: defaultdict[str, list[tuple[str, bool]]] = defaultdict(list)

    def take(self, rows: Iterable[tuple[str, str, str, bytes]]) -> list[str]:
        """Sort rows by their decisions; return the ids of the further decisions among them."""
        further = []
        for kind, name, ref, payload in rows:
            if kind.startswith(DECISION):
                self.later[ref].append((name, kind == SHADOW))
                further.append(name)
                continue
            try:
                self._take_end(kind, ref, payload)
            except msgspec.MsgspecError:
                continue
        return further

    def _take_end(self, kind: str, ref: str, payload: bytes) -> None:
        if kind == OUTCOME:
            ended = _ENDED.decode(payload)
            end = _END.decode(bytes(ended.detail))
            if end.model:
                self.ends[ref].append((ended.status == "done", end))
            return
        verdict, rank = _VERDICT.decode(payload), _VERDICTS[kind]
        if rank >= self.scores.get(verdict.decision_id, (0, 0))[0]:
            self.scores[verdict.decision_id] = (rank, verdict.score // _PER_MILLE)

    def run(self, decision: str, *, is_shadow: bool) -> ModelRun | None:
        """Add up the calls under a decision; None where none ended."""
        ends = self.ends.get(decision)
        if ends is None:
            return None
        spent = [each.spent for _, each in ends if each.spent is not None]
        costs = [each.cost_microusd for each in spent]
        # INVARIANT: a cost that is not known is never taken for none.
        known = [cost for cost in costs if cost is not None]
        score = self.scores.get(decision)
        return ModelRun(
            ends[-1][1].model,
            (
                sum(each.input_tokens for each in spent),
                sum(each.cached_input_tokens for each in spent),
                sum(each.cache_creation_input_tokens for each in spent),
                sum(each.output_tokens for each in spent),
            ),
            sum(known) if len(known) == len(costs) else None,
            sum(each.elapsed_us for _, each in ends) // 1000,
            ends[-1][0],
            is_shadow,
            None if score is None else score[1],
        )


def read_runs(ledger: LedgerReader, turns: Sequence[Entry]) -> dict[str, tuple[ModelRun, ...]]:
    """Return the runs of some turns by the ids of their first decisions, in order."""
    read = _Read()
    names = [name for entry in turns for name in (entry.id, entry.ref)]
    later = read.take(ledger.ends_and_verdicts(names))
    if later:
        read.take(ledger.ends_and_verdicts(later))
    return {entry.id: tuple(_runs_of(read, entry)) for entry in turns}


def _runs_of(read: _Read, turn: Entry) -> Iterator[ModelRun]:
    """Yield the runs of a turn; verdicts on the turn are the score of the run that served it."""
    decisions = [(turn.id, False), *read.later.get(turn.ref, ())]
    runs = [(read.run(name, is_shadow=shadow), name) for name, shadow in decisions]
    found = [(run, name) for run, name in runs if run is not None]
    served = [name for run, name in found if run.is_answered and not run.is_shadow]
    said = [read.scores[name] for name, shadow in decisions if not shadow and name in read.scores]
    for run, name in found:
        if run.is_shadow:
            yield run
        elif served and name == served[-1]:
            yield replace(run, score=max(said, key=lambda each: each[0])[1] if said else None)
        else:
            yield replace(run, score=None)
