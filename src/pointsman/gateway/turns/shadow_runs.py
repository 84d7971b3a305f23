"""Work after a turn's answer is out: a shadow run, a judge's verdict, learning.

INVARIANT: no answer waits for it. The queue is short; work that finds no room is dropped and
counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.calls.call_end import CallEnd
from pointsman.calls.judging import Rubric, answer_text, judge_request, question_text, verdict
from pointsman.errors import PointsmanError
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.copying_send import CopyingSend
from pointsman.gateway.turns.forwarding import notice_of
from pointsman.gateway.turns.side_call import SideCall
from pointsman.gateway.turns.turn import LiveTurn
from pointsman.kernel.number import ONE, SCALE, Billionths, billionths
from pointsman.kernel.record import Names
from pointsman.kernel.wb1 import Salted, unit_bytes
from pointsman.learning.learning import Run, learn_run, run_of_call
from pointsman.learning.shadow_runs import (
    JudgeVerdict,
    ShadowRunRecord,
    judge_ruling,
    judge_verdict_draft,
    shadow_ruling,
    shadow_run_draft,
)
from pointsman.providers.registry.dialects import speaker
from pointsman.recording.ruling import Ruling, policies_in_force
from pointsman.signals.tokens import count_tokens
from pointsman.storage.stores.patterns.patterns import Origin, PatternStore
from pointsman.storage.writer.durability import Durability
from pointsman.turns.chain.exploring import was_explored

MOST_WAITING: Final = 64
MOST_AT_ONCE: Final = 2
COUNTED: Final = "pointsman_beside_total"

_JUDGE: Final = Salted("judge")


class _Work(Struct, frozen=True):
    """A turn that is over, and the work that follows it."""

    live: LiveTurn
    ruling: Ruling
    end: CallEnd
    heard: CopyingSend
    shadow: Ruling | None
    is_judged: bool


class _RunAnswer(Struct, frozen=True):
    """One answer to a turn: under which decision, as which run, in which words."""

    decision_id: str
    run: Run
    words: str


class ShadowRuns:
    """Runs it for all turns of one gateway, a few at a time."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        given = parts.settings.judge
        self._judge = given.model
        self.has_judge = bool(given.model)
        self._judged_share = billionths(f"{given.share:f}")
        self._rubric = Rubric(given.rubric) if given.rubric else Rubric()
        self._waiting: deque[_Work] = deque()
        self._working: set[asyncio.Task[None]] = set()
        self._at_work = 0
        """How many of them look for more: one that ends is among them for a moment longer."""
        self._patterns = PatternStore(parts.pointsman.home.patterns)
        parts.ending.append(self._patterns.close)

    def follow(self, live: LiveTurn, heard: CopyingSend) -> None:
        """See to a turn whose answer is out. Does not wait."""
        ruling, end = live.ruling, live.end
        if ruling is None or end is None or end.error_class or live.locked is not None:
            return
        if ruling.trace.opinion is not UNSET:
            # Which model answers depends on how hard the question is: nothing is learned from it.
            return
        shadow = shadow_ruling(live.turn_id, policies_in_force(live.in_force), ruling)
        is_drawn = shadow is not None or _is_exploring(ruling)
        is_judged = bool(self._judge) and (is_drawn or self._is_drawn(live.turn_id))
        if not is_drawn and not is_judged:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._count("turn" if shadow is None else "shadow", "dropped")
            return
        self._take(_Work(live, ruling, end, heard, shadow, is_judged))

    def _take(self, work: _Work) -> None:
        self._waiting.append(work)
        if self._at_work < MOST_AT_ONCE:
            self._at_work += 1
            task = asyncio.get_running_loop().create_task(self._work())
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    def _is_drawn(self, turn_id: str) -> bool:
        return _JUDGE.slot(unit_bytes(turn_id) or b"s:", SCALE) < self._judged_share

    async def _work(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._run(self._waiting.popleft())
                except PointsmanError:
                    # The ledger or the store is out: the next turn finds out for itself.
                    self._count("turn", "failed")
        finally:
            self._at_work -= 1

    async def _run(self, work: _Work) -> None:
        live = work.live
        origin: Origin | None = "explored" if _is_exploring(work.ruling) else None
        own = run_of_call(live.turn_id, work.end, live.asked_at, origin)
        # The judge reads the model's own words, without our notice before them.
        words = work.heard.words(live.request.dialect).removeprefix(notice_of(live))
        said = [_RunAnswer(live.decision_id, own, words)]
        if work.shadow is not None:
            again = await self._run_shadow(work, work.shadow)
            said += [] if again is None else [again]
        facts, vector_of = work.ruling.facts, self._parts.pointsman.gathering.vector_of
        for each in said:
            await in_thread(
                lambda each=each: learn_run(self._patterns, facts, each.run, vector_of)  # type: ignore[misc] # bound at once
            )
        for each in said:
            if work.is_judged and each.words:
                await self._ask_judge(work, each)

    async def _run_shadow(self, work: _Work, ruling: Ruling) -> _RunAnswer | None:
        """Run a turn again, and record the result."""
        live = work.live
        asked = speaker(live.request.dialect).read_request(live.stripped_body())
        call = SideCall(self._parts, live, ruling, "shadow", live.input_tokens)
        response = await call.make(replace(asked, is_stream=False))
        self._count("shadow", call.result)
        if response is None or call.end is None:
            return None
        words, pointsman = answer_text(response), self._parts.pointsman
        recorder, durable = pointsman.decision_recorder.recorder(), Durability(self._parts.bridge())
        seal = recorder.hand_in_text(words, durable) if words else None
        told = ShadowRunRecord(call.decision_id, ruling.model, work.ruling.model, seal)
        names = Names(pointsman.ids.new_id(), live.turn_id, pointsman.clock.now())
        recorder.hand_in(shadow_run_draft(names, told), durable.expect())
        await durable.wait()
        run = run_of_call(call.decision_id, call.end, names.at, "shadow")
        return _RunAnswer(call.decision_id, run, words)

    async def _ask_judge(self, work: _Work, said: _RunAnswer) -> None:
        """Ask the judge about an answer; a malformed verdict counts for nothing."""
        live, policies = work.live, policies_in_force(work.live.in_force)
        ruling = judge_ruling(policies, work.ruling, self._judge)
        if ruling is None:
            self._count("judge", "refused")
            return
        message = work.ruling.facts.message
        question = message if isinstance(message, str) else ""
        request = judge_request(self._rubric, question, said.words)
        call = SideCall(self._parts, live, ruling, "judge", count_tokens(question_text(request)))
        response = await call.make(request)
        score = None if response is None else verdict(answer_text(response))
        is_malformed = response is not None and score is None
        self._count("judge", "malformed" if is_malformed else call.result)
        if score is None:
            return
        pointsman = self._parts.pointsman
        names = Names(pointsman.ids.new_id(), live.turn_id, pointsman.clock.now())
        told = JudgeVerdict(
            said.decision_id, call.decision_id, self._judge, self._rubric.id, Billionths(score)
        )
        durable = Durability(self._parts.bridge())
        pointsman.decision_recorder.recorder().hand_in(
            judge_verdict_draft(names, told), durable.expect()
        )
        await durable.wait()
        await in_thread(lambda: self._patterns.update_score(said.run.id, score, ONE, names.id))

    def _count(self, kind: str, result: str) -> None:
        self._parts.metrics.count(COUNTED, (("kind", kind), ("result", result)))


def _is_exploring(ruling: Ruling) -> bool:
    return was_explored(ruling.outcome, ruling.trace)
