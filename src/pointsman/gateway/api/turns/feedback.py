"""`POST /api/feedback`: how good a turn was, recorded beside it and counted for its pattern."""

from __future__ import annotations

from contextlib import closing

from msgspec import UNSET

from pointsman.access.keys import Principal
from pointsman.errors import InputError, NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.turns.shapes import FeedbackBody
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.number import ONE, ZERO, Billionths, billionths
from pointsman.kernel.record import Names
from pointsman.learning.feedback import Feedback, feedback_draft
from pointsman.learning.learning import learn_run
from pointsman.learning.recorded_runs import is_shadow_run, read_recorded_run
from pointsman.recording.waiting import BlockingWaiter
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
        score = _score(given)
        return await in_thread(lambda: self._record(given, score, caller))

    def _record(
        self, given: FeedbackBody, score: Billionths, caller: Principal
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
        sure = _confidence(given)
        told = Feedback(decision_id, score, caller.key_id, seal, UNSET if sure is None else sure)
        recorder.hand_in(feedback_draft(names, told), waits.expect())
        waits.wait()
        return {
            "feedback_id": names.id,
            "turn_id": shown.turn_id,
            "decision_id": decision_id,
            "score": score / ONE,
            "pattern": self._count(names, score, given),
        }

    def _count(self, names: Names, score: Billionths, given: FeedbackBody) -> str:
        """Tell the pattern store; a turn it does not know yet is counted from its record."""
        home = self._parts.pointsman.home
        sure = _confidence(given)
        verdict = (score, ONE if sure is None else sure, given.eval_id or names.id)
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


def _confidence(given: FeedbackBody) -> Billionths | None:
    return None if given.confidence is None else billionths(f"{given.confidence:f}")


def _score(given: FeedbackBody) -> Billionths:
    """Return the verdict as a fraction, from either `score` or `thumbs`."""
    if (given.score is None) == (given.thumbs is None):
        raise InputError("a verdict is either a `score` or `thumbs`")
    if given.score is not None:
        return billionths(f"{given.score:f}")
    return ONE if given.thumbs == "up" else ZERO
