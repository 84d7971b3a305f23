"""Calling an agent the way `agents.yaml` says: a function, an address, or a model with a prompt.

Only what `pointsman.yaml` lists may be called, as for workflows. Everything has an end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from pointsman.agents.file.run_section import GivenRun, RunModel
from pointsman.errors import InputError
from pointsman.jobs.agency_record import job_ref
from pointsman.jobs.log import CallStatus
from pointsman.kernel.document import Json, Limits
from pointsman.kernel.json_text import read_json
from pointsman.storage.policies.action_written import Action, HttpCall
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.workflows.actions import MOST_OUTPUT, Acting, Done, check_allowed

MILLISECONDS = 1000
_LIMITS = Limits(bytes=MOST_OUTPUT, depth=40, nodes=50_000)
_NUMBERS = msgspec.json.Encoder(decimal_format="number")


class Called(Struct, frozen=True):
    """How a call ended, and what was answered."""

    status: CallStatus
    value: Json = None
    reason: str = ""


Call = Callable[[Mapping[str, Json]], object]
"""An agent in this process: takes the work, gives the answer. TimeoutError says it took too long;
whatever else it raises is its failure."""


class ModelTurn(Protocol):
    """Has a model take a turn: routed, placed, paid for and recorded like every other."""

    def __call__(self, run: RunModel, work: Mapping[str, Json], seconds: float) -> Called:
        """Ask, and wait for the answer."""
        ...


def no_models(run: RunModel, work: Mapping[str, Json], seconds: float) -> Called:  # noqa: ARG001 - the port's
    """Stand in where no model can be asked."""
    return Called("unreachable", reason="no model can be asked here")


class AgentCalling:
    """Calls the agents of one home. `here` are agents in this process, by their node's id."""

    def __init__(
        self,
        folder: Path,
        settings: Callable[[], WorkflowSettings],
        models: ModelTurn = no_models,
        here: Mapping[str, Call] | None = None,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._models = models
        self.here: dict[str, Call] = dict(here or {})

    def call(self, node_id: str, run: GivenRun | None, work: dict[str, Json]) -> Called:
        """Call an agent, whatever becomes of it."""
        if node_id in self.here:
            return _called_here(self.here[node_id], work)
        if run is None:
            return Called("unreachable", reason="nothing under `run` says how it is called")
        if run.model is not None:
            return self._models(run.model, work, run.timeout_ms / MILLISECONDS)
        return self.perform(_action(run), work)

    def function(self, name: str, timeout_ms: int, given: dict[str, Json]) -> Called:
        """Call a listed function."""
        return self.perform(_action(GivenRun(python=name, timeout_ms=timeout_ms)), given)

    def perform(self, action: Action, work: dict[str, Json]) -> Called:
        """Do what an action says; what may not be done is out of reach, not a failure."""
        settings = self._settings()
        try:
            check_allowed(action, settings)
        except InputError as error:
            return Called("unreachable", reason=error.message)
        names = {
            "POINTSMAN_JOB": job_ref(str(work.get("job_id", ""))),
            "POINTSMAN_ATTEMPT": str(work.get("attempt", "")),
        }
        acting = Acting(settings, self._folder, names)
        context = {"work": work} if action.http is not None else work
        return _called(acting.perform(action, context))


def _action(run: GivenRun) -> Action:
    timeout = f"{run.timeout_ms}ms"
    if run.http is None:
        return Action(python=run.python, parse="json", timeout=timeout)
    # The work is a value of the context: no text in it is ever read as a template.
    call = HttpCall(run.http.url, "POST", "{{ work }}", run.http.headers)
    return Action(http=call, parse="json", timeout=timeout)


def _called(done: Done) -> Called:
    if done.is_done:
        return Called("done", done.output)
    return Called("timeout" if done.is_late else "exception", reason=done.message)


def _called_here(call: Call, work: Mapping[str, Json]) -> Called:
    try:
        # Through JSON, as from another process: floats become the decimals they are written as.
        written = _NUMBERS.encode(call(work))
        return Called("done", read_json(written, "the answer", _LIMITS).value)
    except TimeoutError as error:
        return Called("timeout", reason=str(error) or "it took too long")
    except Exception as error:  # noqa: BLE001 - whatever an agent dies of is its failure
        return Called("exception", reason=f"{type(error).__name__}: {error}")
