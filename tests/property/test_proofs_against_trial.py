"""Answers to claims against trying every turn, over small policies drawn at random.

What can be tried is finite: of texts, numbers and paths one of each kind that the patterns and
limits of the pool tell apart. The trial asks `decide` and the conditions themselves, never a proof.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import product
from random import Random
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.kernel.number import MicroUsd, microusd
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.facts import (
    ANY_MODEL,
    BudgetLeft,
    CallerFacts,
    Override,
    SplitUnits,
    TurnFacts,
    placed_within,
)
from pointsman.turns.learning.pattern import GivenPattern
from pointsman.turns.policy import (
    GivenBudget,
    GivenRule,
    GivenTiers,
    GivenWorkspace,
    RoutingFile,
    known_zones,
    turn_policy,
)
from pointsman.turns.proofs.chain_formula import UNKNOWN, ChainFormula, Winner, world_of
from pointsman.turns.proofs.claims import Claim, ClaimAnswer, ClaimedDecision, ClaimedTurns, Prover
from pointsman.turns.proofs.examples import decide_example, winner_of
from pointsman.turns.proofs.similar_turns import SimilarTurns, rows_for
from pointsman.turns.proofs.turn_variables import PLAIN, TurnVariables, is_met
from pointsman.turns.registry.catalogue import Capabilities
from pointsman.turns.registry.models import Model, call_estimate, lies_within
from pointsman.turns.registry.prices import Price
from pointsman.turns.rules.condition import FactsView, Patterns, When, condition, ready
from pointsman.turns.rules.split import Splitter
from pointsman.turns.rules.text_patterns import TextPatterns

POLICIES_A_SEED = 10
MOST_TRIED = 6_000
SOMETIMES = (
    "holds", "refuted", "shown", "never shown", "no model", "budget", "by hand", "similar turns",
    "workspace", "outage", "tier",
)  # fmt: skip

MESSAGES = ("a", "^a", "b$", "ab", "(?i)a", r"\bb", "a.b")
PATHS = ("w", "v$", "^/w")
NAMES = ("here:one", "near:two", "far:three")
EXPRESSIONS = (
    "estimated_input_tokens >= 10.5 and not has_images",
    "not (20 < estimated_input_tokens) or has_tool_calls_in_history",
    "cost_today_usd > 1 or 'p' in tool_names",
    "cost_today_usd < 2.000001",
    "local_time < '01:00' or local_time >= '10:00'",
    "tenant == 'u' or key_name in ['k', 'l']",
    "agent != 'g' and not is_worker",
    "has_tool_definitions == false",
    "file_extensions_in_context contains '.x'",
    "'s' in skills_matching_message and 't' not in skills_matching_message",
    "team_budget_left_usd < 0.015",
    "workspace_path == '/w'",
)
"""Expressions that predicates can say, over the values of the pool."""
SAID = {
    "message": "message", "local_time": "minutes", "cost_today_usd": "cost",
    "workspace_path": "path", "tool_names": "tools_named", "team_budget_left_usd": "team",
    "tenant": "caller", "key_name": "caller", "agent": "caller",
    "skills_matching_message": "skill", "file_extensions_in_context": "extension",
}  # fmt: skip
"""The facts that expressions read, by the values to try."""
NOT_LOOKED_INTO = (
    "length(message) > 2",
    "not (message contains 'b')",
    "estimated_input_tokens % 10 == 1",
    "workspace_path starts_with '/w'",
)


@cache
def _messages() -> tuple[str, ...]:
    """One text, the shortest, for each way in which the patterns of the pool can be found."""
    patterns = TextPatterns()
    for each in (*MESSAGES, "(?i:b)", "(?i:ab)"):
        patterns.number(each)
    patterns.ready()
    found: dict[frozenset[int], str] = {patterns.hits("hello"): "hello"}
    for length in range(6):
        for letters in product("abAB x\n", repeat=length):
            found.setdefault(patterns.hits("".join(letters)), "".join(letters))
    return tuple(found.values())


def _paths() -> tuple[str | None, ...]:
    """One path for each way in which workspaces and patterns of the pool can hold it."""
    rooted = ("/" + "/".join(each) for n in range(4) for each in product("wvz", repeat=n))
    patterns = TextPatterns()
    for each in (*PATHS, r"^/w(/|$)", r"^/w/v(/|$)", r"^/z(/|$)"):
        patterns.number(each)
    patterns.ready()
    found: dict[frozenset[int], str] = {}
    for path in ("", "w", "v", "wv", *rooted):
        found.setdefault(patterns.hits(path), path)
    return (None, *found.values())


HANDS = (
    None,
    *product(("override", "named", "sticky"), NAMES),
    ("named", UNKNOWN),
)
TRIED: dict[str, Sequence[Any]] = {
    "message": (),
    "tokens": (100, 0, 9, 10, 11, 19, 20, 21, 30, 31),
    "minutes": (720, 0, 59, 60, 61, 119, 120, 599, 600, 601, 1439),
    "cost": (0, 1_000_000, 1_000_001, 2_000_000, 2_000_001),
    "path": _paths(),
    "images": (False, True),
    "calls": (False, True),
    "tools": (False, True),
    "worker": (False, True),
    "stays": (False, True),
    "labels": ((), ("c",)),
    "zones": ((), ("eu",), ("site",), ("eu", "site"), ("elsewhere",)),
    "skill": ((), ("s",), ("t",), ("s", "t")),
    "extension": ((), (".x",)),
    "out": tuple(tuple(name for name, bit in zip(NAMES, bits, strict=True) if bit)
                 for bits in product((False, True), repeat=3)),
    "session": ("", *(f"s{n}" for n in range(40))),
    "turn": ("", *(f"t{n}" for n in range(40))),
    "tools_named": ((), ("p",), ("q",), ("p", "q")),
    "caller": tuple(
        CallerFacts(*each)
        for each in product(("", "k", "l"), ("", "k", "l"), ("", "u", "v"), ("", "g"))
    ),
    "team": (None, 14_999, 29_999),
    "tier": (None, "fast", "balanced", "deep"),
    "hand": (),
    "similar": (None, *NAMES),
}  # fmt: skip


def _when(random: Random, depth: int = 0) -> When:
    """Draw a condition over the pool."""
    if depth < 2 and random.random() < 0.35:
        inner = tuple(_when(random, depth + 1) for _ in range(random.choice((1, 2, 2))))
        kind = random.choice(("any_of", "all_of", "not_"))
        return When(**{kind: inner[0] if kind == "not_" else inner})
    clock = ("00:00", "01:00", "02:00", "10:00")
    drawn: dict[str, Any] = {
        "message_matches": random.choice(MESSAGES),
        "message_contains_any": random.choice((("b",), ("ab",), ("b", "ab"))),
        "estimated_input_tokens_gt": random.choice((10, 20)),
        "estimated_input_tokens_lt": random.choice((10, 20, 21)),
        "has_images": random.random() < 0.5,
        "has_tool_calls_in_history": random.random() < 0.5,
        "skills_matching_message_includes": random.choice((("s",), ("t",), ("s", "t"))),
        "file_extensions_in_context": (".x",),
        "workspace_path_matches": random.choice(PATHS),
        "time_of_day_between": (random.choice(clock), random.choice(clock)),
        "cost_today_exceeds_usd": Decimal(random.choice((1, 2))),
        "team_budget_remaining_lt": Decimal(random.choice(("0.015", "0.03"))),
        "key_is": random.choice((("k",), ("l",), ("k", "l"))),
        "tenant_is": random.choice((("u",), ("v",))),
        "agent_is": ("G",),
        "tool_names_include": random.choice((("p",), ("q",))),
        "expr": random.choice((*EXPRESSIONS, *EXPRESSIONS, *NOT_LOOKED_INTO)),
        "label_includes": ("c",),
        "zone_is": random.choice((("eu",), ("site", "local"), ("cloud",))),
    }
    names = random.sample([*drawn], random.choice((0, 1, 1, 1, 2)))
    return When(**{name: drawn[name] for name in names})


def _models(random: Random) -> dict[str, Model]:
    def can() -> Capabilities:
        known = (None, None, None, True, False)
        return Capabilities(
            random.choice((None, None, 30)), None, random.choice(known), random.choice(known)
        )

    prices = (None, Price(microusd("0"), microusd("0")), Price(microusd("1000"), microusd("0")))
    zones = {"near:two": ("eu",), "far:three": ("site", "eu")}
    return {
        name: Model(
            place,
            None,
            aliases=(f"al{n}",),
            capabilities=can(),
            price=random.choice(prices),
            zones=random.choice((UNSET, UNSET, zones.get(name, UNSET))),
        )
        for n, (name, place) in enumerate(zip(NAMES, ("local", "cloud", "cloud"), strict=True))
    }


def _rule(random: Random, name: str) -> GivenRule:
    if random.random() < 0.8:
        return GivenRule(_when(random), random.choice(NAMES), name)
    names = random.sample(NAMES, 2)
    shares = dict(zip(names, random.choice(((1, 1), (0, 1), (3, 7))), strict=True))
    by = random.choice(("session", "session", "turn"))
    return GivenRule(_when(random), name=name, split=shares, by=by)


def random_policy(random: Random) -> CompiledTurnPolicy:
    """Draw a small policy."""

    def rules(prefix: str, most: int) -> tuple[GivenRule, ...]:
        return tuple(_rule(random, f"{prefix}{n}") for n in range(random.randrange(most + 1)))

    def default() -> tuple[str, ...]:
        return tuple(random.sample(NAMES, random.choice((1, 1, 2))))

    def pattern() -> GivenPattern:
        return GivenPattern(
            random.choice(("apply", "apply", "off", "observe")),
            random.choice(("nearest", "nearest", "evidence")),
            min_sample_size=random.choice((1, 5, 20)),
            cost_weight=random.choice((None, Decimal("0.5"), Decimal(1))),
            k=random.choice((None, None, 1, 30)),
        )

    workspaces = {
        path: GivenWorkspace(random.choice((None, default())), None, None, rules(path, 2))
        for path in random.sample(("/w", "/w/v", "/z"), random.choice((0, 0, 0, 1, 2)))
    }
    tiers = GivenTiers(*(random.choice((None, *NAMES)) for _ in range(3)))
    routing = RoutingFile(
        1, default(), tiers, pattern(), rules=rules("r", 4), workspaces=workspaces,
        budgets=random.choice(((), (GivenBudget("team", Decimal(1), each="tenant"),))),
    )  # fmt: skip
    policy = turn_policy(routing, _models(random), "/home/u")
    return compile_policy(replace(policy, local_model=random.choice((UNSET, NAMES[0]))))


def random_claim(random: Random, policy: CompiledTurnPolicy) -> Claim:
    """Draw a claim; some of what every turn has is held, so that the rest can be tried."""
    free = set(
        random.sample(("hand", "out", "stays", "worker", "tier", "similar"), random.choice((1, 2)))
    )
    about: dict[str, Any] = {
        name: value for name, value in _asdict(_when(random)).items() if value is not UNSET
    } if random.random() < 0.5 else {}  # fmt: skip
    held = {
        "hand": {"chosen_by_hand": False}, "out": {"all_up": NAMES},
        "stays": {"privacy_level": random.choice(("auto", "local"))},
        "worker": {"is_worker": False},
        "tier": {"delegate_tier": "none"}, "similar": {"similar_turns": False},
    }  # fmt: skip
    for name, pins in held.items():
        about |= {} if name in free else pins
    if "out" in free and random.random() < 0.4:
        about["any_up"] = tuple(random.sample(NAMES, 2))
    if random.random() < 0.25:
        about |= {
            "budget_left_usd": Decimal(random.choice(("0.02", "0", "-1"))),
            "max_output_tokens": 1,
        }
    rules = (*policy.policy.rules, *(r for each in policy.policy.workspaces for r in each.rules))
    said: dict[str, Any] = random.choice((
        {"location": "cloud"}, {"model": (random.choice(NAMES),)}, {"no_model": True},
        {"no_model": False}, {"provider": "near"}, {"policy": "global_default"},
        {"rule": (random.choice(rules).name if rules else "none",)},
        {"outside": random.choice(("eu", "site"))},
        {"cost_exceeds_usd": Decimal("0.019")}, {"location": "cloud", "policy": "rule"},
    ))  # fmt: skip
    decision = ClaimedDecision(**said)
    return Claim(
        "", ClaimedTurns(**about), **{random.choice(("never", "always", "some")): decision}
    )


def _asdict(given: Struct) -> dict[str, Any]:
    return {name: getattr(given, name) for name in given.__struct_fields__}


def _tried(policy: CompiledTurnPolicy, claim: Claim) -> dict[str, Sequence[Any]] | None:
    """Return the values to try of each fact that can matter; None where they are too many."""
    text = repr((policy.policy.rules, policy.policy.workspaces, claim.when))
    cans = [each.capabilities for each in policy.models.values()]
    asked = {
        "tokens": "expr='" in text
        or "input_tokens=" in text.replace("_gt=None", "").replace("_lt=None", "")
        or any(can.max_context_tokens for can in cans) or "cost_exceeds" in repr(claim)
        or claim.when.budget_left_usd is not UNSET,
        "images": "has_images" in _said_text(text)
        or "has_images=True" in text or "has_images=False" in text
        or any(can.supports_images is False for can in cans),
        "calls": "in_history" in _said_text(text)
        or "in_history=True" in text or "in_history=False" in text,
        "tools": "tool_definitions" in _said_text(text)
        or any(can.supports_tools is False for can in cans),
    }  # fmt: skip
    when = claim.when
    values = dict(TRIED)
    values["message"] = _messages()
    values["hand"] = HANDS
    for name, is_asked in asked.items():
        values[name] = values[name] if is_asked else values[name][:1]
    used = _used(text)
    said = [each for each in SAID if each in _said_text(text)]
    seen = {
        "message": "message_" in used, "minutes": "TimeWindow" in text or "time_of" in used,
        "cost": "cost_today" in used, "path": "path_matches" in used or "Workspace(" in text,
        "session": "by='session'" in text, "turn": "by='turn'" in text,
        "tools_named": "tool_names" in used, "team": "team_budget" in used,
        "caller": "key_is" in used or "tenant_is" in used or "agent_is" in used,
        "skill": "skills" in used, "extension": "file_ext" in used,
        "labels": "label_includes" in used,
        "zones": bool(known_zones(policy.policy)) or "zone_is" in used,
    }  # fmt: skip
    for name, is_asked in seen.items():
        is_read = any(SAID[each] == name for each in said)
        values[name] = values[name] if is_asked or is_read else values[name][:1]
    # A turn's facts hold no budget that the policy does not name.
    values["team"] = values["team"][: len(policy.policy.budgets) * len(TRIED["team"]) or 1]
    values |= {by: _units(policy, by, values[by]) for by in ("session", "turn")}
    if when.chosen_by_hand is False:
        values["hand"] = (None,)
    if when.all_up is not UNSET:
        values["out"] = ((),)
    for name, field in (("worker", when.is_worker), ("similar", when.similar_turns)):
        values[name] = values[name] if field is UNSET else values[name][:1]
    if when.privacy_level is not UNSET:
        values["stays"] = (when.privacy_level == "local",)
    if when.delegate_tier is not UNSET:
        values["tier"] = (None,)
    if all(scope.pattern.mode != "apply" for scope in _scopes(policy)):
        values["similar"] = (None,)
    many = 1
    for each in values.values():
        many *= len(each)
    return values if many <= MOST_TRIED else None


def _said_text(text: str) -> str:
    return " ".join(re.findall(r"expr=(\"[^\"]*\"|'[^']*')", text))


def _units(policy: CompiledTurnPolicy, by: str, names: Sequence[str]) -> Sequence[str]:
    """Return one name for each way in which names fall under the splits of a policy."""
    rules = (*policy.policy.rules, *(r for each in policy.policy.workspaces for r in each.rules))
    splits = [Splitter(each.name, each.split) for each in rules
              if each.split is not UNSET and each.split.by == by]  # fmt: skip
    found: dict[tuple[str, ...], str] = {}
    for name in names:
        found.setdefault(tuple(each.draw(SplitUnits(**{by: name}))[0] for each in splits), name)
    return tuple(found.values())


def _used(text: str) -> str:
    """Leave out what is asked for nowhere."""
    parts = text.replace("(", ",").replace(")", ",").split(",")
    return ",".join(each for each in parts if "=None" not in each and "=UNSET" not in each)


def _scopes(policy: CompiledTurnPolicy) -> list[Any]:
    return [policy.scope(path) for path in (None, "/w", "/w/v", "/z")]


def _turns(
    policy: CompiledTurnPolicy, values: dict[str, Sequence[Any]], claim: Claim
) -> Iterator[tuple[TurnFacts, int]]:
    """Yield every turn to try, with how many of its facts differ from a plain turn's."""
    left, most = claim.when.budget_left_usd, claim.when.max_output_tokens
    budgets = () if left is UNSET else (BudgetLeft("left", microusd(f"{left:f}")),)
    for given in product(*values.values()):
        turn = dict(zip(values, given, strict=True))
        facts = _facts(policy, turn)
        if facts is not None and not (turn["stays"] and turn["zones"]):
            facts = replace(facts, budgets=(*budgets, *facts.budgets), max_output_tokens=most)
            yield facts, _differences(facts, turn["similar"])


