"""Agents that are models: each call is a turn of its own session, routed and placed like any other.

The loop that serves them lives in a thread of its own, so that the caller of a job may block.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from typing import TypeVar

from msgspec import Struct

from pointsman.agents.file.run_section import RunModel
from pointsman.conversations.conversation import Conversation
from pointsman.conversations.conversations import Conversations
from pointsman.conversations.services import Kit
from pointsman.errors import PointsmanError
from pointsman.jobs.agent_client import AgentResult
from pointsman.kernel.document import Json
from pointsman.sessions.tool import PromptPart
from pointsman.sessions.update import TurnOver, UsageUpdate

T = TypeVar("T")

AUTO = "auto"


class _System(Struct, frozen=True):
    """An agent's own prompt, in the place of a session's memory."""

    text: str

    def prompt(self) -> PromptPart:
        """Return it as the prompt of the model."""
        return PromptPart(self.text)


class ModelAgents:
    """Runs model turns for jobs. Closed with the home it belongs to."""

    def __init__(self, conversations: Callable[[], Conversations]) -> None:
        self._conversations = conversations
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def __call__(self, run: RunModel, work: Mapping[str, Json], seconds: float) -> AgentResult:
        """Have a model take the turn, and wait for its end."""
        try:
            return self._run_on_loop(self._turn(run, work, seconds))
        except TimeoutError:
            return AgentResult("timeout", reason=f"the turn took longer than {seconds:g} seconds")
        except PointsmanError as error:
            return AgentResult("exception", reason=str(error))

    def close(self) -> None:
        """Close the providers and stop the thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._conversations().close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    async def _turn(self, run: RunModel, work: Mapping[str, Json], seconds: float) -> AgentResult:
        async with asyncio.timeout(seconds):
            kit = Kit(memory=_System(run.system))
            conversation = await self._conversations().start(kit=kit)
            if run.model != AUTO:
                await conversation.swap_model(run.model)
            return await _ask(conversation, work)

    def _run_on_loop(self, work: Coroutine[None, None, T]) -> T:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                name = "pointsman-model-agents"
                self._thread = threading.Thread(target=self._loop.run_forever, name=name)
                self._thread.daemon = True
                self._thread.start()
            loop = self._loop
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, loop)
        return future.result()


async def _ask(conversation: Conversation, work: Mapping[str, Json]) -> AgentResult:
    over: TurnOver | None = None
    tokens, budget = 0, work.get("token_budget")
    most = budget if isinstance(budget, int) and budget > 0 else None
    async for update in conversation.send(str(work.get("query", "")), most_output_tokens=most):
        if isinstance(update, UsageUpdate):
            tokens += (update.usage.input_tokens or 0) + (update.usage.output_tokens or 0)
        elif isinstance(update, TurnOver):
            over = update
    await conversation.close()
    if over is None or over.status != "completed":
        reason = "the turn ended without an answer" if over is None else over.error or over.status
        return AgentResult("exception", reason=reason)
    return AgentResult("done", {"text": over.text, "tokens_used": tokens})
