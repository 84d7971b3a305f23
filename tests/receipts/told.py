"""Decisions with their inputs, and what the two programs for receipts derive from the inputs."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from tests.cases import test_placement_cases as placement_cases
from tests.cases import test_turn_cases as turn_cases
from tests.property.test_chain_against_model import TURNS_A_POLICY
from tests.property.turns_drawn import Case, exact_facts

from pointsman.errors import InputError
from pointsman.kernel.number import Billionths
from pointsman.offline_verifier import ENCODER
from pointsman.placement.compiled import CompiledPlacement
from pointsman.placement.decide import decide as place
from pointsman.placement.facts import FACTS_FORM as QUESTION_FORM
from pointsman.placement.facts import PlacementFacts
from pointsman.placement.policy import POLICY_FORM as PLACEMENT_FORM
from pointsman.placement.trace import OUTCOME_FORM as PLACED_FORM
from pointsman.placement.trace import TRACE_FORM as PLACING_FORM
from pointsman.receipt_verifier import PlacementAgain, TurnAgain
from pointsman.testing import a_policy
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.facts import FACTS_FORM, TurnFacts
from pointsman.turns.learning.pattern import PatternSettings
from pointsman.turns.learning.second_opinion import Opinion, SecondOpinion
from pointsman.turns.policy import POLICY_FORM, RoutingRule
from pointsman.turns.rules.condition import Condition
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM

PAGE = Path(__file__).parents[2] / "src" / "pointsman" / "web" / "receipt.html"
DRIVER = Path(__file__).parent / "derive.mjs"
NODE = shutil.which("node")


class Told(NamedTuple):
    """One decision: its inputs as they are recorded, and its bytes."""

    room: str
    policy: str
    facts: str
    text: str
    decided: bytes

    @property
    def chain(self) -> list[dict[str, Any]]:
        """The recorded chain, where rules ask what the programs do not run; else nothing."""
        if '"expr":' not in self.policy and '"table":' not in self.policy:
            return []
        chain: list[dict[str, Any]] = json.loads(self.decided)[1]["chain"]
        return chain


def told_turn(ready: CompiledTurnPolicy, facts: TurnFacts) -> Told:
    outcome, trace = decide(ready, facts)
    policy = POLICY_FORM.form.encode(ready.policy).decode()
    decided = b"[%b,%b]" % (OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))
    return Told("turn", policy, FACTS_FORM.encode(facts).decode(), str(facts.message), decided)


def told_placement(ready: CompiledPlacement, facts: PlacementFacts) -> Told:
    outcome, trace = place(ready, facts)
    policy = PLACEMENT_FORM.form.encode(ready.policy).decode()
    decided = b"[%b,%b]" % (PLACED_FORM.encode(outcome), PLACING_FORM.encode(trace))
    text = str(facts.content)
    return Told("placement", policy, QUESTION_FORM.encode(facts).decode(), text, decided)


def turns_of_cases() -> Iterator[Told]:
    """Every turn that a case of tests/cases/turns decides."""
    for each in turn_cases.TOLD:
        (case,) = each.values
        if "error" not in case["want"]:
            policy = turn_cases._policy(case)
            yield told_turn(policy, turn_cases._facts(case, policy))
    for each in turn_cases._cases("predicates.yaml"):
        yield told_turn(*turn_cases._asked(each.values[0]))
    for pair in turn_cases.PAIRS:
        yield told_turn(*turn_cases._able(*pair))


def placements_of_cases() -> Iterator[Told]:
    """Every question that a case of tests/cases/placement places."""
    cases = placement_cases
    for each in cases._cases("truth_table.yaml"):
        for row, _ in cases._rows(each.values[0]):
            yield told_placement(*cases._in_table(each.values[0], row))
    for each in cases._cases("policy_first.yaml"):
        for row, _ in cases._rows(each.values[0]):
            yield told_placement(*cases._under_policy(each.values[0], row))
    for each in cases._cases("behaviour.yaml"):
        (case,) = each.values
        ready = cases._ready(case.get("table"), unreadable=case.get("unreadable", False))
        yield told_placement(ready, cases._facts(case["facts"]))
    for each in cases._cases("policy_rules.yaml"):
        yield told_placement(*cases._with_rule(each.values[0]))


def drawn_turns(seeds: Iterable[int]) -> Iterator[Told]:
    """Random turns under random policies."""
    for seed in seeds:
        case = Case(seed)
        for _ in range(TURNS_A_POLICY):
            drawn = case.draw.facts(case.known)
            try:
                facts = exact_facts(drawn, case.ready)
            except InputError:
                continue
            yield told_turn(case.ready, facts)


def opinion_steps() -> Iterator[Told]:
    """Every step of second opinions, over what up to two models may have answered."""
    heard = [
        Opinion("acme:a", "failed"), Opinion("acme:a", "text", "x"),
        Opinion("acme:a", "text", "x", is_valid=False), Opinion("acme:a", "tools", "x", True),
        Opinion("acme:a", "text", "x", score=Billionths(750_000_000)),
        Opinion("acme:a", "text", "x", score=None),
    ]  # fmt: skip
    then = [replace(each, model="acme:b", answer=name) for each in heard for name in "xy"]
    opinions = [(), *((each,) for each in heard), *itertools.product(heard, then)]
    least = Billionths(750_000_000)
    plans = [
        SecondOpinion(("acme:a", "acme:b"), "equal"),
        SecondOpinion(("acme:a", "acme:b", "acme:c"), "equal"),
        SecondOpinion(("acme:a", "acme:b"), "valid"),
        SecondOpinion(("acme:a", "acme:b"), "judge", "acme:c", least),
    ]
    names = ("acme:a", "acme:b", "acme:c", "acme:top")
    for plan in plans:
        rule = RoutingRule("all", Condition(has_images=False), "acme:top", second_opinion=plan)
        learned = PatternSettings(second_opinion=plan)
        for ready in (
            a_policy("acme:top", *names, rules=(rule,)),
            a_policy("acme:top", *names, pattern=learned),
        ):
            for heard_so_far, out in itertools.product(opinions, ({}, {"acme:c": "unavailable"})):
                facts = TurnFacts("sum", opinions=heard_so_far, availability=out)
                yield told_turn(ready, facts)


def derived(each: Told) -> bytes:
    """What the Python program derives."""
    policy, facts = json.loads(each.policy), json.loads(each.facts)
    if each.room == "turn":
        return written(TurnAgain(policy, facts, each.text, each.chain).decide())
    return written(PlacementAgain(policy, facts, each.text).decide())


def written(value: Any) -> bytes:
    """Canonical JSON."""
    return ENCODER.encode(value).encode()


def derived_by_page(told: list[Told]) -> list[bytes]:
    """What the page's own script derives, run by Node."""
    names = ("room", "policy", "facts", "text", "chain")
    return page_answers({name: getattr(each, name) for name in names} for each in told)


def page_answers(asked: Iterable[dict[str, Any]]) -> list[bytes]:
    """What the page's script answers to each question, in canonical JSON."""
    assert NODE is not None
    lines = "".join(json.dumps(each) + "\n" for each in asked)
    done = subprocess.run(
        [NODE, str(DRIVER), str(PAGE)], input=lines.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.split(b"\n")[:-1]


def differing(told: list[Told], found: list[bytes]) -> list[tuple[Told, bytes]]:
    """The decisions that came out differently."""
    assert len(told) == len(found)
    return [pair for pair in zip(told, found, strict=True) if pair[0].decided != pair[1]]
