"""One short call of each model: what works, how long it takes, what to mend."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pointsman.audit.turn_story import read_story
from pointsman.conversations.conversations import Conversation, Conversations
from pointsman.conversations.services import KeyLimits
from pointsman.errors import PointsmanError
from pointsman.operations.doctor import DoctorFinding
from pointsman.sessions.update import TurnOver

MESSAGE: Final = "Answer with the one word ok."
MOST_TOKENS: Final = 16
"""The fewest that every vendor takes; a model that obeys needs one."""

_HINTS: Final = {
    "auth": "mend the key: the provider refused it",
    "invalid_request": "look at the model's name and at `speaks:` of its provider",
    "network": "look at `base_url` and the network",
    "rate_limit": "wait, or raise the limit at the provider",
    "timeout": "look at `base_url`, the network and `timeout_s`",
}


class ModelTrial(Struct, frozen=True):
    """How one call went; `elapsed_ms` is as its caller waits for it."""

    model: str
    state: str
    elapsed_ms: int
    cost_usd: str
    cause: str
    error_class: str = ""


def answering_models(configured: Iterable[str]) -> list[str]:
    """Return the models that answer messages: all but those that only embed."""
    return [name for name in configured if "embed" not in name.partition(":")[2]]


async def call_each(conversations: Conversations, names: Sequence[str]) -> list[ModelTrial]:
    """Call each model once, alone; every call is decided, charged and recorded as any turn is."""
    try:
        return [await _call(conversations, name) for name in names]
    finally:
        await conversations.close()


async def _call(conversations: Conversations, name: str) -> ModelTrial:
    # No other model may take over: the trial is of this one.
    limits = KeyLimits(allowed_models=(name,))
    alone = Conversations(replace(conversations.services, key_limits=limits), None)
    started = time.monotonic()
    try:
        conversation = await alone.start()
        await conversation.swap_model(name)
        over = await _answer(conversation)
        await conversation.end()
    except PointsmanError as error:
        return ModelTrial(name, "failed", _since(started), "0", str(error))
    calls = read_story(conversations.services.opened.home, over.turn_id).calls
    if any(call.outcome == "done" and call.model == name for call in calls):
        return ModelTrial(name, "works", _since(started), over.cost_usd, "")
    failed = calls[-1].error_class if calls else ""
    cause = over.error or failed or "no call was made"
    return ModelTrial(name, "failed", _since(started), over.cost_usd, cause, failed)


async def _answer(conversation: Conversation) -> TurnOver:
    over: TurnOver | None = None
    async for update in conversation.send(MESSAGE, most_output_tokens=MOST_TOKENS):
        over = update if isinstance(update, TurnOver) else over
    assert over is not None  # noqa: S101 - it is always the last update
    return over


def _since(started: float) -> int:
    return int((time.monotonic() - started) * 1000)


def trial_findings(trials: Sequence[ModelTrial]) -> list[DoctorFinding]:
    """Return the trials as findings."""
    return [_finding(each) for each in trials]


def _finding(trial: ModelTrial) -> DoctorFinding:
    if trial.state == "works":
        detail = f"{trial.model} answers in {trial.elapsed_ms} ms, ${trial.cost_usd}"
        return DoctorFinding("ok", "call", detail)
    hint = _HINTS.get(trial.error_class, "")
    return DoctorFinding("fault", "call", f"{trial.model}: {trial.cause}", hint)
