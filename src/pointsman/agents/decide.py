"""Which agent takes a job: privacy, then who may be asked, then the score. 000, 004 §5.

Pure, and never raises on valid facts. The order of the steps is companion D-000-9's.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from pointsman.agents.budget import depth_of, shallow, tokens_of, without_tokens
from pointsman.agents.checks import Gate, Misses
from pointsman.agents.codes import Cause, DepthReason, ErrorCode, Excluded, ReasonTag
from pointsman.agents.facts import FACTS_FORM, JobFacts, with_text
from pointsman.agents.module import action_key
from pointsman.agents.policy import POLICY_FORM
from pointsman.agents.ready import ReadyPolicy, Roster, Router, Row, sorted_rows
from pointsman.agents.score import Candidate, Scoring, median, tie_break
from pointsman.agents.selfrep import SELFREP_FORM
from pointsman.agents.trace import (
    ARTIFACT,
    OUTCOME_FORM,
    TRACE_FORM,
    AgentOutcome,
    Artifact,
    CandidateSource,
    Check,
    DepthTrace,
    Exclusion,
    IntentSource,
    RouteTrace,
    Scored,
    TokenTrace,
)
from pointsman.errors import IntegrityFailure, MissingSnapshot
from pointsman.kernel.canonical import check_content, content_id
from pointsman.kernel.content import Sealed, Texts
from pointsman.kernel.number import Billionths
from pointsman.kernel.record import Room
from pointsman.kernel.replay import Decide, Decided, Policies, no_snapshots

DECISION_VERSION: Final = 1
_ROUTERS: Final = 8
"""How many snapshots of modules a replay keeps ready under one policy."""


class Routed(NamedTuple):
    """A choice, its trace, and what was too long to stand in it."""

    outcome: AgentOutcome
    trace: RouteTrace
    artifacts: tuple[Artifact, ...]


class Asked(Struct, frozen=True, gc=False):
    """What the job turned out to be."""

    intent: str
    source: IntentSource
    action: str
    is_high_risk: bool


def decide(router: Router, facts: JobFacts) -> tuple[AgentOutcome, RouteTrace]:
    """Decide which agent takes a job."""
    found = routed(router, facts)
    return found.outcome, found.trace


def routed(router: Router, facts: JobFacts) -> Routed:
    """Decide which agent takes a job; the artifacts are what the trace only names."""
    if facts.selfrep_id != router.selfrep_id:
        raise IntegrityFailure(
            f"the facts name the modules `{facts.selfrep_id}`, given are `{router.selfrep_id}`"
        )
    return _Job(router, facts).routed()


class _Job:
    """One job on its way through the checks and the scores."""

    __slots__ = (
        "artifacts", "asked", "checks", "config", "considered", "facts", "misses", "policy",
        "router", "scored", "source",
    )  # fmt: skip

    def __init__(self, router: Router, facts: JobFacts) -> None:
        self.router = router
        self.policy: ReadyPolicy = router.policy
        self.config = router.policy.config
        self.facts = facts
        self.artifacts: list[Artifact] = []
        self.misses = Misses()
        self.checks: list[Check] = []
        self.considered = 0
        self.source: CandidateSource = "none"
        self.scored: list[Candidate] = []
        self.asked = Asked("", "none", "", is_high_risk=False)

    def routed(self) -> Routed:
        """Go through the steps; the first that ends the job says so."""
        facts = self.facts
        is_open = not facts.privacy.is_blocked
        self.checks.append(Check("privacy", int(is_open), int(not is_open)))
        if not is_open:
            return self._ended("PRIVACY_BLOCKED", Cause.PRIVACY)
        self.asked = self._asked()
        is_left = facts.attempt <= self.config.max_attempts
        self.checks.append(Check("attempts", int(is_left), int(not is_left)))
        if not is_left:
            return self._ended("ROUTER_NO_MATCH", Cause.ATTEMPTS_EXHAUSTED)
        gate = Gate(self.policy, facts, self.asked.intent, self.asked.action)
        self._score(gate)
        best = self.scored[0] if self.scored else None
        if best is not None and best.final >= self.config.min_score:
            return self._taken(best)
        return self._fallen_back(gate)

    def _asked(self) -> Asked:
        """Find the intent and what it needs, where the caller does not say so."""
        facts, policy = self.facts, self.policy
        source: IntentSource = "given" if facts.intent else "none"
        found = policy.intents.get(facts.intent) if facts.intent else None
        if not facts.intent and policy.matcher.reads_text:
            found = policy.matcher.found(_text(facts.query))
            source = "none" if found is None else "pattern"
        intent = facts.intent or ("" if found is None else found.intent)
        action = facts.required_action or ("" if found is None else found.required_action)
        return Asked(intent, source, action, is_high_risk=action_key(action) in policy.high_risk)

    def _score(self, gate: Gate) -> None:
        """Check the candidates, and score those that may be asked."""
        asked, most = self._candidates(), self.config.top_n
        if isinstance(asked, Roster):
            found = gate.passed(asked, most, self.misses)
        else:
            found = gate.passed_one_by_one(asked, most, self.misses)
        self.checks += self.misses.checks(self.considered)
        scoring = Scoring(self.config, self.facts.mind)
        self.scored = [Candidate(row, scoring) for row in found]
        self.scored.sort(key=_ORDER)

    def _candidates(self) -> Roster | list[Row]:
        """Give the modules to be asked, by trust: those given, of the intent, or all agents."""
        router, names = self.router, self.facts.candidate_list
        if names:
            self.source = "given"
            return self._named(names)
        intent = self.asked.intent
        known = self.policy.intents.get(intent) if intent else None
        if known is not None and known.candidates:
            self.source = "intent"
            return self._named(known.candidates)
        able = router.by_capability.get(intent) if intent else None
        self.source = "all_agents" if able is None else "capability"
        roster = router.agents if able is None else able
        self.considered = len(roster.rows)
        return roster

    def _named(self, names: tuple[str, ...]) -> list[Row]:
        rows, kept = self.router.rows, self.router.fallback_names
        found = []
        for name in sorted(set(names)):
            row = rows.get(name)
            if row is None:
                self.misses.by_check["known"].append((name, Excluded.UNKNOWN_NODE, ""))
            elif name in kept:
                self.misses.kept.append((name, Excluded.KEPT_AS_FALLBACK, ""))
            else:
                found.append(row)
        self.considered = len(found) + len(self.misses)
        return sorted_rows(found)

    def _fallen_back(self, gate: Gate) -> Routed:
        """Let the first fallback that is allowed take the job (D-000-13)."""
        self.misses.kept = []
        for row in self.router.fallbacks:
            miss = gate.miss(row)
            if miss is None:
                chosen = Candidate(row, Scoring(self.config, self.facts.mind))
                chosen.tag = ReasonTag.FALLBACK_GENERIC
                self.scored = sorted([*self.scored, chosen], key=_ORDER)
                return self._taken(chosen)
            self.misses.by_check[miss[0]].append(miss[1])
        if self.scored:
            cause = Cause.NONE_SCORED
        else:
            cause = Cause.NONE_ALLOWED if len(self.misses) else Cause.NO_CANDIDATE
        return self._ended("ROUTER_NO_MATCH", cause)

    def _taken(self, chosen: Candidate) -> Routed:
        config, mind = self.config, self.facts.mind
        depth, tokens = depth_of(config, mind), tokens_of(config, mind)
        if chosen.tag is ReasonTag.FALLBACK_GENERIC:
            depth = shallow(depth, DepthReason.FALLBACK)
        return self._said(chosen, depth, tokens)

    def _ended(self, code: ErrorCode, cause: Cause) -> Routed:
        config, mind = self.config, self.facts.mind
        depth = shallow(depth_of(config, mind), DepthReason.NO_AGENT)
        tokens = without_tokens(tokens_of(config, mind))
        return self._said(None, depth, tokens, code, cause)

    def _said(
        self,
        chosen: Candidate | None,
        depth: DepthTrace,
        tokens: TokenTrace,
        code: ErrorCode = "",
        cause: Cause = Cause.NONE,
    ) -> Routed:
        asked = self.asked
        intent, action = self._capped(asked.intent), self._capped(asked.action)
        outcome = AgentOutcome(
            None if chosen is None else chosen.row.node_id,
            None if chosen is None else chosen.tag,
            depth.depth,
            tokens.allocated,
            tuple([each.ranked() for each in self.scored]),
            asked.is_high_risk,
            (f"{action} is a high-risk action",) if asked.is_high_risk else (),
            intent,
            action,
            code,
            cause,
            self.config.version,
        )
        trace = self._trace(intent, action, depth, tokens)
        return Routed(outcome, trace, tuple(self.artifacts))

    def _trace(self, intent: str, action: str, depth: DepthTrace, tokens: TokenTrace) -> RouteTrace:
        facts, mind = self.facts, self.facts.mind
        middle = median([each.row.availability for each in self.scored])
        excluded, artifact = self._excluded()
        return RouteTrace(
            facts.attempt,
            max(0, self.config.max_attempts - facts.attempt),
            facts.excluded,
            intent,
            self.asked.source,
            action,
            self.source,
            self.considered,
            tuple(self.checks),
            excluded,
            len(self.misses),
            artifact,
            self._scores(middle),
            middle,
            mind.prefer_high_apt,
            mind.allow_explore,
            mind.explore_bias,
            depth,
            tokens,
            self.router.fallback_names,
            self._capped(facts.privacy.reason),
        )

    def _scores(self, middle: Billionths) -> tuple[Scored, ...]:
        """Give every number; `bias_flag` is told and multiplies nothing (D-000-1)."""
        prefers, found = self.facts.mind.prefer_high_apt, []
        before: Candidate | None = None
        for each in self.scored:
            flag = prefers and each.row.availability >= middle
            found.append(each.scored(tie_break(before, each), bias_flag=flag))
            before = each
        return tuple(found)

    def _excluded(self) -> tuple[tuple[Exclusion, ...], str]:
        """Give who is out and why; of a long list its head, and all of it as an artifact."""
        rows, most = list(self.misses), self.config.trace_rows
        shown = tuple([Exclusion(*each) for each in rows[:most]])
        return shown, self._artifact(_ROWS.encode(rows)) if len(rows) > most else ""

    def _capped(self, text: str) -> str:
        """Give a text as the trace holds it: cut, with the id of the whole, where it is long."""
        most = self.config.trace_chars
        if len(text) <= most:
            return text
        name = self._artifact(text.encode("utf-8", "surrogatepass"))
        return f"{text[: max(0, most - len(name) - 2)]}… {name}"

    def _artifact(self, body: bytes) -> str:
        artifact = Artifact(content_id(body), body)
        if artifact not in self.artifacts:
            self.artifacts.append(artifact)
        return ARTIFACT + artifact.id


def _text(query: str | Sealed) -> str:
    if isinstance(query, Sealed):
        # Without the text the intent would be another one, and nobody would notice.
        raise MissingSnapshot(f"the query `{query.digest}` is sealed, and a pattern reads it")
    return query


_ORDER: Final = attrgetter("order")
_ROWS: Final = msgspec.json.Encoder()


class AgentDecider:
    """The room's `decide` for replay: the policy and the modules are read once each."""

    kind: Room = "agent"
    version = DECISION_VERSION

    def under(self, policy: bytes, snapshots: Policies = no_snapshots) -> Decide:
        """Read a recorded policy once, for all the decisions made under it."""
        ready = ReadyPolicy(POLICY_FORM.form.decode(policy))
        routers: dict[str, Router] = {}

        def run(facts: bytes, texts: Texts) -> Decided:
            job = _opened(ready, FACTS_FORM.decode(facts), texts)
            router = routers.get(job.selfrep_id)
            if router is None:
                if len(routers) >= _ROUTERS:
                    routers.pop(next(iter(routers)))
                router = routers[job.selfrep_id] = _router(ready, job.selfrep_id, snapshots)
            outcome, trace = decide(router, job)
            return Decided(OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))

        return run


def _router(ready: ReadyPolicy, name: str, snapshots: Policies) -> Router:
    body = snapshots(name)
    check_content(name, body, "snapshot")
    return Router(ready, SELFREP_FORM.form.decode(body))


def _opened(ready: ReadyPolicy, facts: JobFacts, texts: Texts) -> JobFacts:
    # Only where a pattern reads the query is it needed: erasing leaves the others replayable.
    is_read = ready.matcher.reads_text and not facts.intent and not facts.privacy.is_blocked
    return with_text(facts, texts) if is_read else facts


DECIDER: Final = AgentDecider()
