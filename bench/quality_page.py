"""The figures of learned routing as a page and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import matplotlib as mpl

Router = Mapping[str, object]
TITLES = {
    "routellm_mmlu": "MMLU, Mixtral-8x7B and GPT-4",
    "routellm_mmlu_large": "MMLU, ledgers of more looks than are compared",
    "routellm_gsm8k": "GSM8K, Mixtral-8x7B and GPT-4",
    "routerbench_subset": "RouterBench subset, 11 models",
}


def page(found: Mapping[str, object]) -> str:
    """Return the figures as Markdown."""
    lines = ["# Learned routing: figures", "", "Written by `make bench-quality`.", ""]
    for name, about in found.items():
        told = cast("Mapping[str, object]", about)
        rows = cast("Mapping[str, Router]", told["routers"])
        size = f"{told['prompts']} prompts, {told['ledgers']} ledgers of {told['ledger_rows']} rows"
        lines += [f"## {TITLES[name]}", "", size, "", *_table(rows), ""]
        if "nearest_found" in told:
            share = cast("float", told["nearest_found"])
            lines += [f"Of the nearest looks, the choice by signs finds {100 * share:.0f} %.", ""]
        if "strong_share_asked_and_realised" in told:
            shares = cast("Mapping[str, float]", told["strong_share_asked_and_realised"])
            said = ", ".join(f"{asked} → {came:.3f}" for asked, came in shares.items())
            lines += [
                f"Share of strong calls, asked on the ledger → realised on the test: {said}",
                "",
            ]
    return "\n".join(lines)


def _table(rows: Mapping[str, Router]) -> list[str]:
    if "apgr" in next(iter(rows.values())):
        head = "| router | APGR | 95 % interval | sd over ledgers | CPT(50) | CPT(80) |"
        body = [
            f"| {name} | {row['apgr']:.3f} | {_interval(row)} | {row['sd']:.3f} "
            f"| {row['cpt50']:.1f} | {row['cpt80']:.1f} |"
            for name, row in rows.items()
        ]
        return [head, "|---|---|---|---|---|---|", *body]
    head = "| router | AIQ | 95 % interval | sd over ledgers | best quality |"
    body = [
        f"| {name} | {row['aiq']:.3f} | ± {row['half_interval']:.3f} | {row['sd']:.3f} "
        f"| {row['best_quality']:.3f} |"
        for name, row in rows.items()
    ]
    return [head, "|---|---|---|---|---|", *body]


def _interval(row: Router) -> str:
    low, high = cast("list[float]", row["interval"])
    return f"{low:.3f} to {high:.3f}"


def picture(curves: Mapping[str, Mapping[str, list[list[float]]]], path: Path) -> None:
    """Draw quality against cost, a panel a set."""
    mpl.use("svg")
    # The same bytes every time: no date, and ids that do not depend on chance.
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    figure, panels = plt.subplots(1, len(curves), figsize=(15, 4.5))
    for panel, (name, drawn) in zip(panels, curves.items(), strict=True):
        for router, points in drawn.items():
            style = "--" if router in {"random", "zero router", "oracle"} else "-"
            panel.plot(*zip(*points, strict=True), style, label=router, linewidth=1.2)
        panel.set_title(TITLES[name])
        is_two = name.startswith("routellm")
        panel.set_xlabel("share of strong calls" if is_two else "dollars a question")
        panel.set_ylabel("part of the gap recovered" if is_two else "quality")
        panel.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
