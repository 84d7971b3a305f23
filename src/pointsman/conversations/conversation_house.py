"""What conversations are made of: opened once for a home and handed to every session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.budgets import BudgetPort
from pointsman.access.caps import Cap, Owners, caps_of
from pointsman.calls.flow import Fallback
from pointsman.calls.services import CallServices
from pointsman.kernel.instant import Clock, IdSource
from pointsman.placement.facts import PlacementFacts
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.gathering import Gathering
from pointsman.recording.health import LiveHealth
from pointsman.recording.placing import PlacedTurn as Placed
from pointsman.sessions.delegate_call import TIMEOUT_S
from pointsman.sessions.tool import Confirmer, Memory, NoPrompt, NoTools, Skills, ToolSet
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import InForce, PolicyFiles
from pointsman.storage.policies.settings import Settings
from pointsman.storage.stores.conversations import ConversationStore
from pointsman.turns.facts import TurnFacts


class Asking(Protocol):
    """Gathers what the placement of a turn may look at; `Pointsman.gather_placement` is one."""

    def __call__(
        self,
        in_force: InForce,
        facts: TurnFacts,
        about: Placed,
        text: Callable[[], str] | None = None,
    ) -> PlacementFacts:
        """Gather it."""
        ...


class Ground(Struct, frozen=True):
    """The opened home under a conversation."""

    home: Home
    files: PolicyFiles
    desk: DecisionRecorder
    gathering: Gathering
    clock: Clock
    ids: IdSource
    gather_placement: Asking


class Kit(Struct, frozen=True):
    """What one session is equipped with."""

    tools: ToolSet = NoTools()
    skills: Skills = NoPrompt()
    memory: Memory = NoPrompt()
    confirmer: Confirmer | None = None
    """Who is asked before a tool acts; None: whoever reads the updates."""
    is_interactive: bool = False
    """Whether somebody reads the updates and answers what they ask."""
    confirm_s: int = 300
    route_s: int = 15
    """How long a choice between two models waits before the chosen one is called."""
    worker_s: int = TIMEOUT_S
    problems: tuple[str, ...] = ()
    """What of the equipment cannot be used, one line each."""
    close: Callable[[], Awaitable[None]] | None = None
    """Lets go of what the tools hold: servers, processes."""


Equip = Callable[[Ground, str | None], Awaitable[Kit]]
"""Equips a session for a workspace."""


async def bare(_ground: Ground, _workspace: str | None) -> Kit:
    """Equip a session with nothing."""
    return Kit()


class Patron(Struct, frozen=True):
    """Whose key sessions run under: the models it may use, and what it may spend.

    Empty for whoever works on the home itself.
    """

    key_id: str = ""
    allowed_models: tuple[str, ...] | None = None
    caps: tuple[Cap, ...] = ()


class House(Struct, frozen=True):
    """Everything a session uses, shared by all sessions of a process that have one patron."""

    ground: Ground
    calls: CallServices
    store: ConversationStore
    patron: Patron = Patron()

    @property
    def budgets(self) -> BudgetPort:
        """What may be spent."""
        return self.calls.budgets

    @property
    def health(self) -> LiveHealth:
        """Who is out."""
        return self.calls.health

    def caps(self, in_force: InForce) -> tuple[Cap, ...]:
        """Give what bounds the spending: the policy's budgets, and the patron's own."""
        return (*caps_of(in_force.ready.policy.budgets), *self.patron.caps)

    def owners(self, seated: Owners) -> Owners:
        """Give whose money is spent, the patron's key among them."""
        return replace(seated, key_id=self.patron.key_id) if self.patron.key_id else seated

    @property
    def settings(self) -> Settings:
        """How the home is run, now."""
        return self.ground.files.settings().value

    def fallback(self) -> Fallback:
        """Give when another model may take over."""
        given = self.settings.fallback
        return Fallback(
            given.mode == "on", given.most_attempts, given.for_named_models, given.max_price_ratio
        )
