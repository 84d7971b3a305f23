"""The page of the lives, written from their figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import mean
from typing import Any

HEAD = """\
# Lives from an empty store

What a second opinion and learning save, on public outcomes, from the first turn on. Written by
`make bench-lives`: every turn is decided by the product's own code over its own store, and in the
place of providers stands what the models are on record to have answered. Nothing here is a
promise for your turns: these are questions of school mathematics and about short programs, whose
answers can be compared.

The data are 2,119 prompts and 15 models of ZeroEval ([licences and
splits](../../bench/data/README.md)). The default is the best single model among them, gpt-4o of
May 2024. *Cost* is a part of what it costs; *points* are percentage points of right answers over
it on the same turns; *coin* is how far a life is above a coin between the default and the
cheapest model that costs the same; *regret* is how far it is below an oracle that knows each
outcome beforehand.
"""

PAIRS = """
## Which pair

A pair is picked on one half of the prompts, the cheapest of 36 that stays within one point of the
default there, and measured on the other half. No verdict, and nothing is learned. Five times two
halves:

| pair | right | points | cost | agreed | right where agreed |
|---|---|---|---|---|---|
"""

LIVES = """
## Lives

*Verdicts* are the turns in a hundred about which the store is told whether the answer was right.
*cold* has the store and nothing else; *explore* is `explore: {share: 0.05, first: 20}`, *shadow*
`shadow: 0.05`, all with `target: {quality_of: best}`; *opinion* is `second_opinion` alone,
without any verdict. Where a name has several seeds, these are means over the orders of the
prompts.

| life | verdicts | turns | right | points | coin | regret | dollars | cost |
|---|---|---|---|---|---|---|---|---|
"""

SINGLE = """
Beside them, on the same turns, in the order of the first seed:

| turns | default | dollars | cheapest model | dollars | oracle | dollars |
|---|---|---|---|---|---|---|
"""

LONG = """
## Ten thousand turns

MMLU, two models, the settings as above; the default is GPT-4. This set tells no cost and no
answer, so dollars are 24.7 and 0.24 a million tokens of the prompt, as RouteLLM's authors count,
and nothing can agree.

| life | verdicts | turns | right | points | coin | regret | calls of the default | cost |
|---|---|---|---|---|---|---|---|---|
"""

TAIL = """
## What they say

- A second opinion pays from the first turn on and without a verdict: for less than a point of
  quality it costs three tenths. It can miss, too: of ten picked pairs, {missed} came out more than
  a point below on the half that was not looked at, and in a hundred turns chance alone is three
  points.
- A cold store changes nothing, however long it lives: it knows one model. Exploring and shadow
  runs make it choose, and what it saves grows with the verdicts; with every turn judged, shadow
  runs reach 57 % of the cost for 0.4 points. Exploring alone was up to 1.8 points below it.
- With two models that are far apart, as in the long lives, there is little to save.
- A turn with a second opinion is not learned from, so that *explore, opinion* learns from its tries
  alone: it neither gains nor loses much by them.

How the pairs were found is in the script, `bench/lives.py`; the two whose lives are shown were
picked there after a look at all prompts, so the table by halves is the one to go by. Of all 36
pairs, measured on all prompts, agreed answers are right in {low} to {high} of 100 cases, quality is
{worst} to {best} points over the default, and cost {least} to {most} % of it: the pair matters, and
yours should be checked on turns of yours.
"""


def page(found: Mapping[str, Any]) -> str:
    """Return the page."""
    lives = found["lives"]
    short = [each for each in lives if each["set"] != "routellm_mmlu"]
    long = [each for each in lives if each["set"] == "routellm_mmlu"]
    parts = [HEAD, PAIRS, *map(_pair_row, found["pairs"]["picked"])]
    parts += [_mean_row(found["pairs"]["picked"])]
    parts += [LIVES, *_life_rows(short), SINGLE, *_single_rows(short)]
    if long:
        parts += [LONG, *(row for each in long for row in _long_rows(each))]
    return "".join((*parts, _tail(found["pairs"]["all"], found["pairs"]["picked"])))


def _pair_row(each: Mapping[str, Any]) -> str:
    return f"| {' + '.join(each['pair'])} | {_pair_cells(each)} |\n"


def _mean_row(picked: Iterable[Mapping[str, Any]]) -> str:
    rows = [*picked]
    names = ("quality", "points_over_strong", "cost_share", "agreed", "right_where_agreed")
    return f"| *mean* | {_pair_cells({n: mean(row[n] for row in rows) for n in names})} |\n"


def _pair_cells(each: Mapping[str, Any]) -> str:
    return (
        f"{each['quality']:.3f} | {each['points_over_strong']:+.2f} | {each['cost_share']:.1%} | "
        f"{each['agreed']:.1%} | {each['right_where_agreed']:.1%}"
    )


def _life_rows(lives: list[Mapping[str, Any]]) -> Iterable[str]:
    grouped: dict[tuple[str, int], list[list[Mapping[str, Any]]]] = {}
    for each in lives:
        grouped.setdefault((each["life"], each["verdicts"]), []).append(each["marks"])
    for (name, verdicts), marks in grouped.items():
        for some in zip(*marks, strict=True):
            own = {key: mean(m[key] for m in some) for key in some[0] if _is_number(some[0][key])}
            yield (
                f"| {name} | {verdicts} % | {some[0]['turns']:,} | {own['quality']:.3f} | "
                f"{own['points_over_strong']:+.2f} | {own['points_over_coin']:+.2f} | "
                f"{own['regret_points']:.2f} | {own['usd']:.2f} | {own['cost_share']:.1%} |\n"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _single_rows(lives: list[Mapping[str, Any]]) -> Iterable[str]:
    for mark in lives[0]["marks"]:
        cells = " | ".join(
            f"{mark[name]['quality']:.3f} | {mark[name]['usd']:.2f}"
            for name in ("strong", "cheap", "oracle")
        )
        yield f"| {mark['turns']:,} | {cells} |\n"


def _long_rows(life: Mapping[str, Any]) -> Iterable[str]:
    for mark in life["marks"]:
        yield (
            f"| {life['life']} | {life['verdicts']} % | {mark['turns']:,} | "
            f"{mark['quality']:.3f} | {mark['points_over_strong']:+.2f} | "
            f"{mark['points_over_coin']:+.2f} | {mark['regret_points']:.2f} | "
            f"{mark['strong_calls']:.1%} | {mark['cost_share']:.1%} |\n"
        )


def _tail(pairs: list[Mapping[str, Any]], picked: list[Mapping[str, Any]]) -> str:
    missed = sum(each["points_over_strong"] < -1 for each in picked)
    right = [100 * each["right_where_agreed"] for each in pairs]
    points = [each["points_over_strong"] for each in pairs]
    cost = [100 * each["cost_share"] for each in pairs]
    return TAIL.format(
        low=f"{min(right):.0f}",
        high=f"{max(right):.0f}",
        worst=f"{min(points):+.1f}",
        best=f"{max(points):+.1f}",
        missed=missed,
        least=f"{min(cost):.0f}",
        most=f"{max(cost):.0f}",
    )
