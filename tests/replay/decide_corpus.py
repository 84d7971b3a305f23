"""Decide a fixed corpus of placements, turns and jobs, and print one digest over all their bytes.

Run as a script by every interpreter and under every hash seed; the digests must be equal.
"""

import hashlib
import sys
from itertools import product

from msgspec.structs import replace

from pointsman.agents.decide import DECIDER as AGENT_DECIDER
from pointsman.agents.facts import FACTS_FORM as JOB_FACTS_FORM
from pointsman.agents.facts import GoalView, JobFacts, MindView, PrivacyVerdict
from pointsman.agents.facts import with_seal as with_query_seal
from pointsman.agents.file.agents_file import AgentsFile
from pointsman.agents.file.make_selfrep import make_selfrep
from pointsman.agents.modules.folding import fold_events
from pointsman.agents.modules.selfrep import SELFREP_FORM, selfrep_id
from pointsman.agents.modules.trust import TrustEvent, event_id
from pointsman.agents.policy import POLICY_FORM as AGENTS_POLICY_FORM
from pointsman.agents.policy import agents_policy, read_policy
from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import seal_text
from pointsman.kernel.instant import Instant
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.placement.decide import DECIDER as PLACEMENT_DECIDER
from pointsman.placement.facts import FACTS_FORM as PLACEMENT_FACTS_FORM
from pointsman.placement.facts import (
    CountedBy,
    Failed,
    LocalModel,
    PlacementFacts,
    Sensitivity,
    Taint,
)
from pointsman.placement.facts import with_seal as with_content_seal
from pointsman.placement.policy import BUILT_IN, placement_policy
from pointsman.placement.policy import POLICY_FORM as PLACEMENT_POLICY_FORM
from pointsman.placement.rules.policy_rule import GivenPolicyCondition, GivenPolicyRule
from pointsman.placement.rules.table import Sensitive
from pointsman.placement.trace import Placed
from pointsman.testing.builders import a_policy, some_facts
from pointsman.turns.decide import DECIDER
from pointsman.turns.facts import FACTS_FORM, BudgetLeft, Override, with_seal
from pointsman.turns.learning.pattern_row import PatternRow, nearest_first
from pointsman.turns.policy import POLICY_FORM, Disagreement, RoutingRule, Workspace
from pointsman.turns.registry.models import EMBEDDED_MODEL
from pointsman.turns.rules.condition import Condition, TimeWindow

NAMES = ("acme:a", "acme:b", "größe:\U0001f600", "z:\ufb33")
STATES = ("healthy", "degraded", "unavailable")
MESSAGES = (
    "hello",
    "",
    "größe \U0001f600\ufb33 straße",
    "line\nbreak\x00 /commit",
    "please review the ARCHITECTURE and write a commit message",
    "x" * 500,
)
RULES = (
    RoutingRule("first", Condition(message_matches=r"^/commit|write.*commit"), "acme:b"),
    RoutingRule(
        "second", Condition(message_contains_any=("STRASSE", "GRÖSSE", "architecture")), "acme:a"
    ),
    RoutingRule("night", Condition(time_of_day_between=TimeWindow(1320, 360)), EMBEDDED_MODEL),
    RoutingRule(
        "tree",
        Condition(
            any_of=(
                Condition(has_images=True),
                Condition(all_of=(Condition(estimated_input_tokens_gt=100),)),
                Condition(not_=Condition(message_matches=".")),
            )
        ),
        "z:\ufb33",
    ),
    RoutingRule("cost", Condition(cost_today_exceeds_microusd=MicroUsd(5_000_000)), EMBEDDED_MODEL),
)
ROWS = nearest_first(
    PatternRow(
        f"f{n}",
        (EMBEDDED_MODEL, *NAMES)[n % 4],
        None if n % 5 == 0 else Billionths(600_000_000 + 37_000_003 * (n % 7)),
        MicroUsd(1_000 * (n % 3)),
        n % 6,
        Billionths(900_000_000 - 11_111_111 * n),
    )
    for n in range(14)
)


def policies():
    """Give policies, as bytes, in a fixed order."""
    workspace = Workspace("/w/größe", "acme:b", None, None, RULES[3:4])
    defaults = (None, EMBEDDED_MODEL, *NAMES, (NAMES[3], NAMES[0], EMBEDDED_MODEL))
    for default, rules in product(defaults, ((), RULES, RULES[::-1])):
        ready = a_policy(
            default,
            *NAMES,
            rules=rules,
            workspaces=(workspace,),
            tiers={"fast": "acme:a", "deep": "z:\ufb33"},
            pattern_disagreement=Disagreement(True, Billionths(0), 1),
        )
        yield POLICY_FORM.form.encode(ready.policy)


