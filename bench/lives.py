"""Lives from an empty store, on public outcomes: what learning and second opinions save, and cost.

Every turn is decided by the product's own code over its own store of patterns; in the place of
providers stands what models are on record to have answered. Writes bench/results/lives.json and
docs/reference/lives.md: the same bytes every time. `--quick` lives one seed of the short lives.
"""

from __future__ import annotations

import itertools
import json
import lzma
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from lives_page import page
from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.calls.answer_agreement import normal_answer
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import ONE, SCALE, Billionths, MicroUsd
from pointsman.signals.embedding import text_vector
from pointsman.signals.tokens import count_tokens
from pointsman.storage.stores.patterns.patterns import Origin, PatternStore
from pointsman.turns.chain.exploring import explore_draw, shadow_model, was_explored
from pointsman.turns.chain.opinion_step import wants_opinion
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.facts import TurnFacts
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of
from pointsman.turns.learning.second_opinion import Opinion
from pointsman.turns.policy import RoutingFile, turn_policy
from pointsman.turns.registry.models import GivenModel, GivenPrice, ModelsFile, registry
from pointsman.turns.trace import TurnOutcome, TurnTrace

BENCH = Path(__file__).parent
RESULTS = BENCH / "results"
PAGE = BENCH.parent / "docs" / "reference" / "lives.md"
NANOS = 10**9
ANSWERS = "answers_gsm_crux"
MMLU = "routellm_mmlu"
STRONG = {ANSWERS: "gpt-4o-2024-05-13", MMLU: "gpt-4-1106"}
"""The model that a user takes where nothing is learned; in `ANSWERS` it is the best single one."""

ASKED = (("deepseek-v2.5-0908", "gpt-4o-mini-2024-07-18"),
         ("gpt-4o-mini-2024-07-18", "Meta-Llama-3.1-70B-Instruct"))  # fmt: skip
"""The pairs that lives ask: the first is the one that `held_out_pairs` picks on every half."""

NEAR = 0.01
"""A pair is picked among those that come so near the quality of the strong model."""

PER_TOKEN = {"mixtral-8x7b": 240, "gpt-4-1106": 24_700}
"""Nano-dollars a token of the prompt: the mean prices that RouteLLM's authors count with, for this
set tells no cost."""

MARKS = (100, 500, 2_000, 10_000)
CHEAPEST = 9
"""So many of the cheapest models are paired."""


class Outcomes(Struct, frozen=True):
    """What every model made of every prompt, and what that cost in nano-dollars."""

    name: str
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    success: tuple[tuple[float, ...], ...]
    costs: tuple[tuple[int, ...], ...]
    answers: tuple[tuple[str, ...], ...]
    """After normalisation; empty where none could be read, or none is on record."""


class Life(Struct, frozen=True):
    """One way to live: the policy, and how many turns in a hundred get a verdict."""

    data: str
    name: str
    pattern: dict[str, object]
    verdicts: int
    seed: int
    tiers: tuple[str, ...] = ()


class Served(Struct, frozen=True):
    """What a turn came to: success, and all it cost in nano-dollars, shadow runs included."""

    success: float
    cost: int
    is_strong: bool


