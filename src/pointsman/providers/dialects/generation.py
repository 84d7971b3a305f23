"""What a model's name tells about the parameters it takes.

Vendors refuse parameters by model, not by format, with a 400: a hint is then better left out and
listed. A name that is not known here is taken for a server that takes what its format has.
"""

from __future__ import annotations

import re

from pointsman.providers.dialects.loss import Loss, Losses
from pointsman.providers.messages import ModelRequest

_CLAUDE = re.compile(r"claude")
# Up to 4.5 thinking takes a budget; 4.6 takes both; later ones decide by themselves.
_CLAUDE_WITH_BUDGET = re.compile(
    r"claude-(?:[23]|instant|(?:opus|sonnet|haiku)-4(?:-[015]\b|-\d{6,}|@|$))"
)
# Since 4.7 `temperature`, `top_p` and `top_k` are refused.
_CLAUDE_WITH_SAMPLING = re.compile(
    r"claude-(?:[23]|instant|(?:opus|sonnet|haiku)-4(?:-[0156]\b|-\d{6,}|@|$))"
)
# Claude 3.7 was the first to answer in a task.
_CLAUDE_SHORT = re.compile(r"claude-(?:2|instant|3-(?!7))")
_OPENAI = re.compile(r"(?:ft:)?(?:gpt-|o\d|chatgpt-)(?!oss)")
_OPENAI_REASONING = re.compile(r"(?:ft:)?(?:o\d|gpt-[5-9])(?!.*-chat)")
_REASONING_ELSEWHERE = re.compile(r"(?:.*/)?(?:gpt-oss|o\d|gpt-[5-9])")

_CAN_SKIP = re.compile(r"gpt-(?:5\.\d|[6-9])")


def is_claude(model: str) -> bool:
    """Say whether a model is one of Anthropic's own."""
    return _CLAUDE.search(model) is not None


def takes_thinking_budget(model: str) -> bool:
    """Say whether thinking is asked for by a number of tokens, not by an effort."""
    return not is_claude(model) or _CLAUDE_WITH_BUDGET.search(model) is not None


def takes_system_in_place(model: str) -> bool:
    """Say whether a system message may stand between the others in `messages`."""
    return not takes_thinking_budget(model)


def takes_claude_sampling(model: str) -> bool:
    """Say whether a model behind `messages` takes temperature, top_p and top_k."""
    return not is_claude(model) or _CLAUDE_WITH_SAMPLING.search(model) is not None


def default_max_tokens(model: str) -> int:
    """Return the `max_tokens` for callers who named none: `messages` cannot do without."""
    return 32_000 if is_claude(model) and not _CLAUDE_SHORT.search(model) else 4_096


def is_openai(model: str) -> bool:
    """Say whether a model is one of OpenAI's own, which want `max_completion_tokens`."""
    return _OPENAI.match(model) is not None


def takes_openai_sampling(model: str) -> bool:
    """Say whether a model behind an OpenAI format takes temperature and top_p."""
    return _OPENAI_REASONING.match(model) is None


def takes_reasoning_effort(model: str) -> bool:
    """Say whether a model behind an OpenAI format takes a reasoning effort."""
    return _REASONING_ELSEWHERE.match(model) is not None and "-chat" not in model


def can_skip_reasoning(model: str) -> bool:
    """Say whether a model that reasons can be told not to."""
    return _CAN_SKIP.search(model) is not None


BUDGETS = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
"""Effort → thinking budget, for models that take a budget."""
MIN_BUDGET = 1_024


def budget_of(effort: str) -> int:
    """Return the thinking budget of an effort; one of an unknown name counts as medium."""
    return BUDGETS.get(effort, BUDGETS["medium"])


def effort_of(budget: int) -> str:
    """Return the effort of a thinking budget."""
    if budget < BUDGETS["medium"]:
        return "low"
    return "medium" if budget < BUDGETS["high"] else "high"


_GEMINI_BUDGET = re.compile(r"gemini-2\.5")
_GEMINI_UNTHINKING = re.compile(r"gemini-(?:1|2\.0)|gemma")
MOST_GEMINI_BUDGET = 24_576
"""What every model that takes a budget takes."""


def gemini_thinks(model: str) -> bool:
    """Say whether a model behind `gemini` takes a thinking configuration."""
    return _GEMINI_UNTHINKING.search(model) is None


def takes_gemini_budget(model: str) -> bool:
    """Say whether a model behind `gemini` is told a budget, not a level."""
    return _GEMINI_BUDGET.search(model) is not None


def gemini_level(effort: str) -> str:
    """Return Gemini's level of an effort; only low and high are levels of every model."""
    return "low" if effort in ("minimal", "low") else "high"


def write_sampling(
    request: ModelRequest, model: str, body: dict[str, object], losses: Losses
) -> None:
    """Write temperature and top_p for a model that takes them."""
    is_taken = takes_openai_sampling(model)
    for key, value, loss in (
        ("temperature", request.temperature, Loss.TEMPERATURE),
        ("top_p", request.top_p, Loss.TOP_P),
    ):
        if value is not None and is_taken:
            body[key] = value
        elif value is not None:
            losses.add(loss)


def write_effort(request: ModelRequest, model: str, losses: Losses) -> str | None:
    """Return the reasoning effort to write; a budget becomes the effort nearest to it."""
    effort = request.thinking_effort
    if effort is None and request.thinking_tokens is not None:
        effort = effort_of(request.thinking_tokens)
    if effort is None:
        return None
    if not takes_reasoning_effort(model):
        if effort != "none":
            losses.add(Loss.THINKING_EFFORT)
        return None
    if effort == "none" and not can_skip_reasoning(model):
        losses.add(Loss.THINKING_OFF)
        return None
    return effort
