"""Recorded turns by the thousand: varied facts, really decided and really recorded, in groups."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from pointsman.app import Pointsman
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.kernel.record import Aside, Names
from pointsman.recording.placing import PlacedTurn
from pointsman.recording.ruling import Policies, decide_turn, policies_in_force
from pointsman.recording.waiting import BlockingWaiter, DurabilityWaiter
from pointsman.storage.policies.policies import InForce
from pointsman.turns.facts import BudgetLeft, Override, TurnFacts
from pointsman.turns.learning.pattern_row import PatternRow
from pointsman.version import VERSION

_Policies = tuple[InForce, Policies]

A_GROUP = 256
"""So many turns are handed in before anybody waits for them: a busy gateway's group."""

MODELS = """
schema_version: 1
providers: {acme: {kind: openai}, bolt: {kind: anthropic}, house: {kind: ollama}}
models:
  acme:big: {location: cloud, tier: deep, price: {input: 3, output: 15}, aliases: [big]}
  acme:small: {location: cloud, tier: fast, price: {input: "0.15", output: "0.6"}, aliases: [small]}
  bolt:opus: {location: cloud, tier: deep, price: {input: 5, output: 25}, aliases: [opus]}
  bolt:haiku:
    location: cloud
    tier: fast
    price: {input: 1, output: 5}
    capabilities: {supports_images: true, supports_tools: true, max_context_tokens: 200000}
  house:llama: {location: local, tier: fast, price: {input: 0, output: 0}, aliases: [llama]}
"""
ROUTING = """
schema_version: 1
global_default: bolt:haiku
pattern: {mode: apply}
rules:
  - {name: breaker, when: {cost_today_exceeds_usd: 40.00}, use: "house:llama"}
  - {name: deep, when: {message_matches: "(?i)architecture|design"}, use: "bolt:opus"}
  - {name: commits, when: {message_matches: "^/commit"}, use: "acme:small"}
  - {name: pictures, when: {has_images: true}, use: "acme:big"}
  - {name: long, when: {estimated_input_tokens_gt: 60000}, use: "acme:big"}
  - {name: nightly, when: {time_of_day_between: ["22:00", "06:00"]}, use: "acme:small"}
  - {name: queries, when: {file_extensions_in_context: [".sql"]}, use: "acme:big"}
workspaces:
  /w/quiet: {default: "house:llama"}
"""
NAMES = ("acme:big", "acme:small", "bolt:opus", "bolt:haiku", "house:llama")
WORDS = (
    "summarise", "architecture", "of", "the", "billing", "service", "design", "review", "retry",
    "flaky", "test", "translate", "paragraph", "regular", "expression", "ledger", "checkpoint",
)  # fmt: skip


def write_policy(home: Path) -> None:
    """Write the files that all these turns are decided under."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in (("models", MODELS), ("routing", ROUTING)):
        target = home / f"{name}.yaml"
        target.write_text(text)
        target.chmod(0o600)


def some_turn(source: random.Random, number: int) -> TurnFacts:
    """Make up the facts of a turn."""
    words = " ".join(source.choices(WORDS, k=source.randint(4, 40)))
    message = f"/commit {words}" if source.random() < 0.1 else f"{words} {number}"
    alias = source.choice(("", "", "", "", "", "big", "opus"))
    models = dict(zip(("", "big", "opus"), ("", "acme:big", "bolt:opus"), strict=True))
    return TurnFacts(
        message,
        override=Override(alias, models[alias]) if alias else None,
        sticky_model=source.choice((None, None, None, "acme:big")),
        workspace_path=source.choice((None, "/w/loud", "/w/quiet")),
        is_worker=source.random() < 0.05,
        has_images=source.random() < 0.05,
        estimated_input_tokens={"*": source.randint(10, 90_000)},
        has_tool_definitions=source.random() < 0.3,
        has_system_prompt=source.random() < 0.5,
        file_extensions_in_context=source.choice(((), (), (".py",), (".sql", ".py"))),
        local_minutes=source.randrange(1440),
        cost_today_microusd=MicroUsd(source.randrange(60_000_000)),
        availability={source.choice(NAMES): source.choice(("healthy", "unavailable", "degraded"))},
        pattern_rows=tuple(_row(source, place) for place in range(source.choice((0, 0, 3, 6)))),
        budgets=(BudgetLeft("day", MicroUsd(source.randrange(-1_000, 5_000_000))),),
    )


def _row(source: random.Random, place: int) -> PatternRow:
    return PatternRow(
        fingerprint_id=f"sha256:{source.getrandbits(256):064x}",
        model=source.choice(NAMES),
        success=Billionths(source.randrange(10**9)),
        cost_microusd=MicroUsd(source.randrange(20_000)),
        sample_size=source.randint(1, 40),
        similarity=Billionths(10**9 - place * 10_000_000 - source.randrange(10**6)),
    )


def record_turns(pointsman: Pointsman, first: int, end: int, seed: int = 1) -> Iterator[int]:
    """Decide and record turns; gives how many are durable after each group."""
    in_force = pointsman.in_force()
    policies = policies_in_force(in_force)
    for start in range(first, end, A_GROUP):
        waits, last = BlockingWaiter(), min(start + A_GROUP, end)
        for number in range(start, last):
            facts = some_turn(random.Random(seed * 10**9 + number), number)
            _record_one(pointsman, facts, number, waits, (in_force, policies))
        waits.wait()
        yield last


def _record_one(
    pointsman: Pointsman,
    facts: TurnFacts,
    number: int,
    waits: DurabilityWaiter,
    policies: _Policies,
) -> None:
    in_force, ruling_policies = policies
    about = PlacedTurn(pointsman.ids.new_id(), f"s-{number // 20}", pointsman.clock.now())
    ruling = decide_turn(ruling_policies, pointsman.gather_placement(in_force, facts, about), facts)
    aside = Aside(1, pointsman.ids.new_id(), about.session_id, False, VERSION)
    names = Names(pointsman.ids.new_id(), about.turn_id, about.asked_at)
    pointsman.decision_recorder.hand_in(names, in_force, ruling, aside, waits)
