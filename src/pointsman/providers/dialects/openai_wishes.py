"""What both of OpenAI's formats do with sampling and reasoning."""

from __future__ import annotations

from pointsman.providers.dialects import generation
from pointsman.providers.dialects.loss import Loss, Losses
from pointsman.providers.messages import Request


def write_sampling(request: Request, model: str, body: dict[str, object], losses: Losses) -> None:
    """Write temperature and top_p for a model that takes them."""
    is_taken = generation.takes_openai_sampling(model)
    for key, value, loss in (
        ("temperature", request.temperature, Loss.TEMPERATURE),
        ("top_p", request.top_p, Loss.TOP_P),
    ):
        if value is not None and is_taken:
            body[key] = value
        elif value is not None:
            losses.add(loss)


def write_effort(request: Request, model: str, losses: Losses) -> str | None:
    """Give the reasoning effort to write; a budget becomes the effort nearest to it."""
    effort = request.thinking_effort
    if effort is None and request.thinking_tokens is not None:
        effort = generation.effort_of(request.thinking_tokens)
    if effort is None:
        return None
    if not generation.takes_reasoning_effort(model):
        if effort != "none":
            losses.add(Loss.THINKING_EFFORT)
        return None
    if effort == "none" and not generation.can_skip_reasoning(model):
        losses.add(Loss.THINKING_OFF)
        return None
    return effort
