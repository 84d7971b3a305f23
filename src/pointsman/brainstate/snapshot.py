"""States as signed snapshots, named by their content (004 §8)."""

from __future__ import annotations

from typing import Final

from pointsman.brainstate.state import BrainState
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.snapshot import SnapshotForm

BRAINSTATE: Final = "brainstate"
BRAINSTATE_FORM: Final = SnapshotForm(BRAINSTATE, 1, BrainState)


def snapshot_id(state: BrainState) -> ContentId:
    """Give the id a snapshot of the state would have: its content and nothing else."""
    return BRAINSTATE_FORM.id(state)
