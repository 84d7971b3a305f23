"""How fast branches are decided, as ratios to zen-engine and to document 003's own routine.

All candidates of a comparison run interleaved in one process; the least of many rounds counts.
Each is given what it wants: zen a dict, we prepared facts. What preparing them costs is told too.
Writes bench/results/branches.json and a plot.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import zen
from figures import round_figures

from pointsman.branches.compiled import CompiledDecisions, compile_policy
from pointsman.branches.decide import decide
from pointsman.branches.facts import read_facts
from pointsman.branches.policy import branch_policy, read_document
from pointsman.branches.rules.table import Table, _compile
from pointsman.expressions.evaluate import EvaluationScope
from pointsman.expressions.expression import condition, value
from pointsman.kernel.document import Document
from pointsman.kernel.wb1 import Salted, ends, pick_weight, unit_bytes

RESULTS = Path(__file__).parent / "results"
ROUNDS = 40
RULES = 100
SEED = "input.severity == 'critical' and input.attempts > 2"

CONTEXT = {
    "severity": "critical",
    "attempts": 3,
    "kind": "k99",
    "score": 50,
    **{
        f"field_{n}": {"value": n, "text": "some text of usual length", "on": True}
        for n in range(46)
    },
}


def least(work: dict[str, Callable[[], object]], counts: dict[str, int]) -> dict[str, float]:
    """Return nanoseconds a call, least of many interleaved rounds."""
    found = dict.fromkeys(work, float("inf"))
    for _ in range(ROUNDS):
        for name, call in work.items():
            repeat = range(counts[name])
            start = time.perf_counter_ns()
            for _ in repeat:
                call()
            found[name] = min(found[name], (time.perf_counter_ns() - start) / counts[name])
    return found


def single() -> dict[str, float]:
    ours = condition(SEED)
    scope = EvaluationScope(CONTEXT, CONTEXT)
    fast, whole = ours.fast, scope.whole
    theirs = zen.compile_expression(SEED)
    given = {"input": CONTEXT}
    assert ours.answer(scope).value is theirs.evaluate(given) is True
    found = least(
        {
            "compiled_ns": lambda: fast(CONTEXT, whole, CONTEXT, None),
            "answer_ns": lambda: ours.answer(scope),
            "zen_ns": lambda: theirs.evaluate(given),
        },
        {"compiled_ns": 20_000, "answer_ns": 20_000, "zen_ns": 300},
    )
    return found | _ratios(found, "zen_ns", "compiled_ns", "answer_ns")


def template() -> dict[str, float]:
    ours, scope = (
        value("{{ artifact.quality_score }}"),
        EvaluationScope({"artifact": {"quality_score": 1}}),
    )
    given = {"artifact": {"quality_score": 1}}
    found = least(
        {
            "answer_ns": lambda: ours.answer(scope),
            "zen_ns": lambda: zen.render_template("{{ artifact.quality_score }}", given),
        },
        {"answer_ns": 20_000, "zen_ns": 5_000},
    )
    return found | _ratios(found, "zen_ns", "answer_ns")


def conditions(*, is_indexable: bool) -> list[str]:
    """Return 100 rules of which the last is true."""
    if is_indexable:
        return [f"input.kind == 'k{n}' and input.score > {n % 40}" for n in range(RULES)]
    return [f"input.score > {100 - n} and input.attempts < {n}" for n in range(49)] + [
        f"input.kind != 'k99' and input.score > {n}" for n in range(RULES - 50)
    ] + ["input.kind == 'k99' and input.score > 19"]  # fmt: skip


def zen_table() -> Callable[[object], object]:
    """Return zen's own decision table with the same rules, which it must also find at the end."""
    rules = [
        {"_id": str(n), "kind": f"'k{n}'", "score": f"> {n % 40}", "target": f"'t{n}'"}
        for n in range(RULES)
    ]
    content = {
        "inputs": [
            {"id": "kind", "name": "kind", "field": "kind"},
            {"id": "score", "name": "score", "field": "score"},
        ],
        "outputs": [{"id": "target", "name": "target", "field": "target"}],
        "rules": rules,
        "hitPolicy": "first",
    }
    nodes = [
        {"id": "i", "type": "inputNode", "name": "in", "position": {"x": 0, "y": 0}},
        {"id": "t", "type": "decisionTableNode", "name": "table", "content": content,
         "position": {"x": 0, "y": 0}},
        {"id": "o", "type": "outputNode", "name": "out", "position": {"x": 0, "y": 0}},
    ]  # fmt: skip
    edges = [
        {"id": "a", "sourceId": "i", "targetId": "t", "type": "edge"},
        {"id": "b", "sourceId": "t", "targetId": "o", "type": "edge"},
    ]
    decision = zen.ZenEngine().create_decision(json.dumps({"nodes": nodes, "edges": edges}))
    return lambda options: decision.evaluate(CONTEXT, options)


