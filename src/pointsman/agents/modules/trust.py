"""APT, the trust in an agent's performance, and the status that follows from it, in billionths.

Companion §4.1 and §4.2: a low trust OR a failure degrades. Quarantine is never automatic.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from msgspec import Struct

from pointsman.agents.modules.module import Metrics, Status
from pointsman.errors import PermissionDenied
from pointsman.kernel.canonical import Form
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import SCALE, Billionths, billionths_text, clamp, divide

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


GOVERNORS: Final = ("admin", "council")
"""The roles that may set a status by hand."""


def status_after(
    status: Status, apt: Billionths, metrics: Metrics, constants: TrustConstants
) -> tuple[Status, str]:
    """Return the status that a record calls for, and why; empty for a healthy one.

    An offline or quarantined module stays so until it is set healthy by hand.
    """
    failures = metrics.consecutive_failures
    if status in {"offline", "quarantined"}:
        return status, ""
    if failures >= constants.failures_offline:
        return "offline", f"{failures} failures in a row"
    reasons = [*_degradation_reasons(apt, metrics, constants)]
    return ("degraded", "; ".join(reasons)) if reasons else ("healthy", "")


def _degradation_reasons(apt: Billionths, metrics: Metrics, constants: TrustConstants) -> list[str]:
    found = []
    if metrics.consecutive_failures:
        found.append("failed the last time")
    if apt < constants.apt_block:
        found.append(f"apt {billionths_text(apt)} is low enough to propose a quarantine")
    elif apt < constants.apt_degraded:
        limit = billionths_text(constants.apt_degraded)
        found.append(f"apt {billionths_text(apt)} is below {limit}")
    if metrics.total_calls < constants.min_events_for_trust:
        found.append(f"judged {metrics.total_calls} of {constants.min_events_for_trust} times")
    return found


def check_set_by_hand(role: str, after: Status) -> None:
    """Raise unless this role may set a status by hand."""
    if role not in GOVERNORS:
        raise PermissionDenied(f"the role `{role}` may not set a module {after}")
