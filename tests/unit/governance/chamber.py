"""What the tests of governance share: a home, a council, and somebody who wants something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from pointsman.app import Pointsman
from pointsman.approvals.approvals import Approvals
from pointsman.approvals.proposal import ActionProposal
from pointsman.governance.action import (
    BY_USER,
    QUORUM,
    VOTE_WINDOW,
    ActionRequest,
    ActionType,
    Actor,
    action_hash,
    approval_of,
    subject_of,
)
from pointsman.governance.state import ActionEvent, ActionState, ActionStep, StepKind
from pointsman.governance.votes import Choice
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.document import Json
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import Instant
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.semantic import SemanticMemory
from pointsman.testing import CountedIds, FrozenClock
from pointsman.testing.builders import START

ANN = Actor("key-ann", "ann", "operator")
ROOT = Actor("admin", "admin", "admin")
COUNCIL = tuple(Actor(f"key-c{n}", f"member {n}", "council") for n in range(5))
MODULES = """\
modules:
  agent:a: {apt: 0.9, status: healthy}
  agent:b: {apt: 0.7, status: healthy}
  memory:db: {type: memory, apt: 0.9, status: healthy}
"""
NOTE: Json = {"namespace": "facts", "key": "sky", "value": {"colour": "blue", "share": 1}}


def a_request(
    action_type: ActionType = "sem_write", requester: Actor = ANN, **changes: object
) -> ActionRequest:
    """Give a request that is whole; keywords replace parts of it before it is named."""
    payload_id, target = ContentId("sha256:" + "0" * 64), "sem:facts/sky"
    request = ActionRequest(
        request_id="r-1",
        action_type=action_type,
        target=target,
        payload_id=payload_id,
        requester=requester,
        origin=BY_USER,
        justification="",
        evidence=(),
        required_approval_type=approval_of(action_type, target, BY_USER),
        quorum=QUORUM,
        created_at=START,
        seeded_at=None,
        expires_at=Instant(START + VOTE_WINDOW),
        subject=ContentId(""),
        action_hash=ContentId(""),
        opt_in=None,
        found=(),
    )
    request = replace(request, **changes)
    subject = subject_of(request.action_type, request.target, request.payload_id)
    request = replace(request, subject=subject)
    return replace(request, action_hash=action_hash(request))


class Story:
    """The events of one request, written one after another, whether they may happen or not."""

    def __init__(self, request: ActionRequest) -> None:
        self.request = request
        self.at = request.created_at
        self.events: list[ActionEvent] = []

    def then(
        self,
        kind: StepKind,
        by: Actor = ROOT,
        *,
        choice: Choice | None = None,
        claim: str = "",
        action_hash: str | None = None,
        number: int | None = None,
    ) -> Story:
        place = len(self.events) + 1 if number is None else number
        name = self.request.action_hash if action_hash is None else action_hash
        step = ActionStep(self.request.request_id, place, by, name, choice, claim, "")
        self.events.append(ActionEvent(kind, f"e-{len(self.events)}", self.at, step))
        return self

    def votes(self, *choices: Choice) -> Story:
        for by, choice in zip(COUNCIL, choices, strict=False):
            self.then("voted", by, choice=choice)
        return self

    def wait(self, microseconds: int) -> Story:
        self.at = Instant(self.at + microseconds)
        return self


class Chamber:
    """A home whose time stands still, and the requests made there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FrozenClock()
        self.ids = CountedIds()
        self.pointsman = Pointsman(path, clock=self.clock, ids=self.ids)
        (path / "agents.yaml").write_text(MODULES)
        self.approvals: Approvals = self.pointsman.approvals

    def close(self) -> None:
        self.pointsman.close()

    def asked(
        self, payload: Json = NOTE, kind: ActionType = "sem_write", by: Actor = ANN
    ) -> ActionState:
        return self.approvals.request(ActionProposal(kind, payload, "it is so"), by)

    def vote(self, state: ActionState, by: Actor, choice: Choice = "approve") -> ActionState:
        request = state.request
        return self.approvals.vote(request.request_id, choice, request.action_hash, by)

    def carried(self, state: ActionState) -> ActionState:
        """Have the council say yes."""
        for by in COUNCIL[:QUORUM]:
            state = self.vote(state, by)
        return state

    def memory(self) -> SemanticMemory:
        return SemanticMemory(self.path / "semantic.db")

    def written(self) -> int:
        """How many versions semantic memory holds."""
        with closing(self.memory()) as memory:
            return len(memory.every_version())

    def entries(self, prefix: str = "event.") -> list[Entry]:
        with closing(LedgerReader(self.pointsman.home.database)) as ledger:
            return [each.entry for each in ledger.of_kind(prefix)]


def in_memory() -> Iterator[Path]:
    """A folder in memory where there is one: every entry is synced."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)