def table() -> dict[str, float]:
    """First match at row 100: one code object, an index, and the whole decision with its trace."""
    theirs = zen_table()
    assert theirs({})["result"] == {"target": "t99"}
    scope = EvaluationScope(CONTEXT, CONTEXT)
    texts = conditions(is_indexable=True)
    indexed = Table([condition(text) for text in texts], first=True)
    linear = Table([condition(text) for text in texts], first=True)
    linear._run = _compile(linear._conditions, is_first=True)
    mixed = Table([condition(text) for text in conditions(is_indexable=False)], first=True)
    assert indexed.is_indexed
    assert not mixed.is_indexed
    assert indexed.hits(scope).hits == linear.hits(scope).hits == mixed.hits(scope).hits == (99,)
    ready, facts = decision_of(texts)
    outcome, trace = decide(ready, facts)
    assert outcome.selected_targets == ("t99",)
    assert [each.result for each in trace.cases] == [False] * 99 + [True]
    ready_linear, _ = decision_of(texts)
    ready_linear.decision("d").table._index = None
    plain = dict(CONTEXT)
    found = least(
        {
            "one_code_object_ns": lambda: linear.hits(scope),
            "one_code_object_mixed_ns": lambda: mixed.hits(scope),
            "indexed_ns": lambda: indexed.hits(scope),
            "decide_full_trace_ns": lambda: decide(ready, facts),
            "decide_full_trace_no_index_ns": lambda: decide(ready_linear, facts),
            "facts_and_decide_ns": lambda: decide(ready, read_facts("d", plain)),
            "zen_ns": lambda: theirs({}),
            "zen_trace_ns": lambda: theirs({"trace": True}),
        },
        {
            "one_code_object_ns": 1_000, "one_code_object_mixed_ns": 1_000, "indexed_ns": 5_000,
            "decide_full_trace_ns": 500, "decide_full_trace_no_index_ns": 500,
            "facts_and_decide_ns": 50, "zen_ns": 50, "zen_trace_ns": 50,
        },
    )  # fmt: skip
    return (
        found
        | _ratios(found, "zen_ns", "one_code_object_ns", "one_code_object_mixed_ns", "indexed_ns")
        | _ratios(
            found, "zen_trace_ns",
            "decide_full_trace_ns", "decide_full_trace_no_index_ns", "facts_and_decide_ns",
        )
    )  # fmt: skip


def decision_of(texts: list[str]) -> tuple[CompiledDecisions, object]:
    rules = [{"condition": text, "target": f"t{n}"} for n, text in enumerate(texts)]
    decision = {"id": "d", "type": "rule_table", "rules": rules, "default": {"target": "none"}}
    document = Document("d", {"decision": decision}, {}, {("decision",): (1, 1)})
    return compile_policy(branch_policy([read_document(document)])), read_facts("d", CONTEXT)


def seed_choice(input_value: object, weights: list[float]) -> int:
    """Choose as document 003's `_evaluate_weighted` does."""
    total = sum(weights)
    seed = int(hashlib.sha256(str(input_value).encode()).hexdigest(), 16)
    roll = random.Random(seed).uniform(0, total)
    cumulative = 0.0
    for number, weight in enumerate(weights):
        cumulative += weight
        if roll <= cumulative:
            return number
    return -1


def measure_weighted() -> dict[str, float]:
    salted, bounds = Salted("decision-ab-prompt-variant"), ends([70, 20, 10])
    found = least(
        {
            "wb1_ns": lambda: pick_weight(salted.slot(unit_bytes("request-123456"), 100), bounds),
            "document_ns": lambda: seed_choice("request-123456", [70.0, 20.0, 10.0]),
        },
        {"wb1_ns": 5_000, "document_ns": 2_000},
    )
    return found | _ratios(found, "document_ns", "wb1_ns")


def _ratios(found: dict[str, float], anchor: str, *names: str) -> dict[str, float]:
    prefix = anchor.removesuffix("_ns")
    return {
        f"{prefix}_times_{name.removesuffix('_ns')}": found[anchor] / found[name] for name in names
    }


def loading() -> dict[str, float]:
    """What making a policy of 100 rules ready costs, once."""
    texts = conditions(is_indexable=True)
    start = time.perf_counter()
    ready, facts = decision_of(texts)
    decide(ready, facts)
    return {"hundred_rules_ms": (time.perf_counter() - start) * 1000}


def plot(found: dict[str, dict[str, float]], target: Path) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    bars = {
        "one condition": found["single"]["zen_times_compiled"],
        "template": found["template"]["zen_times_answer"],
        "100 rules, one code object": found["table"]["zen_times_one_code_object"],
        "100 rules, index": found["table"]["zen_times_indexed"],
        "100 rules, full trace": found["table"]["zen_trace_times_decide_full_trace"],
        "weighted (to the document)": found["weighted"]["document_times_wb1"],
    }
    figure, axis = plt.subplots(figsize=(6, 3))
    axis.barh(list(bars)[::-1], list(bars.values())[::-1])
    axis.set(xscale="log", xlabel="times faster, in one run")
    axis.grid(visible=True, axis="x", which="both", alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    found = {
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "context_keys": len(CONTEXT),
            "context_values": sum(len(v) if isinstance(v, dict) else 1 for v in CONTEXT.values()),
            "rules": RULES,
            "rounds": ROUNDS,
            "note": "shared, noisy cores; least of interleaved rounds, ratios of one run",
        },
        "single": single(),
        "template": template(),
        "table": table(),
        "weighted": measure_weighted(),
        "loading": loading(),
    }
    (RESULTS / "branches.json").write_text(json.dumps(round_figures(found), indent=2) + "\n")
    plot(found, RESULTS / "branches.svg")
    print(json.dumps(round_figures(found), indent=2))


if __name__ == "__main__":
    main()
