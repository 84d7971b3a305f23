"""How long a turn's decision takes: `decide` alone, with gathering, on hostile text, and growth.

Times depend on the machine; the ratios to the 10-rule policy of the same run do not. Writes
bench/results/decide.json and a plot.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path

import matplotlib as mpl
from figures import round_figures
from msgspec.structs import replace

from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.storage.stores.patterns.index import PatternIndex
from pointsman.storage.stores.patterns.look import Look
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import ImportRow
from pointsman.testing import a_policy, some_facts
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of, hashed_vector
from pointsman.turns.learning.pattern_row import PatternRow
from pointsman.turns.policy import RoutingRule
from pointsman.turns.rules.condition import Condition, TimeWindow
from pointsman.turns.rules.text_patterns import MAX_TEXT

RESULTS = Path(__file__).parent / "results"
MODELS = ("acme:small", "acme:large", "other:medium")
MESSAGE = (
    "Please walk me through the architecture of this service, then write a commit message for the"
    " change to src/billing/invoice.py that rounds half to even; keep it under fifty characters ok?"
).ljust(200, ".")


VECTORS = [hashed_vector(f"{MESSAGE[n:]} {n}") for n in range(100)]


def rules(count: int) -> tuple[RoutingRule, ...]:
    """Return rules as people write them, none of which matches the message."""
    kinds = [
        lambda n: Condition(message_matches=f"^/never{n}|deploy.*cluster {n}"),
        lambda n: Condition(message_contains_any=(f"kubernetes {n}", f"terraform {n}")),
        lambda n: Condition(estimated_input_tokens_gt=80_000 + n, has_images=False),
        lambda n: Condition(file_extensions_in_context=(f".x{n}",), has_tool_calls_in_history=True),
        lambda n: Condition(
            any_of=(
                Condition(message_matches=f"(security|design) review {n}"),
                Condition(skills_matching_message_includes=(f"skill_{n}",)),
            )
        ),
        lambda n: Condition(
            time_of_day_between=TimeWindow(0, 1), cost_today_exceeds_microusd=MicroUsd(n)
        ),
        lambda n: Condition(workspace_path_matches=f"^/srv/team{n}/"),
    ]
    return tuple(
        RoutingRule(f"rule {n}", kinds[n % len(kinds)](n), MODELS[n % len(MODELS)])
        for n in range(count)
    )


def policy(count: int) -> CompiledTurnPolicy:
    return a_policy("acme:large", *MODELS, rules=rules(count))


ROWS = tuple(
    PatternRow(
        f"f{n}",
        MODELS[n % 3],
        Billionths(700_000_000 + n * 7_000_000),
        MicroUsd(4_000 * (n % 3 + 1)),
        n + 1,
        Billionths(900_000_000 - n * 1_000_000),
    )
    for n in range(10)
)
FACTS = some_facts(
    MESSAGE,
    workspace_path="/home/me/code/project",
    estimated_input_tokens={"*": 1_200},
    pattern_rows=ROWS,
    file_extensions_in_context=(".py", ".md"),
)


def times(work, count: int) -> dict[str, float]:
    """Return percentiles in microseconds of many single runs."""
    found = []
    for _ in range(count):
        start = time.perf_counter_ns()
        work()
        found.append(time.perf_counter_ns() - start)
    found.sort()
    return {
        "p50_us": found[count // 2] / 1000,
        "p99_us": found[count * 99 // 100] / 1000,
        "p999_us": found[min(count - 1, count * 999 // 1000)] / 1000,
    }


def growth() -> dict[str, dict[str, float]]:
    found = {}
    for count in (10, 30, 100, 300, 1_000, 3_000, 10_000):
        ready = policy(count)
        found[str(count)] = times(
            lambda ready=ready: decide(ready, FACTS), 2_000 if count < 1_000 else 200
        )
    return found


HOSTILE = {
    "a_million_letters": "a" * 1_000_000,
    "nested_repeats": "(a+)+$" * 5_000 + "a" * 10_000,
    "long_lines": ("x" * 4_000 + "\n") * 250,
    "random_unicode": "".join(chr(0x1F300 + n % 500) for n in range(100_000)),
}
HOSTILE_PATTERNS = (
    "(a+)+$",
    ".*.*=.*",
    "(x+x+)+y",
    "(a|aa)+$",
    "^/commit|write.*commit message",
    ".*" * 50 + "z",
)


def gathering(ready: CompiledTurnPolicy) -> dict[str, dict[str, float]]:
    """Take a fingerprint, look it up among 1,000, and decide."""
    folder = Path(tempfile.mkdtemp(prefix="pointsman-bench-", dir=RESULTS))
    try:
        with closing(PatternStore(folder / "patterns.db")) as store:
            store.import_rows([_pattern(number) for number in range(1_000)], Instant(1))
            around = Surroundings(file_extensions=(".py", ".md"), estimated_input_tokens=1_200)

            def structural() -> None:
                rows = store.nearest(fingerprint_of(MESSAGE, around), b"", 10)
                decide(ready, replace(FACTS, pattern_rows=rows))

            def hybrid() -> None:
                rows = store.nearest(fingerprint_of(MESSAGE, around), hashed_vector(MESSAGE), 10)
                decide(ready, replace(FACTS, pattern_rows=rows))

            structural()
            return {
                "with_gathering": times(structural, 2_000),
                "with_gathering_and_vector": times(hybrid, 1_000),
            }
    finally:
        shutil.rmtree(folder)


def large_index() -> dict[str, float]:
    """One look-up among 100,000 fingerprints with vectors, in memory."""
    index = PatternIndex()
    for start in range(0, 100_000, 5_000):
        index.add([_look(number) for number in range(start, start + 5_000)])
    look = fingerprint_of(MESSAGE, Surroundings(file_extensions=(".py",)))
    vector = hashed_vector(MESSAGE)
    index.nearest(look, vector, 10)
    return times(lambda: index.nearest(look, vector, 10), 40)


def _text(number: int) -> str:
    return f"change number {number} of module {number % 97}: {MESSAGE[number % 60 : 120]}"


def _pattern(number: int) -> ImportRow:
    text = _text(number)
    look = fingerprint_of(text, Surroundings(file_extensions=(f".x{number % 40}", ".py")))
    vector, success = hashed_vector(text), Billionths(500_000_000)
    return ImportRow(f"row-{number}", look, vector, MODELS[number % 3], success, MicroUsd(9), 3)


def _look(number: int) -> Look:
    # Few texts, many structures: making 100,000 vectors would take longer than the bench itself.
    look = fingerprint_of("", Surroundings(file_extensions=(f".x{number}",)))
    return Look.of(look, VECTORS[number % len(VECTORS)])


def hostile() -> dict[str, dict[str, float]]:
    """Patterns and texts that stall backtracking engines."""
    bad = tuple(
        RoutingRule(f"r{n}", Condition(message_matches=p), MODELS[0])
        for n, p in enumerate(HOSTILE_PATTERNS)
    )
    ready = a_policy("acme:large", *MODELS, rules=(*bad, *rules(100)))
    return {
        name: times(lambda text=text: decide(ready, some_facts(text)), 40)
        for name, text in HOSTILE.items()
    }


def plot(found: dict[str, dict[str, float]], target: Path) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    figure, axis = plt.subplots(figsize=(6, 3.6))
    counts = [int(count) for count in found]
    for name in ("p50_us", "p99_us"):
        axis.plot(counts, [each[name] for each in found.values()], marker="o", label=name[:-3])
    axis.set(xscale="log", yscale="log", xlabel="rules", ylabel="µs a decision")
    axis.legend()
    axis.grid(visible=True, which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    hundred = policy(100)
    log = some_facts(("INFO 2026-11-15 request served in 12 ms\n" * 600)[:20_000])
    decide(hundred, log)
    grown = growth()
    found = {
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "message_chars": len(MESSAGE),
            "pattern_rows": len(ROWS),
            "text_cap_chars": MAX_TEXT,
            "note": "shared, noisy cores; the ratio to 10 rules is of one run",
        },
        "hundred_rules": times(lambda: decide(hundred, FACTS), 20_000),
        **gathering(hundred),
        "index_100000_fingerprints": large_index(),
        "pasted_log_20000_chars": times(lambda: decide(hundred, log), 2_000),
        "hostile": hostile(),
        "growth": grown,
        "times_ten_rules": {
            count: each["p50_us"] / grown["10"]["p50_us"] for count, each in grown.items()
        },
    }
    (RESULTS / "decide.json").write_text(json.dumps(round_figures(found), indent=2) + "\n")
    plot(grown, RESULTS / "decide.svg")
    print(json.dumps(round_figures(found), indent=2))


if __name__ == "__main__":
    main()
