"""The page about the gateway's speed, written from what the bench found."""

from __future__ import annotations

from typing import Any

OURS = "Pointsman"
DIRECT = "direct"

Figures = dict[str, Any]

PEERS = {
    "LiteLLM": "proxy, one worker, a model list of one, a master key (it does not start without)",
    "Portkey": (
        "on Node, headless; `@hono/node-server` held at 1.14.1, because with the newest one every"
        " stream ends in status 500"
    ),
    "TensorZero": (
        "the HTTP gateway that its Python package embeds; no database, so it records nothing"
    ),
    "vllm-router": "balances over one worker; no models, prices or records",
    "sglang-router": "balances over one worker; no models, prices or records",
}

HEAD = """\
<!-- Written by `make bench-gateway` from bench/results/gateway.json: do not edit. -->

# Speed of the gateway

`make bench-gateway` measures Pointsman and other gateways in one run, against one fake upstream
that takes no time. Everything between a caller and its answer is then the gateway's own cost.

While it is measured Pointsman does all that it does otherwise, with default settings: every request
is ruled under the whole policy, its decision and its text are on disk before the first byte of the
answer leaves, its spending is counted. After each round the ledger must hold a decision for every
answer and verify as intact; if not, the bench fails.
"""

INTRODUCTION = """\
Fastest first, at 1, 16 and 64 connections. *Ours, times* is how many times that gateway's rate
Pointsman's is. The second table is what a gateway adds to the upstream alone, in microseconds, and
what it takes. Load, upstream and gateway share the cores: trust the ratios, not absolute figures.
"""

METHOD = """\
## How it is measured

- The [upstream](../../bench/gateway/fake_upstream.c) and the
  [load generator](../../bench/gateway/load.c) are C programs on loopback, compiled when the bench
  starts. The answer is a chat completion of about 1 KB, or 50 events of a stream in one write.
- The load is a closed loop: each connection asks again when it was answered. Every request has a
  text of its own, so nothing can be answered from memory. Every answer is checked: status 200,
  framed to its end, all of its text there. One that is not is an error and counts nowhere else.
- One process a gateway, stock settings, one model behind it, an environment of its own, pinned in
  [bench/gateway](../../bench/gateway). A gateway that cannot be installed or run is told with its
  reason.
- *Acknowledged at once*: the reader confirms every piece when it comes, which readers do not do of
  themselves. A gateway that leaves Nagle's algorithm on waits up to 40 ms for that confirmation in
  each stream; this column shows it without the wait.
- Rounds in alternating order, each with a new start and a warm-up; the table shows medians. What a
  gateway adds is its latency less that of the upstream alone at the same load in the same round.
- Start-up is the time from the start of the process until its health check answers. Memory is what
  it and its children hold after all load of a round.
"""


def by_speed(found: Figures) -> list[str]:
    systems = found["systems"]
    return sorted(systems, key=lambda name: -systems[name]["cases"]["plain_16"]["per_s"])


def system_title(name: str, found: Figures) -> str:
    shown = f"**{name}**" if name == OURS else "no gateway" if name == DIRECT else name
    version = found["systems"][name].get("version", "")
    return f"{shown} {version}".strip()


def table(found: Figures) -> str:
    """Return both tables: rates with ratios, and what a gateway costs."""
    return f"{rates(found)}\n\n{costs(found)}"


def rates(found: Figures) -> str:
    heads = ["gateway", "req/s at 16", "ours, times", "streams/s at 16", "ours, times"]
    heads += ["the same, acknowledged at once", "ours, times", "req/s at 1", "req/s at 64"]
    rows = []
    for name in by_speed(found):
        cases, ratio = found["systems"][name]["cases"], found["times"].get(name, {})
        cells = [system_title(name, found)]
        for case in ("plain_16", "stream_16", "acked_16"):
            cells += [number(cases[case]["per_s"]), times(ratio.get(case))]
        rows.append([*cells, *(number(cases[case]["per_s"]) for case in ("plain_1", "plain_64"))])
    return markdown_table(heads, rows)


def costs(found: Figures) -> str:
    heads = ["gateway", "p50 at 1", "p99 at 1", "p50 at 16", "p99 at 16", "p50 at 64", "p99 at 64"]
    heads += ["first byte at 1", "memory, MiB", "start, s", "errors"]
    rows = []
    for name in by_speed(found):
        each = found["systems"][name]
        if name == DIRECT:
            continue
        cases = each["cases"]
        cells = [system_title(name, found)]
        for case in ("plain_1", "plain_16", "plain_64"):
            cells += [number(cases[case][f"added_{part}_us"]) for part in ("p50", "p99")]
        cells.append(number(cases["stream_1"]["added_first_byte_p50_us"]))
        cells += [number(each["loaded_mib"]), f"{each['start_s']:.2f}"]
        rows.append([*cells, number(sum(case["errors"] for case in cases.values()))])
    return markdown_table(heads, rows)


def number(value: float) -> str:
    return f"{value:,.0f}"


def times(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def notes(found: Figures) -> str:
    measured = [f"- {name}: {text}." for name, text in PEERS.items() if name in found["systems"]]
    skipped = [f"- {name} is not in the table: {why}." for name, why in found["skipped"].items()]
    return "\n".join([*measured, *skipped])


def under(found: Figures) -> str:
    told = found["conditions"]
    share = told["others_share_of_cpu"]
    others = "a share not measured" if share is None else f"{share:.0%}"
    return (
        f"{told['date']}, {told['cores']} cores ({told['cpu']}), Linux {told['kernel']},"
        f" CPython {told['python']}, Node {told['node']}; load average before"
        f" {told['load_average_before']:.2f}; others took {others} of all cores meanwhile; the disk"
        f" makes 4 KB durable in {told['sync_ms']:.2f} ms. {told['rounds']} rounds of"
        f" {told['seconds']:g} s a figure. Note: {told['note']}."
    )


def promise(found: Figures) -> str:
    checked = found["systems"][OURS]["checked"]
    answers = sum(each["answers"] for each in checked)
    decisions = sum(each["decisions"] for each in checked)
    return (
        f"In this run the upstream gave Pointsman {answers:,} answers, its ledgers hold"
        f" {decisions:,} decisions, and each verified as intact."
    )


def page(found: Figures) -> str:
    """Return the whole page."""
    parts = [
        HEAD,
        "## What was measured\n",
        INTRODUCTION,
        table(found) + "\n",
        notes(found) + "\n",
        under(found) + "\n",
        promise(found) + "\n",
        "![rates and added latency](../../bench/results/gateway.svg)\n",
        METHOD,
    ]
    return "\n".join(parts)


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
