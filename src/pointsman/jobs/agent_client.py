"""Calls an agent the way `agents.yaml` says: a function, an address, or a model with a prompt.

Only targets that `pointsman.yaml` lists may be called, as for workflows. Every call has a timeout.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from pointsman.agents.file.run_section import GivenRun, RunModel
from pointsman.conversations.conversation import Conversation
from pointsman.conversations.conversations import Conversations
from pointsman.conversations.services import Kit
from pointsman.errors import InputError, PointsmanError
from pointsman.jobs.entries import job_ref
from pointsman.jobs.log import CallStatus
from pointsman.kernel.document import DocumentLimits, Json
from pointsman.kernel.json_text import read_json
from pointsman.sessions.tool import PromptPart
from pointsman.sessions.update import TurnOver, UsageUpdate
from pointsman.storage.policies.action_written import Action, HttpCall
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.workflows.actions import MOST_OUTPUT, ActionResult, ActionRunner, check_allowed

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


MILLISECONDS = 1000
_LIMITS = DocumentLimits(bytes=MOST_OUTPUT, depth=40, nodes=50_000)
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


class AgentResult(Struct, frozen=True):
    """How a call of an agent ended, and the answer."""

    status: CallStatus
    value: Json = None
    reason: str = ""


AgentFunction = Callable[[Mapping[str, Json]], object]
"""An agent in this process: takes the work, returns the answer. TimeoutError says it took too
long; any other exception is its failure."""


class ModelTurn(Protocol):
    """Has a model take a turn: routed, placed, paid for and recorded like every other."""

    def __call__(self, run: RunModel, work: Mapping[str, Json], seconds: float) -> AgentResult:
        """Ask, and wait for the answer."""
        ...


def no_models(run: RunModel, work: Mapping[str, Json], seconds: float) -> AgentResult:  # noqa: ARG001 - the port's
    """Stand in where no model can be asked."""
    return AgentResult("unreachable", reason="no model can be asked here")


class AgentClient:
    """Calls the agents of one home. `here` are agents in this process, by their node's id."""

    def __init__(
        self,
        folder: Path,
        settings: Callable[[], WorkflowSettings],
        models: ModelTurn = no_models,
        here: Mapping[str, AgentFunction] | None = None,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._models = models
        self.here: dict[str, AgentFunction] = dict(here or {})

    def call(self, node_id: str, run: GivenRun | None, work: dict[str, Json]) -> AgentResult:
        """Call an agent; a failure is a result, never an exception."""
        if node_id in self.here:
            return _call_in_process(self.here[node_id], work)
        if run is None:
            return AgentResult("unreachable", reason="nothing under `run` says how it is called")
        if run.model is not None:
            return self._models(run.model, work, run.timeout_ms / MILLISECONDS)
        return self.perform(_action(run), work)

    def function(self, name: str, timeout_ms: int, given: dict[str, Json]) -> AgentResult:
        """Call a listed function."""
        return self.perform(_action(GivenRun(python=name, timeout_ms=timeout_ms)), given)

    def perform(self, action: Action, work: dict[str, Json]) -> AgentResult:
        """Perform an action; one that the settings do not allow is unreachable, not a failure."""
        settings = self._settings()
        try:
            check_allowed(action, settings)
        except InputError as error:
            return AgentResult("unreachable", reason=error.message)
        names = {
            "POINTSMAN_JOB": job_ref(str(work.get("job_id", ""))),
            "POINTSMAN_ATTEMPT": str(work.get("attempt", "")),
        }
        acting = ActionRunner(settings, self._folder, names)
        context = {"work": work} if action.http is not None else work
        return _to_result(acting.perform(action, context))


def _action(run: GivenRun) -> Action:
    timeout = f"{run.timeout_ms}ms"
    if run.http is None:
        return Action(python=run.python, parse="json", timeout=timeout)
    # The work is a value of the context: no text in it is ever read as a template.
    call = HttpCall(run.http.url, "POST", "{{ work }}", run.http.headers)
    return Action(http=call, parse="json", timeout=timeout)


def _to_result(done: ActionResult) -> AgentResult:
    if done.is_done:
        return AgentResult("done", done.output)
    return AgentResult("timeout" if done.is_late else "exception", reason=done.message)


def _call_in_process(call: AgentFunction, work: Mapping[str, Json]) -> AgentResult:
    try:
        # Through JSON, as from another process: floats become the decimals they are written as.
        written = _NUMBERS.encode(call(work))
        return AgentResult("done", read_json(written, "the answer", _LIMITS).value)
    except TimeoutError as error:
        return AgentResult("timeout", reason=str(error) or "it took too long")
    except Exception as error:  # noqa: BLE001 - any exception of an agent is its failure
        return AgentResult("exception", reason=f"{type(error).__name__}: {error}")
