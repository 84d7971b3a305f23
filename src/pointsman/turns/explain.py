"""The why-screen: one turn decision as text, at most 24 lines of 80 columns. Document 002 §7.4."""

from __future__ import annotations

from textwrap import wrap

from msgspec import Struct

from pointsman.kernel.document import printable
from pointsman.kernel.instant import Instant, instant_text
from pointsman.turns.decide import Evaluation, Slot, Trace, TurnOutcome

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


class Shown(Struct, frozen=True):
    """A turn's decision with the names it goes by."""

    turn_id: str
    decision_id: str
    at: Instant
    policy_id: str
    facts_id: str
    decision_version: int
    is_preview: bool
    elapsed_us: int
    outcome: TurnOutcome
    trace: Trace


def why_screen(shown: Shown) -> str:
    """Render a decision."""
    outcome = shown.outcome
    chose = "Chose: no model"
    if outcome.chosen_model:
        winner = shown.trace.chain[outcome.winner_index].policy.replace("_", " ")
        chose = f"Chose: {outcome.chosen_model}   ({winner})"
    note = " · preview" if shown.is_preview else ""
    lines = [
        f"Turn {shown.turn_id} · {instant_text(shown.at)}{note}",
        chose,
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


def _slot(index: int, evaluation: Evaluation) -> list[str]:
    head = f"  [{index + 1}] {_NAMES[evaluation.policy]:<22} {evaluation.verdict:<15}"
    first, *more = wrap(_said(evaluation), WIDTH - _REASON_COLUMN) or [""]
    return [f"{head} {first}".rstrip(), *(" " * _REASON_COLUMN + line for line in more[:2])]


def _said(evaluation: Evaluation) -> str:
    if evaluation.verdict == "chose" and evaluation.rule_name is None:
        return evaluation.candidate_model or ""
    if evaluation.candidate_model is None or evaluation.candidate_model in evaluation.reason:
        said = evaluation.reason
    else:
        said = f"{evaluation.candidate_model} ({evaluation.reason})"
    failure = evaluation.validation_failure
    return f"{said} [{failure}]" if failure else said


def _fitted(lines: list[str]) -> list[str]:
    narrow = [line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines]
    if len(narrow) <= HEIGHT:
        return narrow
    return [
        *narrow[: HEIGHT - 4],
        f"… {len(narrow) - HEIGHT + 1} more lines in --json",
        *narrow[-3:],
    ]
