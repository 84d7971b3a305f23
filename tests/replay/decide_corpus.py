"""Decide a fixed corpus of placements and turns and print one digest over all decision bytes.

Run as a script by every interpreter and under every hash seed; the digests must be equal.
"""

import hashlib
import sys
from itertools import product

from msgspec.structs import replace

from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import sealed
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.placement.decide import DECIDER as PLACEMENT_DECIDER
from pointsman.placement.facts import FACTS_FORM as PLACEMENT_FACTS_FORM
from pointsman.placement.facts import CountedBy, Failed, LocalModel, PlacementFacts, Taint
from pointsman.placement.facts import with_seal as with_content_seal
from pointsman.placement.policy import BUILT_IN, placement_policy
from pointsman.placement.policy import POLICY_FORM as PLACEMENT_POLICY_FORM
from pointsman.placement.policy_rule import GivenPolicyCondition, GivenPolicyRule
from pointsman.placement.sensitivity import Sensitivity
from pointsman.placement.table import Sensitive
from pointsman.placement.trace import Placed
from pointsman.testing.builders import a_policy, some_facts
from pointsman.turns.condition import Condition, TimeWindow
from pointsman.turns.decide import DECIDER
from pointsman.turns.facts import FACTS_FORM, BudgetLeft, Override, with_seal
from pointsman.turns.pattern_row import PatternRow, nearest_first
from pointsman.turns.policy import POLICY_FORM, Disagreement, Rule, Workspace
from pointsman.turns.registry import EMBEDDED_MODEL

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
    Rule("first", Condition(message_matches=r"^/commit|write.*commit"), "acme:b"),
    Rule("second", Condition(message_contains_any=("STRASSE", "GRÖSSE", "architecture")), "acme:a"),
    Rule("night", Condition(time_of_day_between=TimeWindow(1320, 360)), EMBEDDED_MODEL),
    Rule(
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
    Rule("cost", Condition(cost_today_exceeds_microusd=MicroUsd(5_000_000)), EMBEDDED_MODEL),
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
    for default, rules in product((None, EMBEDDED_MODEL, *NAMES), ((), RULES, RULES[::-1])):
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
                with_content_seal(facts, sealed(content, b"k" * 32))
            )
            yield policy, stored, run(stored, lambda _seal, text=content: text)


def decisions():
    """Give the bytes of every decision of the corpus, with its inputs, in a fixed order."""
    yield from placements()
    for policy in policies():
        run = DECIDER.under(policy)
        for facts in turns():
            message = facts.message
            stored = FACTS_FORM.encode(with_seal(facts, sealed(message, b"k" * 32)))
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
