"""`/brainstate/…`: a job's mind over HTTP (004 §9): begun, looked at, ticked, and asked."""

from __future__ import annotations

from msgspec import structs

from pointsman.brainstate.reading import exact_inputs, inputs_problems, start_problems
from pointsman.brainstate.redaction import redacted_view
from pointsman.brainstate.state import BrainState
from pointsman.brainstate.trace import Happening
from pointsman.brainstate.view import ShownState, decimal, hints_view, state_view
from pointsman.gateway.api.agents.call import AgentCall, CallAnswer
from pointsman.gateway.api.agents.shapes import (
    HintsAnswer,
    QueryBody,
    SnapshotAnswer,
    StartAnswer,
    StartBody,
    TickAnswer,
    TickBody,
    TickedAction,
    TickHappening,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.signals.detectors import detect


class BrainStateApi:
    """Serves states."""

    def __init__(self, parts: GatewayServices) -> None:
        self._agency = parts.pointsman.agency
        self._approvals = parts.pointsman.approvals

    def create_snapshot(self, call: AgentCall) -> CallAnswer:
        """Keep the first state of a job."""
        given = call.read_body(StartBody, start_problems)
        kept = self._agency.record_brainstate(given, call.hand_on())
        return CallAnswer(
            StartAnswer(kept.id, kept.state.brainstate_id, kept.warnings, call.trace_id)
        )

    def show_snapshot(self, call: AgentCall) -> CallAnswer:
        """Return a state: in full, or redacted."""
        name = call.part("id")
        state = self._agency.brainstate(name, call.hand_on())
        view = structs.asdict(_view(call, state))
        return CallAnswer(
            SnapshotAnswer(
                **view,
                brainstate_snapshot_id=name,
                redacted=not call.is_full,
                trace_id=call.trace_id,
            )
        )

    def tick(self, call: AgentCall) -> CallAnswer:
        """Take one step from a state; its wishes become action requests."""
        given = call.read_body(
            TickBody, lambda body, at: inputs_problems(body.inputs, at, ("inputs",))
        )
        inputs = exact_inputs(given.inputs)
        made = self._agency.tick(given.brainstate_snapshot_id, inputs, call.hand_on())
        return CallAnswer(
            TickAnswer(
                brainstate_snapshot_id=made.id,
                brainstate=_view(call, made.state),
                redacted=not call.is_full,
                reward_signal=decimal(made.trace.reward.value),
                happenings=tuple(_happening(call, each) for each in made.trace.happenings),
                action_requests=tuple(self._action(each) for each in made.action_requests),
                trace_id=call.trace_id,
            )
        )

    def query(self, call: AgentCall) -> CallAnswer:
        """Return the advice of a state."""
        name = call.read_body(QueryBody).brainstate_snapshot_id
        hints = structs.asdict(hints_view(self._agency.query(name, call.hand_on())))
        return CallAnswer(HintsAnswer(**hints, brainstate_snapshot_id=name, trace_id=call.trace_id))

    def _action(self, request_id: str) -> TickedAction:
        state = self._approvals.state(request_id)
        request = state.request
        return TickedAction(request_id, request.action_type, state.status, request.action_hash)


def _view(call: AgentCall, state: BrainState) -> ShownState:
    return state_view(state) if call.is_full else redacted_view(state, detect)


def _happening(call: AgentCall, each: Happening) -> TickHappening:
    subject = each.subject
    if not call.is_full and detect(subject):
        subject = ""
    return TickHappening(each.event_type, subject, each.why, each.detail)