def _facts(policy: CompiledTurnPolicy, turn: dict[str, Any]) -> TurnFacts | None:
    """Return one turn's facts; None where no message or no recorded rows can be so."""
    kind, name = turn["hand"] or ("", "")
    if kind == "override" and (turn["worker"] or turn["message"][:1] in {"", " ", "\n"}):
        return None
    rows = rows_for({policy.scope(turn["path"]).pattern: turn["similar"]})
    if rows is None:
        return None
    return TurnFacts(
        message=turn["message"],
        override=Override(name, name) if kind == "override" else None,
        sticky_model=name if kind == "sticky" else None,
        named_model=name if kind == "named" else UNSET,
        workspace_path=turn["path"],
        is_worker=turn["worker"],
        has_images=turn["images"],
        estimated_input_tokens={ANY_MODEL: turn["tokens"]},
        has_tool_calls_in_history=turn["calls"],
        has_tool_definitions=turn["tools"],
        skills_matching_message=turn["skill"],
        file_extensions_in_context=turn["extension"],
        local_minutes=turn["minutes"],
        cost_today_microusd=turn["cost"],
        privacy_level="local" if turn["stays"] else "auto",
        availability=dict.fromkeys(turn["out"], "unavailable"),
        pattern_rows=rows,
        caller=turn["caller"],
        tool_names=turn["tools_named"],
        split_units=SplitUnits(turn["session"], "", turn["turn"]),
        budgets=() if turn["team"] is None else (BudgetLeft("team", MicroUsd(turn["team"])),),
        delegate_tier=turn["tier"],
        placement=placed_within(turn["zones"], turn["labels"], is_local=turn["stays"]),
    )


