"""The status of a module: which one its record calls for, and which roles may set one by hand.

Companion §4.1 and §4.2: a low trust OR a failure degrades. Quarantine is never automatic.
"""

from __future__ import annotations

from typing import Final

from pointsman.agents.modules.apt import TrustConstants
from pointsman.agents.modules.module import Metrics, Status
from pointsman.errors import PermissionDenied
from pointsman.kernel.number import Billionths, billionths_text

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
    reasons = [*_doubts(apt, metrics, constants)]
    return ("degraded", "; ".join(reasons)) if reasons else ("healthy", "")


def _doubts(apt: Billionths, metrics: Metrics, constants: TrustConstants) -> list[str]:
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
