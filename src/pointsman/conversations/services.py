"""The services that conversations use: opened once for a home and shared by every session."""

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
from pointsman.recording.gathering import HOME_CALLER, Gathering
from pointsman.recording.health import LiveHealth
from pointsman.recording.placing import MaskedRequest
from pointsman.recording.placing import PlacedTurn as Placed
from pointsman.recording.stops import Stops
from pointsman.sessions.delegate_call import TIMEOUT_S
from pointsman.sessions.tool import Confirmer, NoPrompt, NoTools, SessionMemory, Skills, ToolSet
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import InForce, PolicyFiles
from pointsman.storage.policies.settings import Settings
from pointsman.storage.stores.conversations import ConversationStore
from pointsman.turns.facts import CallerFacts, TurnFacts


class PlacementGatherer(Protocol):
    """Gathers the placement facts of a turn; `Pointsman.gather_placement` is one."""

    def __call__(
        self,
        in_force: InForce,
        facts: TurnFacts,
        about: Placed,
        text: Callable[[], str] | None = None,
        masked: Callable[[], MaskedRequest] | None = None,
    ) -> PlacementFacts:
        """Gather the facts."""
        ...


RequestMasker = Callable[[InForce, str, bytes], MaskedRequest]
"""Masks the body of a request for a session."""


class OpenHome(Struct, frozen=True):
    """The opened home under a conversation."""

    home: Home
    files: PolicyFiles
    decision_recorder: DecisionRecorder
    gathering: Gathering
    clock: Clock
    ids: IdSource
    gather_placement: PlacementGatherer
    stops: Stops | None = None
    mask_request: RequestMasker | None = None
    """Masks requests to models in the cloud; without it, a text to be masked stays here."""


class Kit(Struct, frozen=True):
    """The equipment of one session."""

    tools: ToolSet = NoTools()
    skills: Skills = NoPrompt()
    memory: SessionMemory = NoPrompt()
    confirmer: Confirmer | None = None
    """The confirmer asked before a tool acts; None: the reader of the updates."""
    is_interactive: bool = False
    """Whether a reader of the updates answers their questions."""
    confirm_s: int = 300
    route_s: int = 15
    """How long a choice between two models waits before the chosen one is called."""
    worker_s: int = TIMEOUT_S
    problems: tuple[str, ...] = ()
    """The equipment that cannot be used, one line each."""
    close: Callable[[], Awaitable[None]] | None = None
    """Releases the servers and processes of the tools."""


Equip = Callable[[OpenHome, str | None], Awaitable[Kit]]
"""Equips a session for a workspace."""


async def equip_nothing(_opened: OpenHome, _workspace: str | None) -> Kit:
    """Equip a session with nothing."""
    return Kit()


class KeyLimits(Struct, frozen=True):
    """The key that sessions run under: the models it may use, and its caps.

    Empty for work on the home itself.
    """

    key_id: str = ""
    allowed_models: tuple[str, ...] | None = None
    caps: tuple[Cap, ...] = ()
    tenant: str = ""
    name: str = ""

    def caller_facts(self) -> CallerFacts:
        """Say who the sessions' turns come from."""
        return CallerFacts(self.key_id, self.name, self.tenant, HOME_CALLER.agent)


class ConversationServices(Struct, frozen=True):
    """The services of a session, shared by all sessions of a process under one key."""

    opened: OpenHome
    calls: CallServices
    store: ConversationStore
    key_limits: KeyLimits = KeyLimits()

    @property
    def budgets(self) -> BudgetPort:
        """The budgets."""
        return self.calls.budgets

    @property
    def health(self) -> LiveHealth:
        """The availability of providers."""
        return self.calls.health

    def caps(self, in_force: InForce) -> tuple[Cap, ...]:
        """Return the caps on spending: the policy's budgets, and the key's own."""
        return (*caps_of(in_force.ready.policy.budgets), *self.key_limits.caps)

    def owners(self, seated: Owners) -> Owners:
        """Return the owners of the money spent, with the key if there is one."""
        held = self.key_limits
        if not held.key_id:
            return seated
        return replace(seated, key_id=held.key_id, tenant=held.tenant)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.opened.files.settings().value

    def fallback(self) -> Fallback:
        """Return when another model may take over."""
        given = self.settings.fallback
        return Fallback(
            given.mode == "on", given.most_attempts, given.for_named_models, given.max_price_ratio
        )