def _differences(facts: TurnFacts, similar: str | None) -> int:
    """Count the facts that differ from a plain turn's."""
    single = (
        "message", "workspace_path", "is_worker", "has_images", "estimated_input_tokens",
        "has_tool_calls_in_history", "has_tool_definitions", "local_minutes", "privacy_level",
        "cost_today_microusd", "delegate_tier", "override", "sticky_model", "named_model",
    )  # fmt: skip
    caller = facts.caller or CallerFacts()
    own = sum(map(bool, (caller.key_id, caller.key_name, caller.tenant, caller.agent)))
    units = facts.split_units or SplitUnits()
    own += len(facts.labels)
    own += sum(each not in {"local", "cloud"} for each in facts.zones)
    own += bool(units.session) + bool(units.turn)
    own += any(each.name == "team" for each in facts.budgets) + len(facts.tool_names or ())
    lists = (facts.skills_matching_message, facts.file_extensions_in_context, facts.availability)
    own += sum(getattr(facts, name) != getattr(PLAIN, name) for name in single)
    return own + sum(map(len, lists)) + (similar is not None)


def _is_said(
    winner: Winner | None, facts: TurnFacts, decision: ClaimedDecision, policy: CompiledTurnPolicy
) -> bool:
    if decision.no_model is not UNSET:
        return (winner is None) is decision.no_model
    if winner is None:
        return False
    model = policy.models[winner.model]
    if decision.cost_exceeds_usd is not UNSET:
        cost = call_estimate(model, facts.tokens_for(winner.model), facts.asked_output)
        return cost is None or cost > microusd(f"{decision.cost_exceeds_usd:f}")
    return (
        (decision.location is UNSET or model.location == decision.location)
        and (decision.outside is UNSET or not lies_within(model, [decision.outside]))
        and (decision.model is UNSET or winner.model in decision.model)
        and (decision.provider is UNSET or winner.model.startswith(f"{decision.provider}:"))
        and (decision.policy is UNSET or winner.slot == decision.policy)
        and (decision.rule is UNSET or winner.rule in decision.rule)
    )


