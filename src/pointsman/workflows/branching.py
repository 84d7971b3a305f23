"""The service that decides which branch a workflow takes: cache, decide with guardrails, record.

INVARIANT: an evaluation is durable when it is returned, whether it came from the cache or not. A
dry run uses the same code and records nothing.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from contextlib import closing
from functools import cached_property

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.access.actors import OWNER
from pointsman.branches.compiled import CompiledDecision, CompiledDecisions
from pointsman.branches.decide import DECISION_VERSION, decide
from pointsman.branches.facts import FACTS_FORM, Approval, BranchFacts, read_facts
from pointsman.branches.policy import POLICY_FORM, Decision
from pointsman.branches.trace import HELD, OUTCOME_FORM, TRACE_FORM, BranchOutcome, BranchTrace
from pointsman.errors import ReplayError
from pointsman.expressions.evaluate import EvaluationScope, RootNames
from pointsman.expressions.syntax import Path
from pointsman.expressions.values import Missing, Value, follow_path
from pointsman.governance.action import Actor
from pointsman.kernel.canonical import ContentId, Form, canonical_json
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.kernel.record import Aside, Names, decision_draft
from pointsman.kernel.snapshot import snapshot_draft
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.recorder import MadeDecision, Recorder
from pointsman.storage.home import Home
from pointsman.storage.policies.decision_files import DecisionFiles, DecisionsInForce, policy_of
from pointsman.storage.stores.decision_cache import DecisionCache, Kept
from pointsman.storage.stores.entries import LedgerReader
from pointsman.version import VERSION
from pointsman.workflows.branch_approvals import BranchApprovals

INPUT = "input"

_IN_CONDITION = RootNames()
_IN_INPUT = RootNames(has_input=False)


def cache_key(policy_id: ContentId, ready: CompiledDecision, facts: BranchFacts) -> bytes:
    """Return the key of an answer: the definition, the values read and the approvals.

    INVARIANT: two contexts with one key have one answer, to the byte (D-003-3).
    """
    approved: list[Value] = list(facts.approved)
    return _digest([policy_id.encode(), canonical_json(approved), *_values(ready, facts)])


def input_artifacts(ready: CompiledDecision, facts: BranchFacts) -> tuple[str, ...]:
    """Name the artifacts an evaluation read, for its lineage.

    A mapping that the decision reads from and that has an `artifact_id` or `id` is an artifact, by
    that name and its `version`; without any, all values read are one, by their content.
    """
    scope = EvaluationScope(facts.context)
    roots = [path.root for path in (*ready.input.reads, *ready.reads) if path.root != INPUT]
    found = [_IN_INPUT.start(each, scope) for each in dict.fromkeys(roots)]
    named = [_artifact(each) for each in found if isinstance(each, dict)]
    artifacts = tuple(dict.fromkeys(each for each in named if each))
    if artifacts:
        return artifacts
    return (f"value:{_digest(_values(ready, facts)).hex()[:32]}",)


def _values(ready: CompiledDecision, facts: BranchFacts) -> list[bytes]:
    """Return every value that the input and the conditions read; the first determine the input."""
    scope = EvaluationScope(facts.context)
    read = [_encode_path(path, scope, _IN_INPUT) for path in ready.input.reads]
    return read + [
        _encode_path(path, scope, _IN_CONDITION) for path in ready.reads if path.root != INPUT
    ]  # fmt: skip


def _encode_path(path: Path, scope: EvaluationScope, names: RootNames) -> bytes:
    found = follow_path(names.start(path.root, scope), path.steps)
    return b"" if isinstance(found, Missing) else canonical_json(found)


def _digest(parts: list[bytes]) -> bytes:
    said = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(said).digest()


def _artifact(value: Mapping[str, Value]) -> str:
    name = next((value[key] for key in ("artifact_id", "id") if value.get(key) is not None), None)
    if not _is_name(name):
        return ""
    version = value.get("version")
    return f"artifact:{name}@{version}" if _is_name(version) else f"artifact:{name}"


def _is_name(value: Value) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


CACHED = "cached"
CACHE_FILE = "decision-cache.db"
MILLISECOND = 1_000


class About(Struct, frozen=True, forbid_unknown_fields=True):
    """The run and stage of an evaluation; attached to its entry, outside the replayed bytes.

    `evaluation_id` and `evaluated_at` tell where a cached answer first came from.
    """

    workflow_id: str
    stage_id: str
    step: int
    evaluation_id: str
    evaluated_at: int
    artifacts: tuple[str, ...]


ABOUT_FORM = Form(About)


class EvaluationRequest(Struct, frozen=True):
    """The run and actor a decision is evaluated for; `approved` are targets approved beforehand.

    `step` counts the stages of a run from 1; 0 where there is no run. `by` requests approval where
    it is needed, and has no vote on it.
    """

    workflow_id: str = ""
    stage_id: str = ""
    step: int = 0
    approved: tuple[str, ...] = ()
    by: Actor = OWNER
    tenant: str = ""
    """The tenant whose key asks; empty without one."""


NO_RUN = EvaluationRequest()


class BranchEvaluation(Struct, frozen=True):
    """One evaluation: the answer, and the names and instants it is recorded under.

    `at` is the time of the call, `evaluated_at` of the decision: earlier where it is cached.
    """

    evaluation_id: str
    at: Instant
    evaluated_at: Instant
    is_cached: bool
    is_dry_run: bool
    policy_id: ContentId
    facts_id: ContentId
    decision: Decision
    request: EvaluationRequest
    outcome: BranchOutcome
    trace: BranchTrace
    elapsed_us: int = 0


class _DecidedAnswer(Struct, frozen=True):
    """A decision, its facts, and the approvals it claims."""

    facts: BranchFacts
    outcome: BranchOutcome
    trace: BranchTrace
    used: tuple[Approval, ...] = ()


class Branching:
    """The decisions of one home, evaluated and recorded.

    With `approvals`, a choice that needs approval requests it, and waits for it.
    """

    def __init__(
        self,
        home: Home,
        decision_recorder: DecisionRecorder,
        clock: Clock,
        ids: IdSource,
        approvals: BranchApprovals | None = None,
    ) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._clock = clock
        self._ids = ids
        self.approvals = approvals
        self.files = DecisionFiles(home.path)

    @cached_property
    def cache(self) -> DecisionCache:
        """The answers that all processes of the home share."""
        return DecisionCache(self._home.path / CACHE_FILE, self._home.content_key())

    def close(self) -> None:
        """Close the cache."""
        if "cache" in vars(self):
            self.cache.close()

    def in_force(self) -> DecisionsInForce:
        """Return the decisions in force and the problems of their files."""
        return self.files.current()

    def evaluate(
        self, decision_id: str, context: Mapping[str, Value], request: EvaluationRequest = NO_RUN
    ) -> BranchEvaluation:
        """Evaluate a decision; the answer is recorded durably before this returns."""
        in_force = self.in_force()
        ready, policy_id = in_force.ready.decision(decision_id), in_force.policy_id(decision_id)
        decision = ready.decision
        facts = read_facts(decision_id, context, request.approved)
        now, started = self._clock.now(), time.perf_counter_ns()
        key = cache_key(policy_id, ready, facts) if decision.cache.enabled else b""
        found = self._read_cache(key, now) if key else None
        outcome, trace, source = found or (*decide(in_force.ready, facts), None)
        answered, name = _DecidedAnswer(facts, outcome, trace), self._ids.new_id()
        if outcome.approval_required and self.approvals is not None:
            # An answer with an approval in it is valid once: it is not cached.
            key, source = b"", None
            answered = self._decide_with_approvals(
                self.approvals, in_force, answered, request, name
            )
        facts = answered.facts
        evaluation = BranchEvaluation(
            evaluation_id=name,
            at=now,
            evaluated_at=now if source is None else Instant(source.evaluated_at),
            is_cached=source is not None,
            is_dry_run=False,
            policy_id=policy_id,
            facts_id=FACTS_FORM.id(facts.to_recorded()),
            decision=decision,
            request=request,
            outcome=answered.outcome,
            trace=answered.trace,
            elapsed_us=(time.perf_counter_ns() - started) // 1000,
        )
        evaluation = self._record(evaluation, ready, facts, source)
        if answered.used and self.approvals is not None:
            self.approvals.mark_used(answered.used, request.by, name)
        if key and source is None:
            self._write_cache(key, evaluation)
        return evaluation

    def has_changed(self, evaluation_id: str) -> bool:
        """Tell whether the status of a request that an evaluation waited for has changed."""
        if self.approvals is None:
            return False
        with closing(LedgerReader(self._home.database)) as ledger:
            found = [
                facts
                for each in ledger.with_id(evaluation_id)
                for facts in ledger.attachments(each)[:1]
            ]
        waited = [each for facts in found for each in FACTS_FORM.decode(facts).approvals]
        return self.approvals.has_changed(waited)

    def _decide_with_approvals(
        self,
        approvals: BranchApprovals,
        in_force: DecisionsInForce,
        made: _DecidedAnswer,
        request: EvaluationRequest,
        name: str,
    ) -> _DecidedAnswer:
        """Decide again on the status of approvals; one that admits the choice is claimed.

        INVARIANT: it is claimed before the choice is recorded, so that it admits one at most.
        """
        decision_id = made.facts.decision_id
        policy_id, ready = in_force.policy_id(decision_id), in_force.ready
        inputs = cache_key(policy_id, ready.decision(decision_id), made.facts).hex()
        targets, by = made.outcome.approval_required, request.by
        found = approvals.gather(decision_id, targets, inputs, by, request.workflow_id)
        again = _decide_on(ready, made.facts, found)
        if again.outcome.approval_required or again.outcome.verdict in HELD:
            return again
        if approvals.claim(found, by, name):
            return replace(again, used=found)
        return _decide_on(ready, made.facts, tuple(replace(each, status="used") for each in found))

    def _record(
        self,
        made: BranchEvaluation,
        ready: CompiledDecision,
        facts: BranchFacts,
        source: _Source | None,
    ) -> BranchEvaluation:
        recorder = self._decision_recorder.recorder()
        first = made.evaluation_id if source is None else source.evaluation_id
        about = About(
            workflow_id=made.request.workflow_id,
            stage_id=made.request.stage_id,
            step=made.request.step,
            evaluation_id=first,
            evaluated_at=made.evaluated_at,
            artifacts=input_artifacts(ready, facts),
        )
        names = Names(made.evaluation_id, made.request.workflow_id, made.at)
        record = branch_decision(made, facts, self._home.identity.ledger)
        tenant = made.request.tenant or UNSET
        aside = Aside(made.elapsed_us, self._ids.new_id(), "", False, VERSION, tenant)  # noqa: FBT003 - no preview
        linked = CACHED if made.is_cached else ""
        at = _append(recorder, names, record, aside, linked, about)
        return replace(made, at=at, evaluated_at=made.evaluated_at if made.is_cached else at)

    def _read_cache(
        self, key: bytes, now: Instant
    ) -> tuple[BranchOutcome, BranchTrace, _Source] | None:
        kept = self.cache.get(key, now)
        if kept is None:
            return None
        try:
            answer = _ANSWER_FORM.decode(kept.body)
        except ReplayError:
            # Another version of the program stored it in another form.
            return None
        return answer.outcome, answer.trace, _Source(answer.evaluation_id, answer.evaluated_at)

    def _write_cache(self, key: bytes, made: BranchEvaluation) -> None:
        answer = _CachedAnswer(made.evaluation_id, made.evaluated_at, made.outcome, made.trace)
        expires = Instant(made.at + made.decision.cache.ttl_ms * MILLISECOND)
        body = _ANSWER_FORM.encode(answer)
        self.cache.store(key, Kept(made.decision.id, body, made.at, expires))


def _decide_on(
    ready: CompiledDecisions, facts: BranchFacts, approvals: tuple[Approval, ...]
) -> _DecidedAnswer:
    facts = replace(facts, approvals=approvals)
    return _DecidedAnswer(facts, *decide(ready, facts))


class _Source(Struct, frozen=True):
    evaluation_id: str
    evaluated_at: int


class _CachedAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    evaluation_id: str
    evaluated_at: int
    outcome: BranchOutcome
    trace: BranchTrace


_ANSWER_FORM = Form(_CachedAnswer)


def dry_run(
    in_force: DecisionsInForce, decision_id: str, context: Mapping[str, Value], at: Instant
) -> BranchEvaluation:
    """Evaluate a decision without recording it or reading the cache."""
    decision = in_force.ready.decision(decision_id).decision
    facts = read_facts(decision_id, context)
    outcome, trace = decide(in_force.ready, facts)
    return BranchEvaluation(
        evaluation_id="",
        at=at,
        evaluated_at=at,
        is_cached=False,
        is_dry_run=True,
        policy_id=in_force.policy_id(decision_id),
        facts_id=FACTS_FORM.id(facts.to_recorded()),
        decision=decision,
        request=NO_RUN,
        outcome=outcome,
        trace=trace,
    )


def branch_decision(made: BranchEvaluation, facts: BranchFacts, ledger: str) -> MadeDecision:
    """Build the recorded decision of an evaluation."""
    policy = policy_of(made.decision)
    return MadeDecision(
        "branch",
        DECISION_VERSION,
        made.policy_id,
        lambda key: POLICY_FORM.make(policy, ledger, key),
        FACTS_FORM.encode(facts.to_recorded()),
        OUTCOME_FORM.encode(made.outcome),
        TRACE_FORM.encode(made.trace),
    )


def _append(
    recorder: Recorder, names: Names, made: MadeDecision, aside: Aside, linked: str, about: About
) -> Instant:
    """Record an evaluation with its run and stage, in one entry."""
    key = recorder.key
    recorder.ensure_snapshot(made.policy_id, lambda: snapshot_draft(made.policy(key), names.at))
    draft = decision_draft(names, made.record, aside, made.facts, linked)
    draft = replace(draft, attachments=(*draft.attachments, ABOUT_FORM.encode(about)))
    return recorder.record(draft).entry.at
