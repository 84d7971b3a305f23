"""Exact values out of what was written: defaults filled in and told, lists in one order."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from msgspec import UNSET, UnsetType, structs

from pointsman.agents.file.agents_file import AgentsFile, GivenModule, GivenSelfRep, GivenTrust
from pointsman.agents.file.config import router_config
from pointsman.agents.modules.module import (
    Edge,
    Metrics,
    Module,
    ModulePolicy,
    Registration,
    edge,
)
from pointsman.agents.modules.selfrep import NO_EVENTS, SCHEMA_VERSION, SelfRep
from pointsman.agents.policy import AgentsPolicy, Intent, RoleAccess
from pointsman.agents.trust.apt import DEFAULT_TRUST, TrustConstants
from pointsman.agents.trust.status import status_after
from pointsman.kernel.instant import EPOCH, Instant, read_instant
from pointsman.kernel.number import Billionths, billionths, billionths_text


def agents_policy(file: AgentsFile) -> AgentsPolicy:
    """Give the policy of a file that was checked."""
    config, warnings = router_config(file.router_config)
    return AgentsPolicy(
        router_config=config,
        intents=tuple(
            Intent(each.intent, each.patterns, each.required_action, _ordered(each.candidates))
            for each in file.intents
        ),
        roles=tuple(
            RoleAccess(
                role,
                None if each.modules is None else _ordered(each.modules),
                _ordered(each.denied),
            )
            for role, each in sorted(file.roles.items())
        ),
        warnings=warnings,
    )


def selfrep_of(given: GivenSelfRep | AgentsFile, config_hash: str) -> SelfRep:
    """Give the snapshot of modules that were checked, under the router's snapshot in force."""
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
    """Give the edges by their ends; a dependency without an edge of its own is a required one."""
    found = {(each.from_, each.to): each.required for each in given.edges}
    for node_id, module in given.modules.items():
        for name in module.dependencies:
            found.setdefault((node_id, name), True)
    return tuple(edge(*ends, required=required) for ends, required in sorted(found.items()))


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
        capabilities=_ordered(given.capabilities),
        dependencies=needs,
        policy=ModulePolicy(
            _ordered(given.policy.allowed_actions), _ordered(given.policy.forbidden_actions)
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


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    # DETERMINISM: one order, whatever order they are written in.
    return tuple(sorted(set(names)))
