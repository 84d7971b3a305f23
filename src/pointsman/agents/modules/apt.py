"""APT, the trust in an agent's performance: a fold over ordered events, in billionths.

Companion §4.2. The effect of an event on a module's status is in `status`.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from msgspec import Struct

from pointsman.agents.modules.module import Status
from pointsman.kernel.canonical import Form
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import SCALE, Billionths, clamp, divide

EventType = Literal[
    "COUNCIL_APPROVAL",
    "GROUND_TRUTH_LABEL",
    "AGENT_TIMEOUT",
    "AGENT_EXCEPTION",
    "MANUAL_OVERRIDE",
    "OPERATIONAL_NOTE",
    "USER_FEEDBACK",
]

JUDGING: Final[tuple[EventType, ...]] = ("COUNCIL_APPROVAL", "GROUND_TRUTH_LABEL")
FAILING: Final[tuple[EventType, ...]] = ("AGENT_TIMEOUT", "AGENT_EXCEPTION")


class TrustConstants(Struct, frozen=True, forbid_unknown_fields=True):
    """The constants of trust; part of every snapshot, and overridable only there."""

    decay: Billionths
    beta: Billionths
    gamma: Billionths
    apt_init: Billionths
    min_events_for_trust: int
    apt_degraded: Billionths
    apt_block: Billionths
    failures_offline: int


DEFAULT_TRUST: Final = TrustConstants(
    decay=Billionths(1_000_000),
    beta=Billionths(100_000_000),
    gamma=Billionths(250_000_000),
    apt_init=Billionths(500_000_000),
    min_events_for_trust=2,
    apt_degraded=Billionths(600_000_000),
    apt_block=Billionths(250_000_000),
    failures_offline=3,
)


class TrustEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """One recorded event of a module.

    `origin` is its reporter. `is_correct` belongs to judging events; `apt`, `status` and `signer`
    to `MANUAL_OVERRIDE`, whose signer is a principal with the role it acted in.
    """

    event_id: str
    job_seed: str
    event_sequence_index: int
    event_type: EventType
    node_id: str
    origin: str
    timestamp_seeded: Instant
    trace_id: str = ""
    is_correct: bool = False
    apt: Billionths | None = None
    status: Status | None = None
    signer: str = ""
    signer_role: str = ""
    note: str = ""


EVENT_FORM: Final = Form(TrustEvent)


def event_id(job_seed: str, index: int, event_type: EventType) -> str:
    """Name an event by its job's seed, its place in the job and its type (companion §4.6)."""
    return hashlib.sha256(f"{job_seed}:{index}:{event_type}".encode()).hexdigest()


def apt_after(apt: Billionths, event: TrustEvent, constants: TrustConstants) -> Billionths:
    """Return the trust after an event."""
    if event.event_type == "MANUAL_OVERRIDE":
        return apt if event.apt is None else clamp(event.apt)
    if event.event_type in JUDGING:
        return _move(apt, constants.beta if event.is_correct else Billionths(0), constants)
    if event.event_type in FAILING:
        return _move(apt, Billionths(-constants.gamma), constants)
    return apt


def _move(apt: Billionths, by: Billionths, constants: TrustConstants) -> Billionths:
    # DETERMINISM: rounded once, after the exact sum.
    exact = apt * (SCALE - constants.decay) + by * SCALE
    return clamp(Billionths(divide(exact, SCALE)))