def _compare(random: Random) -> tuple[Counter[str], str]:  # noqa: C901 - both ways of one claim
    """Answer a claim both ways; return what occurred and the difference, if there is one."""
    policy = random_policy(random)
    claim = random_claim(random, policy)
    values = _tried(policy, claim)
    if values is None:
        return Counter(), ""
    decision = next(each for each in (claim.never, claim.always, claim.some) if each is not UNSET)
    wants = claim.always is UNSET
    tenants = frozenset(each.name for each in policy.policy.budgets)
    patterns = Patterns(TextPatterns(), TextPatterns(), tenants)
    own = When(**{name: getattr(claim.when, name) for name in When.__struct_fields__})
    is_asked = ready(condition(own), "", patterns)
    patterns.message.ready()
    patterns.path.ready()
    fewest: int | None = None
    some_up = () if claim.when.any_up is UNSET else claim.when.any_up
    for facts, differences in _turns(policy, values, claim):
        if fewest is not None and differences >= fewest:
            continue
        if not is_asked(FactsView(facts, patterns)):
            continue
        if some_up and all(name in facts.availability for name in some_up):
            continue
        if _is_said(winner_of(*decide(policy, facts)), facts, decision, policy) is wants:
            fewest = differences
    answer = Prover(policy).answer(claim)
    is_found = answer.example is not None
    if any(each in repr((policy.policy, claim)) for each in NOT_LOOKED_INTO):
        is_wrong = _is_unsound(policy, answer, fewest)
        told = f"{claim}\n{policy.policy}\ntried: {fewest}: {answer}"
        return Counter(policies=1), told if is_wrong else ""
    occurred = _occurred(claim, policy, answer.example, is_found=is_found)
    if is_found != (fewest is not None):
        return occurred, f"{claim}\n{policy.policy}\ntried: {fewest}, answered: {answer}"
    if answer.example is not None:
        got = decide_example(policy, answer.example.facts)
        if got != answer.example.winner or answer.differences != fewest:
            return occurred, f"{claim}\n{policy.policy}\nfewest {fewest}: {answer}, {got}"
    return occurred, ""