def turns():
    """Give facts with their message, in a fixed order."""
    for number, (message, state) in enumerate(product(MESSAGES, STATES)):
        target = ("acme", "acme:a", EMBEDDED_MODEL)[number % 3]
        yield some_facts(message, availability={target: state, "b": "healthy"})
        yield some_facts(
            message, pattern_rows=ROWS, local_minutes=1380, workspace_path="/w/größe/x"
        )
        yield some_facts(message, override=Override("a", "acme:a"), privacy_level="local")
        yield some_facts(
            message, sticky_model=NAMES[2], configured=(EMBEDDED_MODEL,), has_images=True
        )
        yield some_facts(
            message, named_model=NAMES[number % 4], max_output_tokens=number, has_images=number > 9
        )
        yield some_facts(message, delegate_tier="fast", is_worker=True, network_state="offline")
        yield some_facts(message, override=Override("a", "acme:a"), placement=PLACED[number % 3])
        yield some_facts(
            message,
            cost_today_microusd=MicroUsd(5_420_000),
            budgets=(BudgetLeft("day", MicroUsd(number)),),
            estimated_input_tokens={"*": 99 + number, "acme:a": 10**6},
        )


PLACED = tuple(
    Placed("sha256:" + "5" * 64, rule, gate, f"größe {gate}")
    for rule, gate in (("AUTO_LOCAL", "open"), ("TAINT_LOCAL", "local"), ("POLICY_BLOCK", "closed"))
)
POLICY_RULES = (
    GivenPolicyRule(
        "zwei", "forceLocal", (GivenPolicyCondition("content", "contains", "STRASSE|ß"),)
    ),
    GivenPolicyRule("eins", "warn", (GivenPolicyCondition("token_count", "exceeds", 3),), "größe"),
    GivenPolicyRule("drei", "requireConfirmation", priority=7, message="line\nbreak"),
    GivenPolicyRule("vier", "block", (GivenPolicyCondition("intent", "equals", "Retrieval"),)),
)


def tables():
    """Give placement policies, as bytes, in a fixed order."""
    for auto, stays, rules in product(
        ("advisory", "binding"), ((), ("pii", "jwt")), ((), POLICY_RULES, POLICY_RULES[::-1])
    ):
        table = replace(BUILT_IN, auto=auto, sensitive=Sensitive(stays), policy_rules=rules)
        policy = placement_policy(table)
        yield PLACEMENT_POLICY_FORM.form.encode(policy)
    yield PLACEMENT_POLICY_FORM.form.encode(replace(policy, is_unreadable=True))


def questions():
    """Give facts of placements with their content, in a fixed order."""
    finds = (
        None,
        Sensitivity("d", True, 0, (), ()),
        Sensitivity("d", False, 2, ("pii.email", "secret.jwt"), ()),
    )
    failures = (None, Failed("local", "AUTO_LOCAL", True), Failed("cloud", "AUTO_CLOUD", False))
    states = product(("local", "cloud", "auto"), ("none", "force_remote"), finds, failures)
    for number, (level, override, found, failed) in enumerate(states):
        yield PlacementFacts(
            question_id=f"q{number}",
            session_id="größe \U0001f600",
            content=MESSAGES[number % len(MESSAGES)],
            privacy_level=level,
            intent=(None, "informational", "retrieval")[number % 3],
            constraints_id="",
            asked_at=Instant(number),
            local_model=LocalModel(
                "o:\ufb33", (None, 3)[number % 2], ("informational",), number % 5 > 0
            ),
            cloud_model=("c:größe", "")[number % 7 == 0],
            network_state=("online", "degraded", "offline")[number % 3],
            token_count=number % 6,
            counted_by=CountedBy("given", is_exact=False),
            human_override=override,
            sensitivity=found,
            taint=Taint("t", "PRIVACY_LOCAL") if number % 4 == 0 else None,
            failed=failed,
        )


def placements():
    """Give the bytes of every placement of the corpus, with its inputs, in a fixed order."""
    for policy in tables():
        run = PLACEMENT_DECIDER.under(policy)
        for facts in questions():
            content = facts.content
            stored = PLACEMENT_FACTS_FORM.encode(
                with_content_seal(facts, seal_text(content, b"k" * 32))
            )
            yield policy, stored, run(stored, lambda _seal, text=content: text)


