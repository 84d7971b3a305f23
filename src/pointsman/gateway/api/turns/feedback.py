"""`POST /api/feedback`: how good a turn was, recorded beside it and counted for its pattern."""

from __future__ import annotations

from contextlib import closing

from msgspec import UNSET, Struct, UnsetType

from pointsman.access.keys import Principal
from pointsman.errors import InputError, NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.turns.shapes import FeedbackBody
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.number import ONE, ZERO, Billionths, billionths
from pointsman.kernel.record import Names
from pointsman.learning.feedback import TEST_CONFIDENCE, Feedback, Sign, feedback_draft
from pointsman.learning.learning import learn_run
from pointsman.learning.recorded_runs import is_judged_run, is_shadow_run, read_recorded_run
from pointsman.recording.waiting import BlockingWaiter
from pointsman.sessions.feedback import SIGNAL_VERDICTS
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.turns.facts import TurnFacts


class FeedbackApi:
    """Serves feedback."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def record_feedback(self, request: ApiRequest) -> object:
        """Record a verdict on a turn."""
        caller = request.caller
        given = request.body_as(FeedbackBody)
        verdict = _read_verdict(given)
        return await in_thread(lambda: self._record(given, verdict, caller))

    def _record(
        self, given: FeedbackBody, verdict: _Verdict, caller: Principal
    ) -> dict[str, object]:
        pointsman = self._parts.pointsman
        shown = pointsman.shown(given.turn_id, caller.reach)
        if shown.turn_id != given.turn_id:
            raise NotFound(f"no turn is recorded as `{given.turn_id}`")
        decision_id = given.decision_id or shown.decision_id
        is_shadow = decision_id != shown.decision_id
        if is_shadow and not is_shadow_run(pointsman.home, shown.turn_id, decision_id):
            raise NotFound(f"no run of this turn is recorded as `{decision_id}`")
        run_id = decision_id if is_shadow else shown.turn_id
        names = Names(pointsman.ids.new_id(), run_id, pointsman.clock.now())
        recorder, waits = pointsman.decision_recorder.recorder(), BlockingWaiter()
        seal = recorder.hand_in_text(given.comment, waits) if given.comment else None
        told = Feedback(
            decision_id,
            verdict.score,
            caller.key_id,
            seal,
            UNSET if verdict.confidence is None else verdict.confidence,
            verdict.sign,
            UNSET if given.exit_code is None else given.exit_code,
        )
        recorder.hand_in(feedback_draft(names, told), waits.expect())
        waits.wait()
        return {
            "feedback_id": names.id,
            "turn_id": shown.turn_id,
            "decision_id": decision_id,
            "score": verdict.score / ONE,
            "pattern": self._count(names, verdict, given),
        }

    def _count(self, names: Names, told: _Verdict, given: FeedbackBody) -> str:
        """Tell the pattern store; a turn it does not know yet is counted from its record."""
        home = self._parts.pointsman.home
        if told.sign is not UNSET and is_judged_run(home, names.ref, given.turn_id):
            return "outweighed"
        sure = ONE if told.confidence is None else told.confidence
        verdict = (told.score, sure, given.eval_id or names.id)
        with closing(PatternStore(home.patterns)) as store:
            found = "no_patterns"
            if home.patterns.exists():
                found = store.update_score(names.ref, *verdict)
            if found not in {"no_patterns", "no_such_turn"}:
                return found
            turn = read_recorded_run(
                home, given.turn_id, names.ref if names.ref != given.turn_id else ""
            )
            if turn is None or self._is_off(turn.facts):
                return found
            vector_of = self._parts.pointsman.gathering.vector_of
            learn_run(store, turn.facts, turn.run, vector_of)
            return store.update_score(names.ref, *verdict)

    def _is_off(self, facts: TurnFacts) -> bool:
        ready = self._parts.pointsman.in_force().ready
        return ready.scope(facts.workspace_path).pattern.mode == "off"


class _Verdict(Struct, frozen=True):
    """A verdict that was given, or inferred from a sign."""

    score: Billionths
    confidence: Billionths | None
    sign: Sign | UnsetType = UNSET


def _read_verdict(given: FeedbackBody) -> _Verdict:
    """Return the verdict of a request; its own confidence outweighs that of its sign."""
    said = (given.score, given.thumbs, given.exit_code, given.signal)
    if sum(each is not None for each in said) != 1:
        raise InputError("a verdict is one of `score`, `thumbs`, `exit_code` and `signal`")
    sure = None if given.confidence is None else billionths(f"{given.confidence:f}")
    if given.score is not None:
        return _Verdict(billionths(f"{given.score:f}"), sure)
    if given.exit_code is not None:
        score = ZERO if given.exit_code else ONE
        return _Verdict(score, TEST_CONFIDENCE if sure is None else sure, "test")
    if given.signal is not None:
        found = SIGNAL_VERDICTS[given.signal]
        return _Verdict(found.score, found.confidence if sure is None else sure, given.signal)
    return _Verdict(ONE if given.thumbs == "up" else ZERO, sure)
