"""Which agent takes a job: privacy, then the checks, then the score. 000, 004 §5.

Pure, and never raises on valid facts. The order of the steps is companion D-000-9's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pointsman.agents.codes import Cause, DepthReason, ErrorCode, Excluded, ReasonTag
from pointsman.agents.compiled import (
    CompiledAgents,
    CompiledAgentsPolicy,
    Misses,
    Roster,
    RosterRow,
    Screening,
    compile_policy,
    sorted_rows,
)
from pointsman.agents.facts import FACTS_FORM, JobFacts, with_text
from pointsman.agents.modules.module import action_key
from pointsman.agents.modules.selfrep import SELFREP_FORM
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.rules.scoring import (
    JobChecks,
    ScoredCandidate,
    Scoring,
    candidates,
    depth_of,
    median,
    score_traces,
    to_ranked,
    tokens_of,
    with_fallback,
    without_depth,
    without_tokens,
)
from pointsman.agents.trace import (
    ARTIFACT,
    OUTCOME_FORM,
    TRACE_FORM,
    AgentOutcome,
    Artifact,
    CandidateSource,
    Check,
    DepthTrace,
    IntentSource,
    RouteTrace,
    TokenTrace,
)
from pointsman.errors import IntegrityFailure, MissingSnapshot
from pointsman.kernel.canonical import check_content, content_id
from pointsman.kernel.content import Sealed, Texts
from pointsman.kernel.record import Room
from pointsman.kernel.replay import Decide, Decided, Policies, no_snapshots

DECISION_VERSION: Final = 1
_ROUTERS: Final = 8
"""How many snapshots of modules a replay keeps compiled under one policy."""


Decision = tuple[AgentOutcome, RouteTrace]


class JobIntent(Struct, frozen=True, gc=False):
    """The intent of a job, and the action it needs."""

    intent: str
    source: IntentSource
    action: str
    is_high_risk: bool


_NOTHING: Final = JobIntent("", "none", "", is_high_risk=False)
_OPEN: Final = Check("privacy", 1, 0)
_LEFT: Final = Check("attempts", 1, 0)


def decide(compiled: CompiledAgents, facts: JobFacts) -> tuple[AgentOutcome, RouteTrace]:
    """Decide which agent takes a job."""
    return _Job(compiled, facts).decide()


def artifacts(compiled: CompiledAgents, facts: JobFacts, trace: RouteTrace) -> tuple[Artifact, ...]:
    """Return the lists and texts that were too long for a trace, which only names them.

    Most traces name none. For the others the decision runs again: it is pure, so it makes the same.
    """
    texts = (trace.excluded_artifact, trace.intent, trace.required_action, trace.privacy_reason)
    if not any(ARTIFACT in text for text in texts):
        return ()
    job = _Job(compiled, facts)
    job.decide()
    return tuple(job.artifacts)


class _Job:
    """One job on its way through the checks and the scores."""

    __slots__ = (
        "artifacts", "checks", "config", "considered", "facts", "job_intent", "misses", "policy",
        "roster", "router", "scored", "source",
    )  # fmt: skip

    def __init__(self, router: CompiledAgents, facts: JobFacts) -> None:
        if facts.selfrep_id != router.selfrep_id:
            raise IntegrityFailure(
                f"the facts name the modules `{facts.selfrep_id}`, given are `{router.selfrep_id}`"
            )
        self.router = router
        self.policy: CompiledAgentsPolicy = router.policy
        self.config = router.policy.config
        self.facts = facts
        self.artifacts: list[Artifact] = []
        self.misses = Misses()
        self.roster: Roster | None = None
        """The candidates, where none of them is excluded because of this job."""
        self.checks: tuple[Check, ...] = ()
        self.considered = 0
        self.source: CandidateSource = "none"
        self.scored: list[ScoredCandidate] = []
        self.job_intent = _NOTHING

    def decide(self) -> Decision:
        """Take the steps in order; the first that ends the job decides."""
        facts = self.facts
        if facts.privacy.is_blocked:
            self.checks = (Check("privacy", 0, 1),)
            return self._end("PRIVACY_BLOCKED", Cause.PRIVACY)
        self.job_intent = wanted = self._find_intent()
        if facts.attempt > self.config.max_attempts:
            self.checks = (_OPEN, Check("attempts", 0, 1))
            return self._end("ROUTER_NO_MATCH", Cause.ATTEMPTS_EXHAUSTED)
        checks = JobChecks(self.policy, facts, wanted.intent, wanted.action)
        scoring = Scoring(self.config, facts.mind)
        self.scored = candidates(self._check_candidates(checks), scoring)
        best = self.scored[0] if self.scored else None
        if best is not None and best.final >= self.config.min_score:
            return self._make_decision(best)
        return self._fall_back(checks, scoring)

    def _find_intent(self) -> JobIntent:
        """Find the intent and its action, where the caller does not name them."""
        facts, policy = self.facts, self.policy
        intent, action = facts.intent, facts.required_action
        source: IntentSource = "given" if intent else "none"
        found = policy.intents.get(intent) if intent else None
        if not intent and policy.matcher.reads_text:
            found = policy.matcher.first_intent(_text(facts.query))
            if found is not None:
                intent, source = found.intent, "pattern"
        if found is not None:
            action = action or found.required_action
        is_high_risk = bool(action) and action_key(action) in policy.high_risk
        return JobIntent(intent, source, action, is_high_risk=is_high_risk)

    def _check_candidates(self, checks: JobChecks) -> Sequence[RosterRow]:
        """Return the candidates that pass the checks, by trust; note the others."""
        pool = self._candidates()
        if isinstance(pool, Roster):
            if checks.excludes_none_of(pool):
                self.roster = pool
                self.checks = (_OPEN, _LEFT, *pool.screening.checks)
                return pool.first
            pool = pool.rows
        found = checks.passing_rows(pool, self.config.top_n, self.misses)
        self.checks = (_OPEN, _LEFT, *self.misses.checks(self.considered))
        return found

    def _candidates(self) -> Roster | Sequence[RosterRow]:
        """Return the candidates by trust: those listed, of the intent, or all agents."""
        router, names = self.router, self.facts.candidate_list
        if names:
            self.source = "given"
            return self._named_rows(names)
        intent = self.job_intent.intent
        known = self.policy.intents.get(intent) if intent else None
        if known is not None and known.candidates:
            self.source = "intent"
            return self._named_rows(known.candidates)
        able = router.by_capability.get(intent) if intent else None
        self.source = "all_agents" if able is None else "capability"
        roster = router.agents if able is None else able
        self.considered = len(roster.rows)
        return roster

    def _named_rows(self, names: tuple[str, ...]) -> list[RosterRow]:
        rows, kept, misses = self.router.rows, self.router.fallback_names, self.misses
        unknown, found = misses.by_check["known"], []
        for name in sorted(set(names)):
            row = rows.get(name)
            if row is None:
                unknown.append((name, Excluded.UNKNOWN_NODE, ""))
            elif name in kept:
                misses.kept.append((name, Excluded.KEPT_AS_FALLBACK, ""))
            else:
                found.append(row)
        self.considered = len(found) + len(unknown) + len(misses.kept)
        return sorted_rows(found)

    def _fall_back(self, checks: JobChecks, scoring: Scoring) -> Decision:
        """Let the first fallback that is allowed take the job (D-000-13)."""
        if self.roster is not None:
            self.misses, self.roster = self.roster.misses(), None
        self.misses.kept = []
        for row in self.router.fallbacks:
            miss = checks.miss(row)
            if miss is None:
                self.scored = with_fallback(self.scored, row, scoring)
                return self._make_decision(next(each for each in self.scored if each.row is row))
            self.misses.by_check[miss[0]].append(miss[1])
        if self.scored:
            cause = Cause.NONE_SCORED
        else:
            cause = Cause.NONE_ALLOWED if len(self.misses) else Cause.NO_CANDIDATE
        return self._end("ROUTER_NO_MATCH", cause)

    def _end(self, code: ErrorCode, cause: Cause) -> Decision:
        return self._make_decision(None, code, cause)

    def _make_decision(
        self, chosen: ScoredCandidate | None, code: ErrorCode = "", cause: Cause = Cause.NONE
    ) -> Decision:
        wanted, scored, config, mind = self.job_intent, self.scored, self.config, self.facts.mind
        intent, action = self._cap(wanted.intent), self._cap(wanted.action)
        depth, tokens = depth_of(config, mind), tokens_of(config, mind)
        if chosen is None:
            depth, tokens = without_depth(depth, DepthReason.NO_AGENT), without_tokens(tokens)
        elif chosen.tag is ReasonTag.FALLBACK_GENERIC:
            depth = without_depth(depth, DepthReason.FALLBACK)
        outcome = AgentOutcome(
            None if chosen is None else chosen.row.node_id,
            None if chosen is None else chosen.tag,
            depth.depth,
            tokens.allocated,
            to_ranked(scored),
            wanted.is_high_risk,
            (f"{action} is a high-risk action",) if wanted.is_high_risk else (),
            intent,
            action,
            code,
            cause,
            config.version,
        )
        trace = self._trace(intent, action, depth, tokens)
        return outcome, trace

    def _trace(self, intent: str, action: str, depth: DepthTrace, tokens: TokenTrace) -> RouteTrace:
        facts, mind, scored = self.facts, self.facts.mind, self.scored
        middle = median(scored)
        screened = self._screening()
        return RouteTrace(
            facts.attempt,
            max(0, self.config.max_attempts - facts.attempt),
            facts.excluded,
            intent,
            self.job_intent.source,
            action,
            self.source,
            self.considered,
            self.checks,
            screened.excluded,
            screened.total,
            "" if screened.artifact is None else self._keep_artifact(screened.artifact),
            score_traces(scored, middle, prefers_high_apt=mind.prefer_high_apt),
            middle,
            mind.prefer_high_apt,
            mind.allow_explore,
            mind.explore_bias,
            depth,
            tokens,
            self.router.fallback_names,
            self._cap(facts.privacy.reason),
        )

    def _screening(self) -> Screening:
        if self.roster is not None:
            return self.roster.screening
        return self.misses.screening(self.checks, self.config)

    def _cap(self, text: str) -> str:
        """Return a text as the trace holds it: cut, with the id of the whole, where it is long."""
        most = self.config.trace_chars
        if len(text) <= most:
            return text
        body = text.encode("utf-8", "surrogatepass")
        name = self._keep_artifact(Artifact(content_id(body), body))
        return f"{text[: max(0, most - len(name) - 2)]}… {name}"

    def _keep_artifact(self, artifact: Artifact) -> str:
        if artifact not in self.artifacts:
            self.artifacts.append(artifact)
        return ARTIFACT + artifact.id


def _text(query: str | Sealed) -> str:
    if isinstance(query, Sealed):
        # Without the text the intent would be another one, unnoticed.
        raise MissingSnapshot(f"the query `{query.digest}` is sealed, and a pattern reads it")
    return query


class AgentDecider:
    """The room's `decide` for replay: the policy and the modules are read once each."""

    kind: Room = "agent"
    version = DECISION_VERSION

    def under(self, policy: bytes, snapshots: Policies = no_snapshots) -> Decide:
        """Read a recorded policy once, for all the decisions made under it."""
        ready = compile_policy(POLICY_FORM.form.decode(policy))
        routers: dict[str, CompiledAgents] = {}

        def run(facts: bytes, texts: Texts) -> Decided:
            job = _with_query(ready, FACTS_FORM.decode(facts), texts)
            router = routers.get(job.selfrep_id)
            if router is None:
                if len(routers) >= _ROUTERS:
                    routers.pop(next(iter(routers)))
                router = routers[job.selfrep_id] = _router(ready, job.selfrep_id, snapshots)
            outcome, trace = decide(router, job)
            return Decided(OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))

        return run


def _router(ready: CompiledAgentsPolicy, name: str, snapshots: Policies) -> CompiledAgents:
    body = snapshots(name)
    check_content(name, body, "snapshot")
    return CompiledAgents(ready, SELFREP_FORM.form.decode(body))


def _with_query(ready: CompiledAgentsPolicy, facts: JobFacts, texts: Texts) -> JobFacts:
    # Only where a pattern reads the query is it needed: erasing leaves the others replayable.
    is_read = ready.matcher.reads_text and not facts.intent and not facts.privacy.is_blocked
    return with_text(facts, texts) if is_read else facts


DECIDER: Final = AgentDecider()