HOUSE = rb"""{
  "modules": {
    "agent:b": {"apt": 0.7, "status": "healthy", "capabilities": ["verify", "math"]},
    "agent:a": {"apt": 0.9, "status": "healthy", "policy": {"forbidden_actions": ["SEM_write"]}},
    "agent:B": {"apt": 0.7, "status": "healthy", "dependencies": ["service:db"]},
    "agent:c": {"apt": 0.333333333, "status": "degraded", "capabilities": ["verify", "save"]},
    "agent:q": {"apt": 1, "status": "quarantined"},
    "service:db": {"type": "service", "apt": 0.5, "status": "offline"},
    "generic_agent": {"apt": 0.2, "status": "healthy"}
  },
  "edges": [{"from": "agent:c", "to": "service:db", "required": false}],
  "intents": [
    {"intent": "store", "patterns": ["^please|stra\u00dfe"], "required_action": "SEM_write"},
    {"intent": "math", "patterns": ["[0-9] *[+]", "commit"]}
  ],
  "roles": {"operator": {"denied": ["agent:q", "agent:B"]}, "admin": {}}
}"""
CONFIGS = (
    {},
    {"min_score": 600_000_000, "top_n": 2, "trace_chars": 80, "trace_rows": 1},
    {"weight_avail": 333_333_333, "weight_goal": 999_999_999, "weight_bias": 123_456_789},
)
EVENTS = tuple(
    TrustEvent(event_id("s", n, kind), "s", n, kind, name, "executor", Instant(n), is_correct=True)
    for n, (kind, name) in enumerate(
        (
            ("AGENT_TIMEOUT", "agent:a"),
            ("COUNCIL_APPROVAL", "agent:c"),
            ("AGENT_EXCEPTION", "agent:a"),
            ("USER_FEEDBACK", "agent:b"),
            ("AGENT_TIMEOUT", "agent:a"),
        )
    )
)


def houses():
    """Give policies of agents with modules, before and after events, in a fixed order."""
    file: AgentsFile = read_policy(read_json(HOUSE, "house"))
    policy = agents_policy(file)
    for changes, count in product(CONFIGS, (0, 2, 5)):
        changed = replace(policy, router_config=replace(policy.router_config, **changes))
        yield (
            changed,
            fold_events(make_selfrep(file, AGENTS_POLICY_FORM.id(changed)), EVENTS[:count]),
        )


def jobs(modules):
    """Give facts of jobs with their query, in a fixed order."""
    goals = (
        GoalView("g2", Billionths(777_777_777), "verify", "active"),
        GoalView("g1", Billionths(777_777_777), "save", "active"),
        GoalView("g0", Billionths(1_000_000_000), "verify", "paused"),
    )
    lists = ((), ("agent:b", "agent:B", "agent:c", "ghost"), ("generic_agent",))
    attentions = (0, 199_999_999, 360_000_000, 1_000_000_000)
    for number, (message, listed) in enumerate(product(MESSAGES, lists)):
        attention = attentions[number % 4]
        yield JobFacts(
            job_id=f"größe {number}",
            job_seed="\U0001f600",
            query=message,
            selfrep_id=selfrep_id(modules),
            brainstate_id="",
            mind=MindView(
                Billionths(attention),
                Billionths(number * 11_111_111),
                (0, 100, 1000)[number % 3],
                number % 5,
                goals[: number % 4],
                attention >= 600_000_000,
                number > 9,
                Billionths(200_000_000),
                128,
            ),
            candidate_list=listed,
            excluded=(("agent:a", "agent:b", "agent:c"))[: number % 4],
            attempt=1 + number % 4,
            intent=("", "", "math", "x" * 300)[number % 4],
            required_action=("", "sem-write")[number % 7 == 3],
            user_role=("admin", "operator", "stranger")[number % 3 // (1 + number % 2)],
            permitted=None if number % 5 else ("agent:a", "agent:c", "generic_agent"),
            privacy=PrivacyVerdict(number % 11 == 10, "straße" * (number % 11 == 10) * 50),
        )


def routes():
    """Give the bytes of every choice of an agent, with its inputs, in a fixed order."""
    for policy, modules in houses():
        stored = AGENTS_POLICY_FORM.form.encode(policy)
        body = SELFREP_FORM.form.encode(modules)
        run = AGENT_DECIDER.under(stored, lambda _name, body=body: body)
        for facts in jobs(modules):
            query = facts.query
            written = JOB_FACTS_FORM.encode(with_query_seal(facts, seal_text(query, b"k" * 32)))
            yield stored, written, run(written, lambda _seal, text=query: text)


def decisions():
    """Give the bytes of every decision of the corpus, with its inputs, in a fixed order."""
    yield from placements()
    yield from routes()
    for policy in policies():
        run = DECIDER.under(policy)
        for facts in turns():
            message = facts.message
            stored = FACTS_FORM.encode(with_seal(facts, seal_text(message, b"k" * 32)))
            yield policy, stored, run(stored, lambda _seal, text=message: text)


def main() -> None:
    """Print the digest."""
    digest = hashlib.sha256()
    count = 0
    for policy, facts, decided in decisions():
        digest.update(content_id(policy).encode() + content_id(facts).encode())
        digest.update(decided.outcome + decided.trace)
        count += 1
    sys.stdout.write(f"{count} {digest.hexdigest()}\n")


if __name__ == "__main__":
    main()
