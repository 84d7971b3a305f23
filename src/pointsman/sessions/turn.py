"""What one turn of a conversation stands on, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from pointsman.calls.flow import Claim, Fallback
from pointsman.placement.facts import PlacementFacts
from pointsman.providers.messages import Image, OutputFormat, Text
from pointsman.recording.ruling import Policies, Ruling
from pointsman.sessions.events.delegation import InsufficientContextRequest
from pointsman.sessions.events.session import CancelReason, TurnStop
from pointsman.sessions.history import History
from pointsman.sessions.message import SessionMessage
from pointsman.sessions.tally import TurnTally
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tool_cycle import CONFIRM_S
from pointsman.turns.facts import TurnFacts

MOST_CALLS: Final = 50
EndStatus = Literal["completed", "cancelled", "failed", "no_model", "refused"]


class TurnLimits(Struct, frozen=True):
    """How far one turn may go: calls of a model, words in all, seconds for a human to answer."""

    most_calls: int = MOST_CALLS
    most_output_tokens: int | None = None
    confirm_s: int = CONFIRM_S


class TurnPlan(Struct, frozen=True):
    """Everything one turn stands on, gathered before it begins."""

    session_id: str
    turn_id: str
    content: tuple[Text | Image, ...]
    history: History
    tools: tuple[ToolDefinition, ...]
    system: Callable[[str], str]
    """What a model is told before all else, by the model's name."""
    policies: Policies
    asked: PlacementFacts
    facts: TurnFacts
    fallback: Fallback
    is_worker: bool = False
    parent_tool_use_id: str | None = None
    output: OutputFormat | None = None
    granted: frozenset[str] = frozenset()
    limits: TurnLimits = TurnLimits()
    claim: Claim | None = None
    """Asked before a model that is half open is called."""


class TurnEnd(Struct, frozen=True):
    """How a turn ended. `text` is what the model said last; `messages` what the turn added."""

    status: EndStatus
    stop_reason: TurnStop | None
    ruling: Ruling | None
    text: str
    tally: TurnTally
    messages: tuple[SessionMessage, ...]
    granted: frozenset[str]
    error: str = ""
    cancelled_by: CancelReason | None = None
    context_request: InsufficientContextRequest | None = None

    @property
    def model(self) -> str:
        """The model that took the turn."""
        return "" if self.ruling is None else self.ruling.model