def _is_unsound(policy: CompiledTurnPolicy, answer: ClaimAnswer, fewest: int | None) -> bool:
    """Tell whether an answer is wrong where an expression is not looked into; it may be unknown."""
    if answer.example is not None:
        return decide_example(policy, answer.example.facts) != answer.example.winner
    return not answer.unknown and fewest is not None


def _draw_turn(random: Random) -> dict[str, Any]:
    values = {**TRIED, "message": _messages(), "hand": HANDS, "team": (None,)}
    return {name: random.choice((each[0], random.choice(each))) for name, each in values.items()}


def random_turn(random: Random, policy: CompiledTurnPolicy) -> TurnFacts | None:
    """Draw a turn's facts; None where no message or no recorded rows can be so."""
    return _facts(policy, _draw_turn(random))


def _follow(random: Random, policy: CompiledTurnPolicy) -> str:
    """Ask the formula about one turn alone; return the difference from the chain, if any."""
    turn = _draw_turn(random)
    facts = _facts(policy, turn)
    if facts is None:
        return ""
    world = world_of([policy])
    zones = frozenset((*world.zones, *facts.zones)) - {"local", "cloud"}
    world = replace(world, zones=tuple(sorted(zones)))
    variables = TurnVariables(replace(facts, budgets=()), world.team_budgets, world.zones)
    similar = SimilarTurns(variables, [*policy.models], turn["similar"])
    chain = ChainFormula(policy, variables, world, similar)
    found = variables.least((), similar.changes())
    changed = {**variables.changes(), **similar.changes()}
    if found is None:
        return f"{facts} is no turn"
    said = [winner for winner, literal in chain.wins.items() if is_met(found, literal)]
    said += [None] if is_met(found, chain.no_model) else []
    if any(is_met(found, each) for each in changed.values()):
        return f"{facts} is not the turn that was found"
    decided = winner_of(*decide(policy, facts))
    return "" if said == [decided] else f"{said}, decided: {decided}\n{facts}\n{policy.policy}"


