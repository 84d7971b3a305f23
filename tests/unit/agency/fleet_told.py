"""What the ledger of a fleet tells of calls, and is told of trust."""

from tests.unit.agency.fleet import Fleet

from pointsman.agents.modules.trust import TrustEvent, event_id
from pointsman.jobs.entries import CALL, CALL_FORM, trust_draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import Names


def calls(fleet: Fleet) -> list[tuple[str, str, str]]:
    told = [CALL_FORM.decode(each.payload) for each in fleet.entries(CALL)]
    return [(each.call, each.trace_id, each.result) for each in told]


def judge(fleet: Fleet, node: str, *, seed: str = "s", index: int = 0, at: int = 0) -> None:
    event = TrustEvent(
        event_id(seed, index, "AGENT_TIMEOUT"),
        seed,
        index,
        "AGENT_TIMEOUT",
        node,
        "executor",
        Instant(0),
    )
    fleet.clock.advance(microseconds=at)
    names = Names(fleet.ids.new_id(), "log", fleet.clock.now())
    fleet.pointsman.decision_recorder.recorder().record(trust_draft(names, event))
