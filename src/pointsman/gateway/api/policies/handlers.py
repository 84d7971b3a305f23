"""Policies as they are being written: rules with their hits, the same checks as the command, a try.

Nothing here changes a file or records anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pointsman.access.keys import Principal
from pointsman.errors import DocumentError, Problem
from pointsman.gateway.api.policies.files import policy_name
from pointsman.gateway.api.policies.shapes import (
    CheckAnswer,
    CheckBody,
    DifferenceBody,
    ProblemRow,
    RuleLine,
    RulesAnswer,
    RuleScope,
    TryBody,
)
from pointsman.gateway.api.policies.writing import check_models
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import instant_text
from pointsman.recording.gathering import configured_models, exact_facts
from pointsman.recording.placing import PlacedTurn
from pointsman.recording.ruling import Policies, decide_turn, policies_in_force
from pointsman.signals.kinds import KINDS
from pointsman.storage.policies.policies import InForce, read_table
from pointsman.storage.stores.turn_index import RuleHits
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import DECISION_VERSION
from pointsman.turns.explain import to_json
from pointsman.turns.facts import FACTS_FORM, GivenFacts, TurnFacts
from pointsman.turns.policy import POLICY_FORM, TurnPolicy, model_names, read_policy, turn_policy
from pointsman.turns.registry.models import read_models
from pointsman.turns.rules.review import (
    Finding,
    Scoped,
    condition_text,
    local_proof,
    review,
    scopes,
)
from pointsman.turns.trace import Shown

_ROUTING: Final = "routing.yaml"
_MODELS: Final = "models.yaml"


class PolicyApi:
    """Serves rules and tries out policies."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._catalog = parts.catalog

    async def list_rules(self, request: ApiRequest) -> RulesAnswer:
        """Tell the rules in force, in order, and how often each chose."""
        caller = request.caller
        return await in_thread(lambda: self._rules(caller))

    def _rules(self, caller: Principal) -> RulesAnswer:
        index, behind = self._catalog.look()
        hits = {each.rule: each for each in index.rule_hits(caller.reach)}
        in_force = self._parts.pointsman.in_force()
        policy = in_force.ready.policy
        findings = review(policy)
        return RulesAnswer(
            policy_id=in_force.policy_id,
            scopes=tuple(_scope(policy, each, hits, findings) for each in scopes(policy)),
            warnings=findings,
            privacy=local_proof(policy),
            problems=tuple(str(each) for each in in_force.problems),
            is_writable=caller.is_admin,
            behind=behind,
        )

    async def check_policy(self, request: ApiRequest) -> CheckAnswer:
        """List the problems of a policy file that is being written."""
        name, text = policy_name(request), request.body_as(CheckBody).text
        return await in_thread(lambda: self._check(name, _bytes(text)))

    def _check(self, name: str, text: bytes) -> CheckAnswer:
        try:
            policy = self._read(name, text)
        except DocumentError as error:
            return CheckAnswer(
                ok=False,
                problems=tuple(map(_problem, error.problems)),
                warnings=(),
                privacy=None,
                policy_id=None,
            )
        proof = local_proof(policy)
        return CheckAnswer(
            ok=proof.holds,
            problems=(),
            warnings=review(policy),
            privacy=proof,
            policy_id=POLICY_FORM.id(policy),
        )

    def _read(self, name: str, text: bytes) -> TurnPolicy:
        """Read a candidate, and give the policy of turns that it would make."""
        pointsman = self._parts.pointsman
        if name == _ROUTING:
            return pointsman.candidate_policy((text, name))
        if name == _MODELS:
            known = pointsman.files.known_models(check_models(self._parts, text))
            routing = pointsman.files.text(_ROUTING) or b"schema_version: 1\n"
            user_home = str(Path.home())
            tables = pointsman.files.routing_tables()
            read = read_policy(routing, _ROUTING, known, user_home, tables=tables)
            return turn_policy(read, known, user_home, tables=tables)
        policy = pointsman.in_force().ready.policy
        read_table(text, name, [each.name for each in KINDS], policy.models)
        return policy

    async def compare_policy(self, request: ApiRequest) -> dict[str, object]:
        """Tell every kind of turns that the candidate decides differently from the one in force."""
        name, given = policy_name(request), request.body_as(DifferenceBody)
        return await in_thread(lambda: self._compare(name, given))

    def _compare(self, name: str, given: DifferenceBody) -> dict[str, object]:
        # Imported here: few gateways are asked to compare.
        from pointsman.operations.rules.difference import (  # noqa: PLC0415 - see above
            compare_policies,
            difference_value,
        )

        pointsman = self._parts.pointsman
        before, after = pointsman.in_force().ready.policy, self._read(name, _bytes(given.text))
        home = pointsman.home if given.count_recorded else None
        return difference_value(compare_policies(before, after, home))

    async def try_policy(self, request: ApiRequest) -> dict[str, object]:
        """Decide a turn under a policy that is being written; records nothing, calls no model."""
        name, given = policy_name(request), request.body_as(TryBody)
        return await in_thread(lambda: self._try(name, given))

    def _try(self, name: str, given: TryBody) -> dict[str, object]:
        pointsman = self._parts.pointsman
        in_force = pointsman.in_force()
        text = _bytes(given.text)
        policy = self._read(name, text)
        known = policies_in_force(in_force)
        policies = Policies(
            known.placement, known.placement_id, compile_policy(policy), POLICY_FORM.id(policy)
        )
        facts = self._facts(given.facts, policies.turns, in_force, text if name == _MODELS else b"")
        about = PlacedTurn("dry-run", "", pointsman.clock.now())
        asked = pointsman.gather_placement(in_force, facts, about)
        started = time.perf_counter_ns()
        ruling = decide_turn(policies, asked, facts)
        shown = Shown(
            turn_id="dry-run",
            session_id="",
            decision_id="",
            at=about.asked_at,
            policy_id=policies.turns_id,
            facts_id=FACTS_FORM.id(ruling.facts),
            decision_version=DECISION_VERSION,
            is_preview=True,
            elapsed_us=(time.perf_counter_ns() - started) // 1000,
            outcome=ruling.outcome,
            trace=ruling.trace,
            placed=ruling.facts.placement,
        )
        return to_json(shown)

    def _facts(
        self, given: GivenFacts, ready: CompiledTurnPolicy, in_force: InForce, models: bytes
    ) -> TurnFacts:
        """Return what a caller wrote as facts of the policy that is tried, with its own models."""
        pointsman = self._parts.pointsman
        if given.configured is None:
            file = read_models(models, _MODELS) if models else in_force.models
            names = configured_models(file, ready.models, pointsman.home.path)
            given = replace(given, configured=names)
        return exact_facts(given, ready, pointsman.files)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _problem(problem: Problem) -> ProblemRow:
    place = problem.place
    return ProblemRow(
        place.source, place.line, place.column, problem.code, problem.message, problem.hint
    )


def _scope(
    policy: TurnPolicy,
    scoped: Scoped,
    hits: dict[str, RuleHits],
    findings: Sequence[Finding],
) -> RuleScope:
    return RuleScope(
        workspace=scoped.workspace,
        default=", ".join(scoped.scope.defaults or model_names(policy.global_default)) or None,
        rules=tuple(_lines(scoped, hits, findings)),
    )


def _lines(
    scoped: Scoped, hits: dict[str, RuleHits], findings: Sequence[Finding]
) -> Iterator[RuleLine]:
    for number, rule in enumerate(scoped.rules):
        seen = hits.get(rule.name)
        yield RuleLine(
            name=rule.name,
            when=condition_text(rule.when),
            use=rule.target_text,
            is_global=number >= scoped.own or scoped.workspace is None,
            hits=0 if seen is None else seen.hits,
            rejected=0 if seen is None else seen.rejected,
            last_at=None if seen is None else instant_text(seen.last),
            findings=tuple(
                each
                for each in findings
                if each.rule_name == rule.name and each.workspace == scoped.workspace
            ),
        )