def _occurred(
    claim: Claim, policy: CompiledTurnPolicy, example: Any, *, is_found: bool
) -> Counter[str]:
    kind = ("never shown", "shown") if claim.some is not UNSET else ("holds", "refuted")
    seen = Counter(policies=1)
    seen[kind[is_found]] += 1
    seen["no model"] += example is not None and example.winner is None
    seen["budget"] += claim.when.budget_left_usd is not UNSET
    seen["by hand"] += claim.when.chosen_by_hand is UNSET
    seen["workspace"] += bool(policy.policy.workspaces)
    if example is not None:
        seen["similar turns"] += bool(example.facts.pattern_rows)
        seen["outage"] += bool(example.facts.availability)
        seen["tier"] += example.facts.delegate_tier is not None
    return seen


def compared(seed: int) -> tuple[Counter[str], list[str]]:
    """Compare as many answers as a seed makes."""
    random = Random(seed)
    occurred: Counter[str] = Counter()
    different: list[str] = []
    while occurred["policies"] < POLICIES_A_SEED:
        seen, differing = _compare(random)
        occurred += seen
        told = (differing, *(_follow(random, random_policy(random)) for _ in range(3)))
        different += [f"seed {seed}: {each}" for each in told if each]
    return occurred, different


def test_answers_are_those_of_trying_every_turn() -> None:
    occurred: Counter[str] = Counter()
    for seed in range(14):
        seen, different = compared(seed)
        assert different == []
        occurred += seen
    assert min(occurred["holds"], occurred["refuted"]) > 0
