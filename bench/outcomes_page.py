"""The page that compares the outcomes of gateways, written from what the bench found."""

from __future__ import annotations

from typing import Any

OURS = "Pointsman"
PATIENCE_S = 30.0
"""How long the client waits for the next byte."""

CUT_STREAM = "10_cut_stream"
CUT_AFTER_S = 0.5
"""How long after its content a stream is cut: long enough for the content to reach the client."""

ERROR_LENGTH = 160
COST_HEADER = "x-litellm-response-cost"
Facts = dict[str, Any]

HEAD = """\
<!-- Written by `make bench-outcomes` from bench/results/outcomes.json: do not edit. -->

# Outcomes compared

The rows of [Outcomes](outcomes.md) in which a provider fails, run against Pointsman and other
gateways with the same scripted upstreams on loopback, over `/v1/chat/completions`. Every cell has a
newly started gateway and one request. Pointsman's cells must be those of the table of outcomes, or
the run fails.

`first` is the model that something goes wrong with, `second` the one to fall back to. The model is
chosen in three ways:

- *named*: the caller names `first`; no fallback is configured.
- *named, list set*: the caller names `first`; a fallback to `second` is configured.
- *list*: the caller leaves the choice to the configured list of `first` and `second`.
"""

COLUMNS = """\
- *Served by*: the model whose text the client got. A stream is cut {cut_after:g} s after its first
  content, so that the content has reached the client.
- *Ended*: `complete` as HTTP and the format want it; `no [DONE]`, a stream that HTTP ended well
  without the format's last event; `broken off`, a connection closed before its end; `no end`,
  nothing for {patience:.0f} s.
- *Told by*: what in the answer differs from the one with nothing wrong: the body's `model`, and the
  headers that the gateway documents for models, retries and fallbacks.
- *Calls*: completions asked of `first` + of `second`; a refused connection cannot be counted.
- *Own count*: what the gateway itself says that the request cost, in micro-dollars; *estimate*
  where it says so.
- *Bill*: what the upstreams would bill, in micro-dollars, for every call in which content was sent,
  even if its end never came: {tokens_in} tokens in and {tokens_out} out, at $1 a million tokens for
  `first`, $2 for `second`.
"""

HOW = {
    "Pointsman": """\
- `models.yaml` names both models with their prices, and `timeout_s: 2` for each provider.
- *named*: `global_default: [main:first]`, the caller sends `main:first`.
- *named, list set*: `global_default: [main:first, spare:second]`, the caller sends `main:first`.
- *list*: the same list, the caller sends `auto`.
- Own count: `spent` of the ledger's outcome entries.
- Manual: [the gateway](../guide/gateway.md).
""",
    "LiteLLM": """\
- `model_list` names both models with `input_cost_per_token`, `output_cost_per_token`, `timeout: 2`
  and `stream_timeout: 2`. Retries are not set.
- *named*: no `fallbacks`, the caller sends `first`.
- *named, list set*: `router_settings: {fallbacks: [{"first": ["second"]}]}`, the caller sends
  `first`.
- *list*: it has no list that a caller may leave the choice to; a model group `chain` with the first
  model in it and `fallbacks: [{"chain": ["second"]}]` stands for one, and the caller sends `chain`.
- Own count: the sum of `response_cost` over the successes that a callback of
  `litellm_settings.callbacks` is told of; *header* is `x-litellm-response-cost`.
- Manual: docs.litellm.ai/docs/proxy/reliability, /timeout, /custom_pricing, /logging,
  /response_headers.
""",
    "Portkey": """\
- Each request carries `x-portkey-config`. Every target has `provider: openai`, `custom_host`,
  `api_key` and `request_timeout: 2000`. `retry` is not set.
- *named*: the first target alone, the caller sends `first`.
- *named, list set*: `strategy: {"mode": "fallback"}` over two targets, the second with
  `override_params: {"model": "second"}`; the caller sends `first`.
- *list*: the same with `override_params` in both targets, the caller sends `auto`.
- `@hono/node-server` is held at 1.14.1: with the newest one every stream ends in status 500.
- Own count: the package counts no costs.
- Manual: portkey.ai/docs/product/ai-gateway/fallbacks, /configs, /request-timeouts.
""",
}


def failing(system: Facts) -> list[Facts]:
    """Return the cells in which something is wrong."""
    return [cell for cell in system["cells"] if cell["cause"] != "01_nothing"]


def told_by(cell: Facts, system: Facts) -> list[str]:
    """Return what the answer says otherwise than the one with nothing wrong."""
    (well,) = [
        each
        for each in system["cells"]
        if each["cause"] == "01_nothing"
        and (each["way"], each["stream"]) == (cell["way"], cell["stream"])
    ]
    found = []
    if cell["body_models"] and cell["body_models"] != well["body_models"]:
        found.append(f"body `{', '.join(cell['body_models'])}`")
    for name, value in cell["headers"].items():
        if name != COST_HEADER and well["headers"].get(name) != value:
            found.append(f"`{name}: {value}`")
    return found


def is_silent_loss(cell: Facts) -> bool:
    """Tell whether status 200 came without a whole text and without an error."""
    return (
        cell["status"] == 200
        and not cell["error"]
        and (
            cell["served"] == "none" or (cell["cause"] == CUT_STREAM and cell["served"] == "first")
        )
    )


