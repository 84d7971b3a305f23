"""The agent services of a home: agents, their actions, approvals, and decisions of workflows.

Apart from the composition root, so that a process that only routes turns does not load them.
"""

from __future__ import annotations

from msgspec import Struct

from pointsman.approvals.approvals import Approvals
from pointsman.approvals.effects import Effects
from pointsman.jobs.agency import Agency
from pointsman.jobs.live_agents import LiveAgents
from pointsman.kernel.instant import Clock, IdSource
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.stops import StopKeeper
from pointsman.signals.kinds import LET_THROUGH
from pointsman.storage.home import Home
from pointsman.storage.policies.agents_file import AgentsFiles
from pointsman.workflows.branch_approvals import BranchApprovals
from pointsman.workflows.branching import Branching


class AgentServices(Struct, frozen=True):
    """The services that are opened together; only `branching` holds resources."""

    effects: Effects
    approvals: Approvals
    agency: Agency
    branching: Branching

    def close(self) -> None:
        """Close the open resources."""
        self.branching.close()


def open_agent_services(
    home: Home,
    decision_recorder: DecisionRecorder,
    clock: Clock,
    ids: IdSource,
    stops: StopKeeper | None = None,
) -> AgentServices:
    """Open the agent services of a home."""
    live = LiveAgents(home, AgentsFiles(home.path, kinds=LET_THROUGH))
    effects = Effects(home, decision_recorder, (clock, ids), live.check, stops)
    approvals = Approvals(home, decision_recorder, (clock, ids), effects)
    agency = Agency(home, decision_recorder, (clock, ids), live, approvals)
    branching = Branching(home, decision_recorder, clock, ids, BranchApprovals(approvals, clock))
    return AgentServices(effects, approvals, agency, branching)
