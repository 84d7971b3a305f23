"""Makes the snapshot of modules from a file: defaults filled in and listed, lists sorted."""

from __future__ import annotations

from decimal import Decimal

from msgspec import UNSET, UnsetType, structs

from pointsman.agents.file.agents_file import (
    AgentsFile,
    GivenModule,
    GivenSelfRep,
    GivenTrust,
    sorted_names,
)
from pointsman.agents.modules.module import (
    Edge,
    Metrics,
    Module,
    ModulePolicy,
    Registration,
    make_edge,
)
from pointsman.agents.modules.selfrep import NO_EVENTS, SCHEMA_VERSION, SelfRep
from pointsman.agents.modules.trust import DEFAULT_TRUST, TrustConstants, status_after
from pointsman.kernel.instant import EPOCH, Instant, read_instant
from pointsman.kernel.number import Billionths, billionths, billionths_text


def make_selfrep(given: GivenSelfRep | AgentsFile, config_hash: str) -> SelfRep:
    """Return the snapshot of checked modules, under the router's snapshot in force."""
    trust, warnings = _trust(given.trust)
    edges = _edges(given)
    needs: dict[str, list[str]] = {}
    for each in edges:
        needs.setdefault(each.from_, []).append(each.to)
    modules = []
    for node_id, module in sorted(given.modules.items()):
        made, told = _module(node_id, module, tuple(needs.get(node_id, ())), trust)
        modules.append(made)
        warnings += told
    return SelfRep(
        SCHEMA_VERSION, config_hash, tuple(modules), edges, trust, NO_EVENTS, tuple(warnings)
    )


def _edges(given: GivenSelfRep | AgentsFile) -> tuple[Edge, ...]:
    """Return the edges by their ends; a dependency without an edge of its own is a required one."""
    found = {(each.from_, each.to): each.required for each in given.edges}
    for node_id, module in given.modules.items():
        for name in module.dependencies:
            found.setdefault((node_id, name), True)
    return tuple(make_edge(*ends, required=required) for ends, required in sorted(found.items()))


def _module(
    node_id: str, given: GivenModule, needs: tuple[str, ...], trust: TrustConstants
) -> tuple[Module, list[str]]:
    warnings = []
    apt = trust.apt_init if given.apt is UNSET else _fraction(given.apt)
    if given.apt is UNSET:
        warnings.append(f"modules.{node_id}.apt: default {billionths_text(apt)}")
    metrics = Metrics(given.metrics.consecutive_failures, given.metrics.total_calls)
    status, reason = given.status, given.status_reason or ""
    if isinstance(status, UnsetType):
        status, found = status_after("healthy", apt, metrics, trust)
        reason = reason or found
        warnings.append(f"modules.{node_id}.status: {status} by its record")
    made = Module(
        node_id=node_id,
        type=given.type,
        display_name=given.display_name or node_id,
        version=given.version,
        status=status,
        status_reason=reason,
        apt=apt,
        metrics=metrics,
        capabilities=sorted_names(given.capabilities),
        dependencies=needs,
        policy=ModulePolicy(
            sorted_names(given.policy.allowed_actions), sorted_names(given.policy.forbidden_actions)
        ),
        registration=Registration(
            given.registration.registered_by, _instant(given.registration.registered_at)
        ),
        last_updated=_instant(given.last_updated),
        is_fallback=given.is_fallback,
    )
    return made, warnings


def _trust(given: GivenTrust) -> tuple[TrustConstants, list[str]]:
    changes: dict[str, object] = {}
    warnings = []
    for name in GivenTrust.__struct_fields__:
        value = getattr(given, name)
        if value is UNSET:
            default = getattr(DEFAULT_TRUST, name)
            whole = name in {"min_events_for_trust", "failures_offline"}
            text = str(default) if whole else billionths_text(default)
            warnings.append(f"trust.{name}: default {text}")
        else:
            changes[name] = _fraction(value) if isinstance(value, Decimal) else value
    return structs.replace(DEFAULT_TRUST, **changes), warnings


def _fraction(value: Decimal) -> Billionths:
    return billionths(str(value))


def _instant(text: str) -> Instant:
    return read_instant(text) if text else EPOCH