def summary(whole: Facts) -> str:
    """Return the table of counts, a column a gateway."""
    systems = whole["systems"]
    rows: dict[str, list[str]] = {
        "cells with something wrong": [],
        "`first` was named, `second` answered": [],
        "… and the body's `model` says so": [],
        "… and a header says so": [],
        "chosen by the list, `second` answered": [],
        "`first` was asked more than once": [],
        "status 200, text missing or cut, no error in the answer": [],
        "text of both models in one answer": [],
        "own count differs from the bill": [],
        "longest time until an answer's end, s": [],
    }
    for system in systems.values():
        cells = failing(system)
        replaced = [cell for cell in cells if cell["replaced"]]
        told = [told_by(cell, system) for cell in replaced]
        listed = [c for c in cells if c["way"] == "list" and c["served"] == "second"]
        counted = [cell for cell in cells if cell["microusd"] is not None]
        differs = sum(round(c["microusd"], 3) != c["paid_microusd"] for c in counted)
        figures = (
            f"{len(cells)}",
            f"{len(replaced)}",
            f"{sum(any(each.startswith('body') for each in found) for found in told)}",
            f"{sum(any(not each.startswith('body') for each in found) for found in told)}",
            f"{len(listed)}",
            f"{sum((cell['calls']['first'] or 0) > 1 for cell in cells)}",
            f"{sum(map(is_silent_loss, cells))}",
            f"{sum('then' in cell['served'] for cell in cells)}",
            f"{differs} of {len(counted)}" if counted else "no own count",
            f"{max(cell['seconds'] for cell in cells):.1f}",
        )
        for row, figure in zip(rows.values(), figures, strict=True):
            row.append(figure)
    heads = ["", *(f"{name} {each['version']}" for name, each in systems.items())]
    return markdown_table(heads, [[name, *row] for name, row in rows.items()])


def table(whole: Facts) -> str:
    """Return the tables of all causes."""
    parts = []
    for cause, note in whole["conditions"]["causes"].items():
        rows = [
            row for name, each in whole["systems"].items() for row in rows_of(name, each, cause)
        ]
        heads = ["gateway", "model", "", "served by", "status", "ended", "told by"]
        heads += ["error that the client reads", "calls", "own count", "bill"]
        parts.append(f"### {note[0].upper()}{note[1:]}\n\n{markdown_table(heads, rows)}\n")
    return "\n".join(parts)


def rows_of(name: str, system: Facts, cause: str) -> list[list[str]]:
    """Return a system's rows of a cause; whole and streamed are one row where they are equal."""
    found: dict[tuple[str, ...], list[str]] = {}
    for cell in system["cells"]:
        if cell["cause"] == cause:
            key = (cell["way"], *shown_facts(cell, system))
            found.setdefault(key, []).append("streamed" if cell["stream"] else "whole")
    return [
        [name, way, "" if len(modes) > 1 else modes[0], *facts]
        for (way, *facts), modes in found.items()
    ]


def shown_facts(cell: Facts, system: Facts) -> list[str]:
    calls = cell["calls"]
    first = "?" if calls["first"] is None else str(calls["first"])
    return [
        cell["served"],
        str(cell["status"]),
        cell["ending"],
        ", ".join(told_by(cell, system)),
        shown_error(cell["error"]),
        f"{first} + {calls['second']}",
        own_count(cell),
        str(cell["paid_microusd"]),
    ]


def shown_error(error: str | None) -> str:
    """Return an error as one short line of a table."""
    if not error:
        return ""
    line = " ".join(error.replace("|", "/").replace("`", "'").split())
    return f"`{line if len(line) <= ERROR_LENGTH else line[:ERROR_LENGTH] + '…'}`"


def own_count(cell: Facts) -> str:
    if cell["microusd"] is None:
        return "none"
    shown = f"{cell['microusd']:g}{' (estimate)' if cell['is_estimate'] else ''}"
    header = cell["headers"].get(COST_HEADER)
    return f"{shown}; header {float(header) * 1e6:g}" if header not in {None, "None"} else shown


def configurations(whole: Facts) -> str:
    """Return how each gateway was set up, and why one is missing."""
    parts = []
    for name, system in whole["systems"].items():
        parts.append(f"**{name} {system['version']}**\n")
        parts.append(HOW[name])
    parts += [f"{name} is not in the tables: {why}.\n" for name, why in whole["skipped"].items()]
    return "\n".join(parts)


def under(whole: Facts) -> str:
    told = whole["conditions"]
    return (
        f"{told['date']}, Linux {told['kernel']}, CPython {told['python']}, {told['cores']} cores;"
        f" one request a cell; a timeout of {told['timeout_s']} s for an upstream in every gateway;"
        " all other settings as each gateway ships them.\n"
    )


def page(whole: Facts) -> str:
    """Return the whole page."""
    tokens = whole["conditions"]["tokens"]
    columns = COLUMNS.format(
        cut_after=CUT_AFTER_S, patience=PATIENCE_S, tokens_in=tokens["in"], tokens_out=tokens["out"]
    )
    return "\n".join(
        [
            HEAD,
            "## Counts\n",
            summary(whole) + "\n",
            under(whole),
            "## Every cell\n",
            columns,
            table(whole),
            "## How each is configured\n",
            configurations(whole).rstrip() + "\n",
        ]
    )


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
