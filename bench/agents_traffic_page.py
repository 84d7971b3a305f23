"""The page about agents' traffic, written from what the bench found."""

from __future__ import annotations

from typing import Any, Final

OURS: Final = "Pointsman"
SENSITIVE: Final = "Pointsman, sensitive"
DIRECT: Final = "direct"
Figures = dict[str, Any]

TITLES: Final = {
    "20k_16": "20 KB at 16",
    "20k_64": "20 KB at 64",
    "150k_1": "150 KB at 1",
    "150k_16": "150 KB at 16",
    "150k_64": "150 KB at 64",
    "150k_256": "150 KB at 256",
    "150k_stream_16": "150 KB stream at 16",
    "1m_16": "1 MB at 16",
}

HEAD: Final = """\
<!-- Written by `make bench-agents-traffic` from bench/results/agents-traffic.json: do not edit. -->

# Speed with agents' own traffic

Coding agents do not send small requests: they send a system prompt, dozens of tools with their
schemas and the whole history with every request, 20 KB to 1 MB, and four of five requests bring
the result of a tool. `make bench-agents-traffic` measures Pointsman and other gateways with such
requests, interleaved in one run, against one fake upstream that takes no time.

Pointsman is measured with default settings: every turn is decided under the whole policy,
decisions, placements and outcomes are on disk as promised, and after each round every answer's
outcome must stand in a ledger that verifies as intact. The peers run with their stock settings
and **record nothing**.
"""

METHOD: Final = """\
## How it is measured

- [Bodies](../../bench/agent_bodies.py) are drawn from a seed: system prompt, 8, 34 or 48 tools, a
  history of calls and results made of code, and in the largest two pictures. A turn is a cycle of
  five requests: a new message, then four that each bring one more result; the upstream answers
  the first four with the call of a tool. Each connection has a history of its own, and each cycle
  new messages.
- The [load](../../bench/gateway/load.c) is a closed loop; every answer is checked to its end. One
  process a gateway, one model behind it. CPU is that of the gateway's processes.
- *Beside 1 MB*: one connection sends 1 KB requests while four agents send 1 MB each.
- *Sensitive*: Pointsman reads each request, unknown fields included, for secrets and payment
  data.
- The peers' own records are not measured yet. LiteLLM's needs a database client whose engines are
  fetched from elsewhere while it is generated; TensorZero's needs a database server beside it.
- For 1 KB requests, relays written in Rust that record nothing are faster than Pointsman:
  [speed](speed.md) has those figures.
"""


def page(found: Figures) -> str:
    """Return the page."""
    told = found["conditions"]
    answers = sum(each["answers"] for each in found.get("checked", []))
    around = (
        f"{told['date']}, {told['cores']} cores ({told['cpu']}), CPython {told['python']};"
        f" load average before {told['load_average_before']:.2f}; others took"
        f" {told['others_share_of_cpu']:.0%} of all cores meanwhile. {told['rounds']} rounds of"
        f" {told['seconds']:.0f} s a figure, medians. Note: {told['note']}."
    )
    checked = (
        f"In this run Pointsman's ledgers hold the outcomes of all {answers:,} answers,"
        " and each verified as intact."
    )
    skipped = [f"- {name}: not measured, {why}" for name, why in found["skipped"].items()]
    parts = [
        HEAD,
        "## Requests a second\n",
        _rates(found),
        "\n## How many times a peer's rate ours is\n",
        _ratios(found),
        "\n" + _verdict(found),
        "\n## CPU a request, and memory\n",
        _costs(found),
        "\n## A small request beside large ones, µs\n",
        _beside(found),
        "",
        *skipped,
        around,
        "",
        checked,
        "",
        METHOD,
    ]
    return "\n".join(parts)


def _order(found: Figures) -> list[str]:
    systems = found["systems"]
    return sorted(systems, key=lambda name: -systems[name]["150k_16"]["per_s"])


def _name(name: str, found: Figures) -> str:
    shown = f"**{name}**" if name == OURS else "no gateway" if name == DIRECT else name
    return f"{shown} {found['versions'].get(name, '')}".strip()


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join([_row(*heads), _row(*["---"] * len(heads)), *(_row(*each) for each in rows)])


def _rates(found: Figures) -> str:
    rows = [
        [_name(name, found), *(f"{found['systems'][name][case]['per_s']:,.0f}" for case in TITLES)]
        for name in _order(found)
    ]
    return _table(["gateway", *TITLES.values()], rows)


def _peers(found: Figures) -> list[str]:
    return [name for name in _order(found) if name not in {OURS, SENSITIVE, DIRECT}]


def _times(found: Figures, name: str, case: str) -> float:
    systems = found["systems"]
    theirs = systems[name][case]["per_s"]
    # One that gave no answer in time is told as such.
    return float(systems[OURS][case]["per_s"] / theirs) if theirs else float("inf")


def _times_text(found: Figures, name: str, case: str) -> str:
    times = _times(found, name, case)
    return f"{times:.2g}" if times != float("inf") else "no answer in time"


def _ratios(found: Figures) -> str:
    rows = [
        [_name(name, found), *(_times_text(found, name, case) for case in TITLES)]
        for name in [*_peers(found), *([SENSITIVE] if SENSITIVE in found["systems"] else [])]
    ]
    return _table(["ours ÷", *TITLES.values()], rows)


def _verdict(found: Figures) -> str:
    """Say plainly where others are faster."""
    faster = [
        f"{name} at {TITLES[case]} ({1 / _times(found, name, case):.2g} times ours)"
        for name in _peers(found)
        for case in TITLES
        if _times(found, name, case) < 1
    ]
    if not faster:
        return "No peer was faster in any of these cases. With 1 KB requests some are, see below."
    return f"Faster than Pointsman: {'; '.join(faster)}."


def _costs(found: Figures) -> str:
    cases = ("20k_16", "150k_16", "150k_stream_16", "1m_16")
    rows = []
    for name in _order(found):
        if name != DIRECT:
            seen = found["systems"][name]
            cpu = [f"{seen[case]['cpu_ms']:.2g}" for case in cases]
            rows.append([_name(name, found), *cpu, f"{seen['150k_16']['mib']:.0f}"])
    heads = [f"CPU ms, {TITLES[case]}" for case in cases]
    return _table(["gateway", *heads, "MiB after 150 KB at 16"], rows)


def _beside(found: Figures) -> str:
    rows = []
    for name in _order(found):
        alone, beside = (
            found["systems"][name][case] for case in ("small_alone", "small_beside_1m")
        )
        figures = [alone["p50_us"], alone["p99_us"], beside["p50_us"], beside["p99_us"]]
        rows.append([_name(name, found), *(f"{each:,.0f}" for each in figures)])
    heads = ["p50 alone", "p99 alone", "p50 beside 1 MB", "p99 beside 1 MB"]
    return _table(["gateway", *heads], rows)
