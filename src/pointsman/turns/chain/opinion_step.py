"""The steps of a second opinion: whom to ask next, whose answer to take, when to go up.

Pure: a step follows from the policy, the facts of the turn, and the opinions so far. Every model
that is asked stands under the vetoes of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import UNSET, Struct

from pointsman.kernel.number import billionths_text
from pointsman.turns.chain.validation import Rejection
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.facts import TurnFacts
from pointsman.turns.learning.second_opinion import Opinion, SecondOpinion
from pointsman.turns.trace import Evaluation, OpinionStep, RuleAttempt, TurnOutcome, TurnTrace

_LEARNED = ("pattern", "workspace_default", "global_default")
"""The slots whose turns the section `pattern` is for: similar turns spoke, or nothing else did."""


def opinion_plan(
    ready: CompiledTurnPolicy, facts: TurnFacts, winner: Evaluation
) -> SecondOpinion | None:
    """Return whom a policy asks before the model a slot chose; None for most turns.

    Never where the caller or the planner chose, where a turn tries a model to learn about it, or
    where the chosen model is one of those that are asked.
    """
    if not ready.has_second_opinions or facts.is_worker or facts.delegate_tier is not None:
        return None
    scope, plan = ready.scope(facts.workspace_path), None
    if winner.policy == "rule":
        rules = (each.rule for each in scope.rules if each.rule.name == winner.rule_name)
        plan = next((each.second_opinion for each in rules), None)
    elif winner.policy in _LEARNED and scope.pattern.mode == "apply":
        plan = None if winner.is_exploring is True else scope.pattern.second_opinion
    if plan is None or plan is UNSET or winner.candidate_model in plan.ask:
        return None
    return plan


def wants_opinion(
    ready: CompiledTurnPolicy, facts: TurnFacts, decided: tuple[TurnOutcome, TurnTrace]
) -> bool:
    """Tell whether others are asked before the model that was decided on."""
    outcome, trace = decided
    place = outcome.winner_index
    return place >= 0 and opinion_plan(ready, facts, trace.chain[place]) is not None


def next_step(
    plan: SecondOpinion,
    opinions: Sequence[Opinion],
    above: str,
    veto: Callable[[str], Rejection | None],
) -> OpinionStep:
    """Return the next step: an answer is taken as soon as it may be, and nothing asked in vain."""
    vetoes = {name: veto(name) for name in (*plan.ask, *_judges(plan))}
    passed_over = tuple(
        RuleAttempt("", name, found.code, found.reason)
        for name, found in vetoes.items()
        if found is not None
    )

    def step(kind: Literal["ask", "judge", "take", "up"], model: str, reason: str) -> OpinionStep:
        return OpinionStep(kind, model, above, reason, passed_over)

    taken = _pick_answer(plan, opinions)
    if taken is not None:
        return step("take", taken.model, taken.reason)
    judge = _judge_to_ask(plan, opinions, vetoes)
    if judge:
        return step("judge", judge, f"judges the answer of {opinions[-1].model}")
    asked = [each.model for each in opinions]
    left = [name for name in plan.ask if name not in asked and vetoes[name] is None]
    is_judge_out = any(vetoes[name] is not None for name in _judges(plan))
    if left and not is_judge_out and (_usable(plan, opinions) or len(left) >= _quorum(plan)):
        return step("ask", left[0], f"asked before {above}")
    return step("up", above, _why_up(plan, opinions))


class _Taken(Struct, frozen=True):
    model: str
    reason: str


def _quorum(plan: SecondOpinion) -> int:
    """Return how many answers it takes to take one."""
    return 2 if plan.agree == "equal" else 1


def _judges(plan: SecondOpinion) -> tuple[str, ...]:
    return () if plan.judge is UNSET else (plan.judge,)


def _usable(plan: SecondOpinion, opinions: Sequence[Opinion]) -> list[Opinion]:
    """Return the answers that one more may still agree with."""
    if plan.agree != "equal":
        return []
    return [each for each in opinions if each.kind != "failed" and each.is_valid is not False]


def _pick_answer(plan: SecondOpinion, opinions: Sequence[Opinion]) -> _Taken | None:
    """Return the answer that may be taken: of two equal ones the first."""
    if plan.agree == "equal":
        first: dict[str, Opinion] = {}
        for each in _usable(plan, opinions):
            same = first.setdefault(each.answer, each)
            if same is not each:
                what = "equal tool calls" if each.kind == "tools" else "equal answers"
                return _Taken(same.model, f"{what} of {same.model} and {each.model}")
        return None
    for each in opinions:
        if plan.agree == "valid" and each.is_valid is True:
            return _Taken(each.model, f"valid answer of {each.model}")
        least = 0 if plan.min_score is UNSET else plan.min_score
        if plan.agree == "judge" and each.score not in (UNSET, None) and each.score >= least:
            said = billionths_text(each.score)
            return _Taken(each.model, f"{plan.judge} gives the answer of {each.model} {said}")
    return None


def _judge_to_ask(
    plan: SecondOpinion, opinions: Sequence[Opinion], vetoes: dict[str, Rejection | None]
) -> str:
    """Name the judge of the last answer, where it is still to be asked; else nothing."""
    if plan.judge is UNSET or not opinions or vetoes[plan.judge] is not None:
        return ""
    last = opinions[-1]
    is_open = last.kind != "failed" and last.is_valid is not False and last.score is UNSET
    return plan.judge if is_open else ""


def _why_up(plan: SecondOpinion, opinions: Sequence[Opinion]) -> str:
    """Say why the model above takes the turn."""
    if not opinions:
        return "too few of the models may be asked"
    failed = [each.model for each in opinions if each.kind == "failed"]
    if len(failed) == len(opinions):
        return f"no answer of {', '.join(failed)}"
    asked = " and ".join(each.model for each in opinions)
    if plan.agree == "judge":
        said = [each.score for each in opinions if each.score not in (UNSET, None)]
        best = f": {billionths_text(max(said))} at best" if said else ": no verdict"
        return f"{plan.judge} is not satisfied with {asked}{best}"
    if plan.agree == "valid":
        return f"no answer of {asked} is valid by a schema"
    invalid = [each.model for each in opinions if each.is_valid is False]
    if invalid or failed:
        lost = ", ".join((*failed, *invalid))
        return f"too few answers to compare: none, or no valid one, of {lost}"
    return f"the answers of {asked} differ"
