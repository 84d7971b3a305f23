"""A turn's decision as it is shown: the why-screen of document 002 §7.4, and the contracts' JSON.

A plain turn fits 24 lines of 80 columns. A text that tells a cause is never cut: it goes on in the
next line, indented.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Struct

from pointsman.kernel.columns import WIDTH, fold_line
from pointsman.kernel.document import printable
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import Billionths, billionths_text, microusd_text
from pointsman.placement.rules.zones import zone_text
from pointsman.placement.trace import MASK_NOTE, Placed
from pointsman.turns.learning.pattern_row import ModelOption, Neighbour
from pointsman.turns.story.turn_story import (
    LaterDecision,
    PlacementRefusal,
    TurnCall,
    TurnStory,
    UnaskedCandidates,
)
from pointsman.turns.trace import (
    Evaluation,
    OpinionStep,
    RuleAttempt,
    Shown,
    Slot,
    TurnOutcome,
    TurnTrace,
)

NARROWEST: Final = 24
"""A narrower terminal gets lines of this width: below it, even short words would be broken."""

_REASON_COLUMN: Final = 45
_SIDE_BY_SIDE: Final = 66
"""From this width on a reason stands beside its slot, else below it."""

_MOST_ID: Final = 14
"""So much of a neighbour's id is shown: it tells no cause, and the JSON has all of it."""

_NAMES: Final[dict[Slot, str]] = {
    "per_message_override": "PER_MESSAGE_OVERRIDE",
    "manual_sticky": "MANUAL_STICKY",
    "rule": "CONFIGURED_RULES",
    "pattern": "PATTERN_RECOMMENDATION",
    "delegate_request": "DELEGATE_REQUEST",
    "workspace_default": "WORKSPACE_DEFAULT",
    "global_default": "GLOBAL_DEFAULT",
}


def to_screen(turn: Shown | TurnStory, width: int = WIDTH) -> str:
    """Render a turn, or a decision alone."""
    story = TurnStory(turn) if isinstance(turn, Shown) else turn
    first, width = story.first, max(width, NARROWEST)
    lines = [
        _title(first),
        _choice_line(first.outcome, first.trace),
        *([] if isinstance(turn, Shown) else _served_line(story)),
        *_placement_line(first.placed),
        "",
        "Chain:",
        *(line for n, each in enumerate(first.trace.chain) for line in _slot_lines(n, each, width)),
        *(f"  not asked: {line}" for line in _unasked_lines(story.unasked)),
        *(line for banner in first.outcome.banners for line in ("", banner.text)),
        *_call_lines(story),
        "",
        f"decision {first.decision_id} · version {first.decision_version}",
        f"policy   {first.policy_id}",
        f"facts    {first.facts_id}",
    ]
    return "\n".join(part for line in lines for part in fold_line(printable(line), width))


def _title(shown: Shown) -> str:
    session = f" · session {shown.session_id}" if shown.session_id else ""
    note = " · preview" if shown.is_preview else ""
    return f"Turn {shown.turn_id}{session} · {instant_text(shown.at)}{note}"


def _choice_line(outcome: TurnOutcome, trace: TurnTrace) -> str:
    if not outcome.chosen_model:
        return "Chose: no model"
    return f"Chose: {outcome.chosen_model}   ({_slot_words(outcome, trace)})"


def _slot_words(outcome: TurnOutcome, trace: TurnTrace) -> str:
    return trace.chain[outcome.winner_index].policy.replace("_", " ")


def _served_line(story: TurnStory) -> Iterator[str]:
    """Tell who served, at what cost, and how it went where that was not well."""
    state, calls = story.state, story.calls
    if state == "preview" or not story.first.outcome.chosen_model:
        return
    if state == "open":
        yield "Served: the end of no call is on record"
        return
    notes: list[str] = [] if state == "done" else [state]
    if state == "refused" and story.is_refused:
        notes = [f"refused: {story.refusals[-1].rule_id}"]
    elif state in {"failed", "refused"}:
        notes = [f"{state}: {calls[-1].cause}"]
    if any(call.outcome == "done" for call in calls) or story.cost_microusd:
        notes.append(f"${microusd_text(story.cost_microusd)}")
    yield f"Served: {story.served_model or 'no model'}   ({', '.join(notes)})"