@cache
def load(name: str) -> Outcomes:
    """Read a set."""
    with lzma.open(BENCH / "data" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        head, *rows = map(json.loads, lines)
    models = tuple(head["models"])
    costs = [row[3] for row in rows] if name == ANSWERS else [_priced(row, models) for row in rows]
    answers = [row[4] for row in rows] if name == ANSWERS else [[""] * len(models)] * len(rows)
    return Outcomes(
        name,
        models,
        tuple(row[0] for row in rows),
        tuple(tuple(row[2]) for row in rows),
        tuple(map(tuple, costs)),
        tuple(tuple(normal_answer(each) if each else "" for each in row) for row in answers),
    )


def _priced(row: Sequence[str], models: Sequence[str]) -> list[int]:
    tokens = count_tokens(row[0])
    return [tokens * PER_TOKEN[model] for model in models]


def order_of(known: Outcomes, seed: int) -> list[int]:
    """Return the prompts in the order of a salted hash, each distinct one once."""
    first = {text: place for place, text in reversed([*enumerate(known.prompts)])}
    return sorted(first.values(), key=lambda n: _digest(f"life:{seed}:{known.prompts[n]}"))


def policy_of(life: Life) -> CompiledTurnPolicy:
    """Compile the policy of a life."""
    known, strong = load(life.data), f"m:{STRONG[life.data]}"
    given = GivenModel(location="cloud", price=GivenPrice(Decimal(1), Decimal(1)))
    models = registry(ModelsFile(1, models={f"m:{n}": given for n in known.models}), lambda _: None)
    named = [f"m:{each}" for each in life.tiers] or [strong]
    tiers = dict(zip(("fast", "balanced", "deep"), [*named, strong][:3], strict=False))
    pattern = {"method": "evidence", **life.pattern}
    written = {"schema_version": 1, "global_default": strong, "tiers": tiers, "pattern": pattern}
    routing = msgspec.convert(json.loads(json.dumps(written)), RoutingFile, dec_hook=_read_number)
    return compile_policy(turn_policy(routing, models, "/"))


def _read_number(kind: type, value: object) -> object:
    return Decimal(str(value)) if kind is Decimal else value


def live_through(life: Life) -> list[Served]:
    """Live a life from an empty store."""
    known, ready = load(life.data), policy_of(life)
    order = order_of(known, life.seed)[: MARKS[-1]]
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        store = PatternStore(Path(folder) / "patterns.db")
        try:
            return [
                _live_turn(life, known, ready, store, n, place) for n, place in enumerate(order)
            ]
        finally:
            store.close()


def _live_turn(
    life: Life,
    known: Outcomes,
    ready: CompiledTurnPolicy,
    store: PatternStore,
    number: int,
    place: int,
) -> Served:
    turn_id, settings = f"life-{life.seed}-{number}", ready.scope(None).pattern
    text = known.prompts[place]
    look, vector = fingerprint_of(text, Surroundings()), text_vector(text)
    target = None if settings.target is UNSET else settings.target
    draw = explore_draw(turn_id, settings)
    tried = None
    if draw is not UNSET and settings.explore is not UNSET and draw < settings.explore:
        tried = store.exploring_so_far(Instant(0))
    facts = TurnFacts(
        text,
        explore_draw=draw,
        exploring=UNSET if tried is None else tried,
        pattern_evidence=store.evidence(look, vector, 0, target).evidence or UNSET,
    )
    outcome, trace = decide(ready, facts)
    chosen, cost, made = _answer(known, ready, facts, (outcome, trace), place)
    asks = wants_opinion(ready, facts, (outcome, trace))
    origin: Origin | None = "explored" if was_explored(outcome, trace) else None
    is_judged = int.from_bytes(_digest(f"verdict:{turn_id}")[:4]) % 100 < life.verdicts
    again = None if asks else shadow_model(turn_id, ready, facts, chosen)
    # As the product does: a turn with a second opinion is not learned from.
    runs = [(turn_id, chosen, origin)] if not asks and (is_judged or origin or again) else []
    if again is not None:
        runs.append((f"{turn_id}-again", again, "shadow"))
        cost += known.costs[place][known.models.index(again[2:])]
    for name, model, why in runs:
        column = known.models.index(model[2:])
        store.record(
            look, vector, model=model, turn_id=name, latency_ms=0, pricing_version="", origin=why,
            cost_microusd=MicroUsd(round(known.costs[place][column] / 1000)),
            at=Instant(number * 1_000_000),
        )  # fmt: skip
        if is_judged:
            score = Billionths(round(known.success[place][column] * SCALE))
            store.update_score(name, score, ONE, f"{name}.verdict")
    column = known.models.index(chosen[2:])
    return Served(known.success[place][column], cost, STRONG[life.data] in made)


def _answer(
    known: Outcomes,
    ready: CompiledTurnPolicy,
    facts: TurnFacts,
    decided: tuple[TurnOutcome, TurnTrace],
    place: int,
) -> tuple[str, int, list[str]]:
    """Return whose answer a turn gets, what its calls cost, and which models were called."""
    chosen = decided[0].chosen_model
    calls = []
    if wants_opinion(ready, facts, decided):
        opinions: tuple[Opinion, ...] = ()
        while True:
            outcome, trace = decide(ready, replace(facts, opinions=opinions))
            chosen, step = outcome.chosen_model, trace.opinion
            if step is UNSET or step.step != "ask":
                break
            calls.append(chosen[2:])
            said = known.answers[place][known.models.index(chosen[2:])]
            opinions = (*opinions, Opinion(chosen, "text" if said else "failed", said))
        if step is UNSET or step.step == "up":
            calls.append(chosen[2:])
    else:
        calls.append(chosen[2:])
    return chosen, sum(known.costs[place][known.models.index(each)] for each in calls), calls


def all_lives() -> Iterator[Life]:
    """Return every life that is lived, the long ones first."""
    best: dict[str, object] = {"target": {"quality_of": "best"}}
    explore = {**best, "explore": {"share": "0.05", "first": 20}}
    shadow = {**best, "shadow": "0.05"}
    weak = ("mixtral-8x7b",)
    ask = {"second_opinion": {"ask": [f"m:{each}" for each in ASKED[0]]}}
    for name, pattern, verdicts in (
        ("explore", explore, 5),
        ("explore", explore, 10),
        ("shadow", shadow, 10),
    ):
        yield Life(MMLU, name, pattern, verdicts, 0, weak)
    # With one model known there is nothing to choose: more verdicts change nothing.
    yield Life(ANSWERS, "cold", best, 5, 0, ASKED[0])
    for name, pattern in (
        ("explore", explore),
        ("shadow", shadow),
        ("explore, opinion", {**explore, **ask}),
    ):
        for verdicts in (5, 10, 100):
            yield Life(ANSWERS, name, pattern, verdicts, 0, ASKED[0])
    for seed, pair in itertools.product(range(3), ASKED):
        ask = {"second_opinion": {"ask": [f"m:{each}" for each in pair]}}
        yield Life(ANSWERS, "opinion: " + " + ".join(map(_short, pair)), ask, 0, seed)


def _short(model: str) -> str:
    return model.removesuffix("-2024-07-18").removesuffix("-0908").removesuffix("-Instruct")


def marks_of(life: Life, turns: Sequence[Served]) -> list[dict[str, object]]:
    """Return the sums of a life at each mark, beside those of the same turns lived otherwise."""
    known, order = load(life.data), order_of(load(life.data), life.seed)
    strong = known.models.index(STRONG[life.data])
    cheap = min(range(len(known.models)), key=lambda n: sum(row[n] for row in known.costs))
    found = []
    for mark in (each for each in MARKS if each <= len(turns)):
        some, places = turns[:mark], order[:mark]
        own = _means([each.success for each in some], [each.cost for each in some])
        always = {
            name: _means([known.success[n][m] for n in places], [known.costs[n][m] for n in places])
            for name, m in (("strong", strong), ("cheap", cheap))
        }
        right = [max(known.success[n]) for n in places]
        least = [
            min(c for c, s in zip(known.costs[n], known.success[n], strict=True) if s == top)
            for n, top in zip(places, right, strict=True)
        ]
        oracle = _means(right, least)
        found.append({
            "turns": mark,
            "quality": round(own[0], 4),
            "usd": round(own[1] * mark, 4),
            "cost_share": round(own[1] / always["strong"][1], 4),
            "strong_calls": round(sum(each.is_strong for each in some) / mark, 4),
            "points_over_strong": round(100 * (own[0] - always["strong"][0]), 2),
            "points_over_coin": round(100 * (own[0] - _coin(own[1], always)), 2),
            "regret_points": round(100 * (oracle[0] - own[0]), 2),
            "strong": {"quality": round(always["strong"][0], 4),
                       "usd": round(always["strong"][1] * mark, 4)},
            "cheap": {"quality": round(always["cheap"][0], 4),
                      "usd": round(always["cheap"][1] * mark, 4)},
            "oracle": {"quality": round(oracle[0], 4), "usd": round(oracle[1] * mark, 4)},
        })  # fmt: skip
    return found


def _coin(cost: float, always: dict[str, tuple[float, float]]) -> float:
    """Return the quality of a coin between the cheapest and the strong model, at equal cost."""
    (high, dear), (low, least) = always["strong"], always["cheap"]
    share = min(1.0, max(0.0, (cost - least) / (dear - least)))
    return low + share * (high - low)


def _means(success: Sequence[float], costs: Sequence[int]) -> tuple[float, float]:
    return sum(success) / len(success), sum(costs) / len(costs) / NANOS


def pair_sums(known: Outcomes, pair: tuple[str, str], places: Sequence[int]) -> dict[str, float]:
    """Return what a pair comes to over some prompts, nothing learned."""
    first, then, strong = (known.models.index(each) for each in (*pair, STRONG[known.name]))
    success = cost = agreed = right = all_right = all_cost = 0.0
    for n in places:
        said, costs, done = known.answers[n], known.costs[n], known.success[n]
        cost += costs[first] + (costs[then] if said[first] else 0)
        if said[first] and said[first] == said[then]:
            agreed, right, success = agreed + 1, right + done[first], success + done[first]
        else:
            cost, success = cost + costs[strong], success + done[strong]
        all_right, all_cost = all_right + done[strong], all_cost + costs[strong]
    return {
        "quality": round(success / len(places), 4),
        "points_over_strong": round(100 * (success - all_right) / len(places), 2),
        "cost_share": round(cost / all_cost, 4),
        "agreed": round(agreed / len(places), 4),
        "right_where_agreed": round(right / max(1, agreed), 4),
    }


def held_out_pairs() -> dict[str, object]:
    """Pick a pair on one half of the prompts and measure it on the other, ten times."""
    known = load(ANSWERS)
    totals = [sum(row[n] for row in known.costs) for n in range(len(known.models))]
    cheapest = sorted(range(len(known.models)), key=lambda n: totals[n])[:CHEAPEST]
    pairs = [*itertools.combinations([known.models[n] for n in cheapest], 2)]
    everything = range(len(known.prompts))
    picked = []
    for seed in range(5):
        order = order_of(known, seed)
        halves = order[::2], order[1::2]
        for half, other in (halves, halves[::-1]):
            seen = {pair: pair_sums(known, pair, half) for pair in pairs}
            near = [p for p in pairs if seen[p]["points_over_strong"] >= -100 * NEAR]
            best = min(near or pairs, key=lambda pair: seen[pair]["cost_share"])
            picked.append({"pair": [*best], **pair_sums(known, best, other)})
    every = [{"pair": [*pair], **pair_sums(known, pair, everything)} for pair in pairs]
    return {"picked": picked, "all": every}


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _tell(life: Life) -> dict[str, object]:
    turns = live_through(life)
    return {"set": life.data, "life": life.name, "verdicts": life.verdicts, "seed": life.seed,
            "marks": marks_of(life, turns)}  # fmt: skip


def main() -> None:
    """Live all lives, two at a time, and write what they came to."""
    lives = [*all_lives()]
    if "--quick" in sys.argv:
        lives = [each for each in lives if each.data == ANSWERS and each.seed == 0]
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        told = [*pool.map(_tell, lives)]
    found = {"lives": told, "pairs": held_out_pairs()}
    if "--quick" in sys.argv:
        print(json.dumps(found, indent=1))
        return
    (RESULTS / "lives.json").write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
