"""The agents' wing of a home: agents, their actions, approvals, and decisions of workflows.

Apart from the composition root, so that whoever only routes turns does not load it.
"""

from __future__ import annotations

from msgspec import Struct

from pointsman.approvals.approvals import Approvals
from pointsman.approvals.effects import Effects
from pointsman.jobs.agency import Agency
from pointsman.jobs.agent_privacy import LET_THROUGH
from pointsman.jobs.live_agents import LiveAgents
from pointsman.kernel.instant import Clock, IdSource
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.storage.home import Home
from pointsman.storage.policies.agents_file import AgentsFiles
from pointsman.workflows.branch_approvals import BranchApprovals
from pointsman.workflows.branching import Branching


class AgentWing(Struct, frozen=True):
    """What is opened together; only the branches hold something open."""

    effects: Effects
    approvals: Approvals
    agency: Agency
    branching: Branching

    def close(self) -> None:
        """Let go of what was opened."""
        self.branching.close()


def open_agent_wing(home: Home, desk: DecisionRecorder, clock: Clock, ids: IdSource) -> AgentWing:
    """Open the agents' wing of a home."""
    live = LiveAgents(home, AgentsFiles(home.path, kinds=LET_THROUGH))
    effects = Effects(home, desk, (clock, ids), live.check)
    approvals = Approvals(home, desk, (clock, ids), effects)
    agency = Agency(home, desk, (clock, ids), live, approvals)
    branching = Branching(home, desk, clock, ids, BranchApprovals(approvals, clock))
    return AgentWing(effects, approvals, agency, branching)