def _placement_line(placed: Placed | None) -> list[str]:
    """Tell about a placement that left something out, or that would have and was advice alone."""
    if placed is None:
        return []
    if placed.gate == "open":
        is_advice = placed.rule_id == "AUTO_LOCAL" and placed.local_model is not UNSET
        _, _, masked = placed.reason.partition(MASK_NOTE)
        return [
            *["Placed: anywhere   (AUTO_LOCAL is advice here: auto: advisory)"] * is_advice,
            *[f"Masked: {masked}, where it leaves"] * bool(masked),
        ]
    left = "stays on this machine" if placed.gate == "local" else "goes nowhere"
    if placed.zones is not UNSET:
        left = f"stays within {zone_text(placed.zones)}"
    return [f"Placed: {left}   ({placed.rule_id}: {placed.reason})"]


def _slot_lines(index: int, evaluation: Evaluation, width: int) -> Iterator[str]:
    head = f"  [{index + 1}] {_NAMES[evaluation.policy]:<22} {evaluation.verdict:<15}"
    texts = [printable(text) for text in (*_slot_texts(evaluation), *_neighbour_texts(evaluation))]
    if width < _SIDE_BY_SIDE:
        yield head.rstrip()
        yield from (f"      {text}" for text in texts)
        return
    said = [line for text in texts for line in fold_line(text, width - _REASON_COLUMN, 2)]
    yield f"{head} {said[0]}".rstrip()
    yield from (" " * _REASON_COLUMN + line for line in said[1:])


def _slot_texts(evaluation: Evaluation) -> list[str]:
    """Tell what a slot said, and every candidate of it that lost."""
    lost = [_loser_text(each) for each in _losers(evaluation)]
    over = evaluation.passed_over
    passed = (
        []
        if over is UNSET
        else [f'passed over: rule "{each.rule_name}", {each.reason}' for each in over]
    )
    candidate, reason = evaluation.candidate_model, evaluation.reason
    if evaluation.validation_failure is not None and lost:
        return [*lost, *passed]
    if candidate is None or candidate in reason:
        said = reason
    elif reason == evaluation.policy.replace("_", " "):
        said = candidate
    else:
        said = f"{candidate} ({reason})"
    unknown = evaluation.unknown_capabilities
    unsure = [] if unknown is UNSET else [f"not known: {', '.join(unknown)}"]
    return [said, *unsure, *(f"lost: {each}" for each in lost), *passed]


def _losers(evaluation: Evaluation) -> list[RuleAttempt]:
    """Return a slot's candidates that a veto rejected, the last one once."""
    lost, model = [*evaluation.rule_attempts], evaluation.candidate_model
    code = evaluation.validation_failure
    is_told = any((each.candidate_model, each.validation_failure) == (model, code) for each in lost)
    if code is not None and model is not None and not is_told:
        lost.append(RuleAttempt(evaluation.rule_name or "", model, code, evaluation.reason))
    return lost


def _loser_text(attempt: RuleAttempt) -> str:
    name = f'rule "{attempt.rule_name}" -> ' if attempt.rule_name else ""
    return f"{name}{attempt.candidate_model} [{attempt.validation_failure}] {attempt.reason}"


def _neighbour_texts(evaluation: Evaluation) -> Iterator[str]:
    """Name the nearest recorded turns behind a pattern, and the margin that would flip it."""
    rows = evaluation.neighbours
    if not rows:
        return
    near = rows[0]
    name = near.fingerprint_id
    if len(name) > _MOST_ID:
        name = f"{name[:_MOST_ID]}…"
    yield f"nearest {name} at {billionths_text(near.similarity)}, of {len(rows)}"
    if evaluation.flip_margin is not None:
        yield f"turned by +{billionths_text(evaluation.flip_margin)} success"


def _unasked_lines(unasked: UnaskedCandidates) -> Iterator[str]:
    for each in unasked.candidates:
        name = f' "{each.rule_name}"' if each.rule_name else ""
        yield f"{each.policy.replace('_', ' ')}{name} -> {each.model}"
    if unasked.unknown:
        yield f"cannot be told for all: {unasked.unknown}"


