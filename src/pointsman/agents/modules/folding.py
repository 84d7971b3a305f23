"""Events folded into a snapshot of the modules: trust, record and status. Pure.

INVARIANT: this is the only way a module changes, and no module changes itself (companion §4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from pointsman.agents.modules.module import Metrics, Module
from pointsman.agents.modules.selfrep import SelfRep, Tail
from pointsman.agents.modules.trust import (
    FAILING,
    GOVERNORS,
    JUDGING,
    EventType,
    TrustConstants,
    TrustEvent,
    apt_after,
    check_set_by_hand,
    event_id,
    status_after,
)
from pointsman.errors import InputError, IntegrityFailure, NotFound, PermissionDenied
from pointsman.kernel.number import ONE, ZERO

NOTING: Final[tuple[EventType, ...]] = ("OPERATIONAL_NOTE", "USER_FEEDBACK")
"""The events that change no trust: only these may a module report about itself."""


def fold_events(selfrep: SelfRep, events: Iterable[TrustEvent]) -> SelfRep:
    """Return the snapshot after events, in their order; one that may not be folded refuses all.

    Within a job the sequence must go up, also from where the snapshot's last event left it.
    """
    modules = {each.node_id: each for each in selfrep.modules}
    last = {selfrep.tail.job_seed: selfrep.tail.index} if selfrep.tail.events else {}
    tail = selfrep.tail
    for event in events:
        module = modules.get(event.node_id)
        if module is None:
            raise NotFound(f"there is no module `{event.node_id}`")
        check_event(event)
        _check_order(event, last)
        modules[event.node_id] = module_after(module, event, selfrep.trust)
        tail = Tail(tail.events + 1, event.job_seed, event.event_sequence_index)
    ordered = tuple(modules[each.node_id] for each in selfrep.modules)
    return replace(selfrep, modules=ordered, tail=tail)


def degrade_unproven_agents(selfrep: SelfRep) -> SelfRep:
    """Return a fleet's snapshot in which agents that were judged too rarely are degraded.

    Companion §4.2: the minimum of events holds from zero on, whatever status the fleet's file hopes
    for; else its first success would put an agent behind one that was never tried. A memory or a
    tool is never judged: its status stands.
    """
    return replace(
        selfrep, modules=tuple(degrade_if_unproven(each, selfrep.trust) for each in selfrep.modules)
    )


def degrade_if_unproven(module: Module, constants: TrustConstants) -> Module:
    """Return an agent with the status that its record calls for, where its own is better."""
    if module.type != "agent" or module.status != "healthy":
        return module
    if module.metrics.total_calls >= constants.min_events_for_trust:
        return module
    status, reason = status_after(module.status, module.apt, module.metrics, constants)
    return replace(module, status=status, status_reason=reason)


def check_event(event: TrustEvent) -> None:
    """Raise unless an event matches its id, and its origin may report it."""
    named = event_id(event.job_seed, event.event_sequence_index, event.event_type)
    if event.event_id != named:
        raise IntegrityFailure(f"the event `{event.event_id}` should be named `{named}`")
    is_by_hand = event.event_type == "MANUAL_OVERRIDE"
    if event.origin == event.node_id and event.event_type not in NOTING:
        raise PermissionDenied(f"the module `{event.node_id}` may not change itself")
    if not is_by_hand and (event.apt is not None or event.status is not None):
        raise InputError("only a `MANUAL_OVERRIDE` sets `apt` or `status`")
    if is_by_hand:
        _check_by_hand(event)


def _check_by_hand(event: TrustEvent) -> None:
    if not event.signer or event.signer == event.node_id:
        raise PermissionDenied("a `MANUAL_OVERRIDE` names the principal who signed it")
    if event.signer_role not in GOVERNORS:
        raise PermissionDenied(f"the role `{event.signer_role}` may not override a module")
    if event.apt is None and event.status is None:
        raise InputError("a `MANUAL_OVERRIDE` sets `apt`, `status` or both")
    if event.apt is not None and not ZERO <= event.apt <= ONE:
        raise InputError("`apt` lies outside of 0 to 1")
    if event.status is not None:
        check_set_by_hand(event.signer_role, event.status)


def _check_order(event: TrustEvent, last: dict[str, int]) -> None:
    before, index = last.get(event.job_seed, -1), event.event_sequence_index
    if index <= before:
        word = "folded already" if index == before else f"behind {before}"
        raise InputError(f"the event {index} of job seed `{event.job_seed}` is {word}")
    last[event.job_seed] = index


def module_after(module: Module, event: TrustEvent, constants: TrustConstants) -> Module:
    """Return a module after a checked event."""
    if event.event_type in NOTING:
        return module
    apt = apt_after(module.apt, event, constants)
    metrics = _metrics_after(module.metrics, event)
    if event.status is not None:
        reason = event.note or f"set by {event.signer}"
        status = event.status
        if status == "healthy":
            # Setting a module healthy also ends its run of failures.
            metrics = Metrics(0, metrics.total_calls)
    else:
        status, found = status_after(module.status, apt, metrics, constants)
        reason = found or ("" if status == "healthy" else module.status_reason)
    return replace(
        module,
        apt=apt,
        metrics=metrics,
        status=status,
        status_reason=reason,
        last_updated=event.timestamp_seeded,
    )


def _metrics_after(metrics: Metrics, event: TrustEvent) -> Metrics:
    if event.event_type in FAILING:
        return Metrics(metrics.consecutive_failures + 1, metrics.total_calls + 1)
    if event.event_type in JUDGING:
        # A wrong answer lowers trust by decay alone; only a missing answer counts as a failure.
        return Metrics(0, metrics.total_calls + 1)
    return metrics
