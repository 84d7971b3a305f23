"""The why-screen: one turn decision as text, at most 24 lines of 80 columns. Document 002 §7.4."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from textwrap import wrap
from unicodedata import east_asian_width

import msgspec
from msgspec import Struct

from pointsman.kernel.document import printable
from pointsman.kernel.instant import Instant, instant_text
from pointsman.kernel.number import Billionths, billionths_text
from pointsman.placement.trace import Placed
from pointsman.turns.trace import Evaluation, ModelOption, Neighbour, Slot, Trace, TurnOutcome

WIDTH = 80
HEIGHT = 24

_NAMES: dict[Slot, str] = {
    "per_message_override": "PER_MESSAGE_OVERRIDE",
    "manual_sticky": "MANUAL_STICKY",
    "rule": "CONFIGURED_RULES",
    "pattern": "PATTERN_RECOMMENDATION",
    "delegate_request": "DELEGATE_REQUEST",
    "workspace_default": "WORKSPACE_DEFAULT",
    "global_default": "GLOBAL_DEFAULT",
}
_REASON_COLUMN = 45
_MORE_LINES = 2


class Shown(Struct, frozen=True):
    """A turn's decision with the names it goes by."""

    turn_id: str
    session_id: str
    decision_id: str
    at: Instant
    policy_id: str
    facts_id: str
    decision_version: int
    is_preview: bool
    elapsed_us: int
    outcome: TurnOutcome
    trace: Trace
    placed: Placed | None = None


def why_screen(shown: Shown) -> str:
    """Render a decision."""
    outcome = shown.outcome
    chose = "Chose: no model"
    if outcome.chosen_model:
        winner = shown.trace.chain[outcome.winner_index].policy.replace("_", " ")
        chose = f"Chose: {outcome.chosen_model}   ({winner})"
    session = f" · session {shown.session_id}" if shown.session_id else ""
    note = " · preview" if shown.is_preview else ""
    lines = [
        f"Turn {shown.turn_id}{session} · {instant_text(shown.at)}{note}",
        chose,
        *_placed(shown.placed),
        "",
        "Chain:",
        *(line for index, each in enumerate(shown.trace.chain) for line in _slot(index, each)),
        *(line for banner in outcome.banners for line in ("", *wrap(banner.text, WIDTH))),
        "",
        f"decision {shown.decision_id} · version {shown.decision_version}",
        f"policy   {shown.policy_id}",
        f"facts    {shown.facts_id}",
    ]
    return "\n".join(_fitted([printable(line) for line in lines]))


def shown_value(shown: Shown) -> dict[str, object]:
    """Give the `route.decided` payload of the contracts."""
    return {
        "decision_id": shown.decision_id,
        "turn_id": shown.turn_id,
        "chosen_model": shown.outcome.chosen_model,
        "winner_index": shown.outcome.winner_index,
        "decision_version": shown.decision_version,
        "policy_id": shown.policy_id,
        "facts_id": shown.facts_id,
        "elapsed_ms": shown.elapsed_us / 1000,
        "banners": shown.outcome.banners,
        "placement": shown.placed,
        "chain": [_evaluation_value(each) for each in shown.trace.chain],
    }


def _evaluation_value(evaluation: Evaluation) -> dict[str, object]:
    alternatives, neighbours = evaluation.pattern_alternatives, evaluation.neighbours
    return {
        **_told(evaluation),
        "confidence": _number(evaluation.confidence),
        "flip_margin": _number(evaluation.flip_margin),
        "neighbours": neighbours and [_neighbour_value(each) for each in neighbours],
        "pattern_alternatives": alternatives and [_option_value(each) for each in alternatives],
    }


def _option_value(option: ModelOption) -> dict[str, object]:
    value = {**_told(option), "score": _number(option.score)}
    for name in ("success", "standard_error"):
        if name in value:
            value[name] = _number(getattr(option, name))
    if not isinstance(option.effective_rows, msgspec.UnsetType):
        value["effective_rows"] = option.effective_rows / 1000
    return value


def _told(value: Struct) -> dict[str, object]:
    """Give the fields of a value that say something."""
    found = msgspec.structs.asdict(value)
    return {name: each for name, each in found.items() if each is not msgspec.UNSET}


def _neighbour_value(neighbour: Neighbour) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(neighbour),
        "similarity": _number(neighbour.similarity),
        "success": _number(neighbour.success),
    }


def _number(value: Billionths | None) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(billionths_text(value).encode())


def _placed(placed: Placed | None) -> list[str]:
    """Tell about a placement that left something out; one that leaves all open says nothing."""
    if placed is None or placed.gate == "open":
        return []
    left = "stays on this machine" if placed.gate == "local" else "goes nowhere"
    return [f"Placed: {left}   ({placed.rule_id}: {placed.reason})"]


def _slot(index: int, evaluation: Evaluation) -> list[str]:
    head = f"  [{index + 1}] {_NAMES[evaluation.policy]:<22} {evaluation.verdict:<15}"
    first, *more = wrap(_said(evaluation), WIDTH - _REASON_COLUMN) or [""]
    said = [first, *more[:_MORE_LINES], *_neighbours(evaluation)]
    if len(more) > _MORE_LINES:
        said[_MORE_LINES] = said[_MORE_LINES][: WIDTH - _REASON_COLUMN - 1] + "…"
    return [f"{head} {said[0]}".rstrip(), *(" " * _REASON_COLUMN + line for line in said[1:])]


def _said(evaluation: Evaluation) -> str:
    candidate, reason = evaluation.candidate_model, evaluation.reason
    if evaluation.verdict == "chose" and evaluation.policy.endswith("default"):
        return candidate or ""
    said = reason if candidate is None or candidate in reason else f"{candidate} ({reason})"
    if evaluation.validation_failure:
        said += f" [{evaluation.validation_failure}]"
    return said + _earlier(evaluation)


def _earlier(evaluation: Evaluation) -> str:
    """Name the rules that matched before the one that is told about."""
    attempts = evaluation.rule_attempts
    if evaluation.verdict == "rejected":
        attempts = attempts[:-1]
    if not attempts:
        return ""
    listed = ", ".join(f'"{each.rule_name}" [{each.validation_failure}]' for each in attempts)
    return f"; before it {listed}"


def _neighbours(evaluation: Evaluation) -> list[str]:
    """Name the nearest recorded turns behind a pattern, and what it would take to turn it."""
    rows = evaluation.neighbours
    if not rows:
        return []
    near = rows[0]
    lines = [f"nearest {near.fingerprint_id} at {billionths_text(near.similarity)}, of {len(rows)}"]
    if evaluation.flip_margin is not None:
        lines.append(f"turned by +{billionths_text(evaluation.flip_margin)} success")
    return [line[: WIDTH - _REASON_COLUMN] for line in lines]


def _fitted(lines: list[str]) -> list[str]:
    narrow = [_narrowed(line) for line in lines]
    if len(narrow) <= HEIGHT:
        return narrow
    return [
        *narrow[: HEIGHT - 4],
        f"… {len(narrow) - HEIGHT + 1} more lines in --json",
        *narrow[-3:],
    ]


def _narrowed(line: str) -> str:
    """Cut a line at the screen's edge; letters of East Asian scripts are two columns wide."""
    if len(line) <= WIDTH and line.isascii():
        return line
    ends = list(accumulate(2 if east_asian_width(char) in "WF" else 1 for char in line))
    return line if ends[-1] <= WIDTH else line[: bisect_right(ends, WIDTH - 1)] + "…"