def _call_lines(story: TurnStory) -> Iterator[str]:
    """Tell every call in order, under the decision it acted on."""
    if story.calls or story.later or story.refusals:
        yield from ("", "Calls:")
    yield from map(_call_line, story.calls_of(story.first.decision_id))
    for later in story.later:
        if later.trace.opinion is not UNSET:
            yield from _opinion_lines(later.trace.opinion)
            yield from map(_call_line, story.calls_of(later.decision_id))
            continue
        yield f"  {later.kind}: {_cause(story, later)}; {_choice_words(later)}"
        yield from (
            f"      lost: {_loser_text(each)}"
            for evaluation in later.trace.chain
            for each in _losers(evaluation)
            if each.candidate_model not in later.excluded_models
        )
        yield from map(_call_line, story.calls_of(later.decision_id))
    yield from map(_refusal_line, story.refusals)
    if story.beside:
        yield from ("", "Beside the turn:", *map(_call_line, story.beside))


def _opinion_lines(step: OpinionStep) -> Iterator[str]:
    """Tell a step of a second opinion: whom it asked, or whose answer was let out and why."""
    said = {
        "ask": f"asks {step.model}, {step.reason}",
        "judge": f"{step.model} {step.reason}",
        "take": f"takes the answer of {step.model}: {step.reason}",
        "up": f"goes up to {step.model}: {step.reason}",
    }[step.step]
    yield f"  opinion: {said}"
    yield from (f"      passed over: {_loser_text(each)}" for each in step.passed_over)


def _cause(story: TurnStory, later: LaterDecision) -> str:
    if later.kind == "override":
        return "the user took what similar turns speak for"
    model, failed = "".join(later.excluded_models[-1:]), story.failed_call(later)
    return f"{model} failed" if failed is None else f"{model} {failed.outcome} ({failed.cause})"


def _choice_words(later: LaterDecision) -> str:
    outcome = later.outcome
    if not outcome.chosen_model:
        return "no model"
    rule = later.trace.chain[outcome.winner_index].rule_name
    name = f' "{rule}"' if rule else ""
    return f"chose {outcome.chosen_model} ({_slot_words(outcome, later.trace)}{name})"


def _call_line(call: TurnCall) -> str:
    name = {"turn": f"call {call.number}", "shadow": "shadow run", "judge": "judge"}[call.role]
    ended = f"{call.outcome} ({call.cause})" if call.cause else call.outcome
    attempts = [f"{call.attempts} attempts"] if call.attempts > 1 else []
    parts = [ended, *attempts, *_usage_parts(call)]
    if call.first_byte_us:
        parts.append(f"first byte {_milliseconds(call.first_byte_us)}")
    if call.elapsed_us:
        parts.append(f"total {_milliseconds(call.elapsed_us)}")
    return f"  {name}: {call.model or 'a model'} {' · '.join(parts)}"


def _usage_parts(call: TurnCall) -> Iterator[str]:
    cached = call.cached_input_tokens
    read = call.input_tokens + cached + call.cache_creation_input_tokens
    if read or call.output_tokens:
        yield f"{read} in{f' ({cached} cached)' if cached else ''}, {call.output_tokens} out"
    if call.cost_microusd is None:
        yield "price unknown"
    elif call.outcome == "done" or call.cost_microusd:
        about = "about " if call.is_estimated else ""
        yield f"{about}${microusd_text(call.cost_microusd)}"


def _milliseconds(microseconds: int) -> str:
    # Without a space: a number is never parted from its unit at the end of a line.
    tenths = microseconds // 100
    return f"{tenths // 10}.{tenths % 10}ms" if tenths < 100 else f"{tenths // 10}ms"


def _refusal_line(refusal: PlacementRefusal) -> str:
    return f"  refused: no call may go on to {refusal.model} ({refusal.rule_id}: {refusal.reason})"


def to_json(shown: Shown) -> dict[str, object]:
    """Return the `route.decided` payload of the contracts."""
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
        "chain": [evaluation_value(each) for each in shown.trace.chain],
    }


