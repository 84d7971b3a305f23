"""`/router/decide` and `/selfrep/…`: which agent takes a job, and the modules it is chosen from."""

from __future__ import annotations

from msgspec import structs

from pointsman.agents.explain import ShownRoute, number, to_json
from pointsman.agents.facts import read_facts
from pointsman.agents.file.agents_file import GivenSelfRep, read_selfrep_document
from pointsman.agents.modules.module import Edge, Module
from pointsman.agents.modules.selfrep import SelfRep, selfrep_id
from pointsman.agents.modules.trust import TrustConstants
from pointsman.errors import JobPrivacyBlocked, RouterNoMatch
from pointsman.gateway.api.agents.call import AgentCall, CallAnswer, refusal_value
from pointsman.gateway.api.agents.shapes import (
    EdgeRow,
    ModuleRegistered,
    ModuleRow,
    SelfRepAnswer,
    SelfRepKept,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import instant_text
from pointsman.signals.redaction import redact

_WHOLE = ("min_events_for_trust", "failures_offline")


class AgentApi:
    """Serves the choice of agents, and snapshots of the modules."""

    def __init__(self, parts: GatewayServices) -> None:
        self._clock = parts.pointsman.clock
        self._agency = parts.pointsman.agency

    def decide(self, call: AgentCall) -> CallAnswer:
        """Choose the agent that takes a job."""
        given = structs.replace(read_facts(call.body), trace_id=call.trace_id)
        route = self._agency.decide(given, call.hand_on())
        return self._refuse(route) if route.outcome.error_code else CallAnswer(to_json(route))

    def create_snapshot(self, call: AgentCall) -> CallAnswer:
        """Keep a snapshot of the modules that are sent, or, where none are, of the live ones."""
        given = _modules(call)
        kept = self._agency.record_selfrep(given, call.hand_on())
        return CallAnswer(SelfRepKept(kept.id, kept.warnings, call.trace_id))

    def show_live(self, call: AgentCall) -> CallAnswer:
        """Tell how the modules of this home stand now."""
        found = self._agency.live()
        name = selfrep_id(found)
        return CallAnswer(_selfrep(call, name, found), name)

    def show_snapshot(self, call: AgentCall) -> CallAnswer:
        """Return a snapshot of the modules."""
        name = call.part("id")
        return CallAnswer(_selfrep(call, name, self._agency.selfrep(name, call.hand_on())))

    def _refuse(self, route: ShownRoute) -> CallAnswer:
        """Return the refusal of a job that no agent takes: the error, and the recorded decision."""
        outcome = route.outcome
        kind = JobPrivacyBlocked if outcome.error_code == "PRIVACY_BLOCKED" else RouterNoMatch
        cause = f"{outcome.cause.value}: {outcome.cause.meaning}"
        reason = route.trace.privacy_reason
        error = kind(f"{cause}: {reason}" if reason else cause)
        now = instant_text(self._clock.now())
        value = {**to_json(route), **refusal_value(error, route.trace_id, now)}
        return CallAnswer(value, status=error.http_status, code=error.code)


def _modules(call: AgentCall) -> GivenSelfRep | None:
    document = call.without_trace()
    return None if document.value == {} else read_selfrep_document(document)


def _selfrep(call: AgentCall, name: str, found: SelfRep) -> SelfRepAnswer:
    return SelfRepAnswer(
        selfrep_snapshot_id=name,
        schema_version=found.schema_version,
        config_hash=found.config_hash,
        modules={each.node_id: _module(call, each) for each in found.modules},
        edges=tuple(_edge(each) for each in found.edges),
        trust=_trust(found.trust),
        events=found.tail.events,
        warnings=found.warnings,
        redacted=not call.is_full,
        trace_id=call.trace_id,
    )


def _module(call: AgentCall, module: Module) -> ModuleRow:
    """Return a module; where redacted, with personal data taken out of its texts."""
    said = str if call.is_full else redact
    by = module.registration
    return ModuleRow(
        node_id=module.node_id,
        type=module.type,
        display_name=said(module.display_name),
        version=module.version,
        status=module.status,
        status_reason=said(module.status_reason),
        apt=number(module.apt),
        metrics=module.metrics,
        capabilities=module.capabilities,
        dependencies=module.dependencies,
        policy=module.policy,
        registration=ModuleRegistered(said(by.registered_by), instant_text(by.registered_at)),
        last_updated=instant_text(module.last_updated),
        is_fallback=module.is_fallback,
    )


def _edge(edge: Edge) -> EdgeRow:
    return EdgeRow(edge.edge_id, edge.from_, edge.to, edge.required)


def _trust(trust: TrustConstants) -> dict[str, float]:
    values = structs.asdict(trust)
    return {key: each if key in _WHOLE else number(each) for key, each in values.items()}
