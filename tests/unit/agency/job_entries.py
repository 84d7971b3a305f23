"""What jobs leave in the ledger of a fleet, and a death on the way there."""

from tests.unit.agency.fleet import Fleet

from pointsman.agents.modules.trust import EVENT_FORM
from pointsman.jobs.entries import TRUST

GOAL = {"goals": [{"goal_id": "g1", "type": "plan", "priority": "0.5"}]}


class Crash(BaseException):
    """The process dies here."""


def kinds(fleet: Fleet) -> list[str]:
    """What a job left, in its order, snapshots and calls apart."""
    found = [each.kind for each in fleet.entries("")]
    return [
        each for each in found if each.startswith(("event.", "decision.")) and "call" not in each
    ]


def trust(fleet: Fleet) -> list[tuple[str, str, bool]]:
    events = [EVENT_FORM.decode(each.payload) for each in fleet.entries(TRUST)]
    return [(each.event_type, each.node_id, each.is_correct) for each in events]


def die_after(fleet: Fleet, at: str) -> None:
    """Have the process die once an entry of this kind is durable."""
    recorder = fleet.pointsman.decision_recorder.recorder()
    append, hand_in = recorder.append, recorder.hand_in_decision

    def appending(draft: object) -> object:
        found = append(draft)  # type: ignore[arg-type] # whatever is recorded
        if draft.kind.startswith(at):  # type: ignore[attr-defined] # as above
            found.result()
            raise Crash
        return found

    def deciding(*given: object) -> None:
        hand_in(*given)  # type: ignore[arg-type] # as above
        if at == "decision.agent":
            raise Crash

    recorder.append = appending  # type: ignore[assignment, method-assign] # the ledger itself stays real
    recorder.hand_in_decision = deciding  # type: ignore[assignment, method-assign] # as above