def evaluation_value(evaluation: Evaluation) -> dict[str, object]:
    """Return what one slot of the chain said, as JSON shows it."""
    alternatives, neighbours = evaluation.pattern_alternatives, evaluation.neighbours
    return {
        **_set_fields(evaluation),
        "confidence": _number(evaluation.confidence),
        "flip_margin": _number(evaluation.flip_margin),
        "neighbours": neighbours and [_neighbour_value(each) for each in neighbours],
        "pattern_alternatives": alternatives and [_option_value(each) for each in alternatives],
    }


def _option_value(option: ModelOption) -> dict[str, object]:
    value = {**_set_fields(option), "score": _number(option.score)}
    for name in ("success", "standard_error", "expected_success"):
        if name in value:
            value[name] = _number(getattr(option, name))
    if not isinstance(option.effective_rows, msgspec.UnsetType):
        value["effective_rows"] = option.effective_rows / 1000
    return value


def _set_fields(value: Struct) -> dict[str, object]:
    """Return the fields of a value that are set."""
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


def story_to_json(story: TurnStory) -> dict[str, object]:
    """Return a turn as JSON: the `route.decided` payload, and what became of it."""
    first = story.first
    return {
        **to_json(first),
        "session_id": first.session_id,
        "at": instant_text(first.at),
        "is_preview": first.is_preview,
        "state": story.state,
        "served_model": story.served_model,
        "cost_usd": microusd_text(story.cost_microusd),
        "calls": [_call_value(each) for each in story.calls],
        "fallbacks": [_later_value(story, each) for each in story.later if each.kind != "opinion"],
        "opinions": [_opinion_value(each) for each in story.later if each.kind == "opinion"],
        "beside": [_call_value(each) for each in story.beside],
        "refusals": [_refusal_value(each) for each in story.refusals],
        "not_asked": story.unasked.candidates,
        "not_asked_unknown": story.unasked.unknown,
    }


def _call_value(call: TurnCall) -> dict[str, object]:
    cost = call.cost_microusd
    return {
        "decision_id": call.decision_id,
        "at": instant_text(call.at),
        "role": call.role,
        "model": call.model,
        "number": call.number,
        "outcome": call.outcome,
        "error_class": call.error_class,
        "status": call.status,
        "attempts": call.attempts,
        "stop_reason": call.stop_reason,
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "cached_input_tokens": call.cached_input_tokens,
        "cache_creation_input_tokens": call.cache_creation_input_tokens,
        "cost_usd": None if cost is None else microusd_text(cost),
        "is_estimated": call.is_estimated,
        "first_byte_ms": call.first_byte_us / 1000,
        "elapsed_ms": call.elapsed_us / 1000,
    }


def _later_value(story: TurnStory, later: LaterDecision) -> dict[str, object]:
    failed = story.failed_call(later)
    winner = later.outcome.winner_index
    won = later.trace.chain[winner] if winner >= 0 else None
    return {
        "kind": later.kind,
        "decision_id": later.decision_id,
        "at": instant_text(later.at),
        "failed_model": later.excluded_models[-1] if later.excluded_models else "",
        "error_class": "" if failed is None else failed.error_class,
        "status": 0 if failed is None else failed.status,
        "chosen_model": later.outcome.chosen_model,
        "policy": "" if won is None else won.policy,
        "rule_name": None if won is None else won.rule_name,
        "chain": [evaluation_value(each) for each in later.trace.chain],
    }


def _opinion_value(later: LaterDecision) -> dict[str, object]:
    """Return a step of a second opinion as JSON."""
    step = later.trace.opinion
    told = {} if step is UNSET else msgspec.structs.asdict(step)
    return {"decision_id": later.decision_id, "at": instant_text(later.at), **told}


def _refusal_value(refusal: PlacementRefusal) -> dict[str, object]:
    return {
        "decision_id": refusal.decision_id,
        "at": instant_text(refusal.at),
        "model": refusal.model,
        "rule_id": refusal.rule_id,
        "reason": refusal.reason,
    }
