"""A worker that a planner sent out: who does it, what it cost, which tools it used."""

from __future__ import annotations

from typing import Final, Literal

from textual.content import Content
from textual.widgets import Static

from pointsman.sessions.update import ToolState, WorkerState
from pointsman.tui.fold import Fold
from pointsman.tui.plain import plain, usd_text
from pointsman.tui.tool_block import MARKS

_MARKS: Final = {"started": "…", "completed": "✓", "failed": "✗"}


class WorkerBlock(Fold):
    """A worker's work, nested in its planner's turn; hidden until workers are asked for."""

    def __init__(self, tool_use_id: str) -> None:
        self._lines = Static("", classes="worker-lines", markup=False)
        super().__init__(self._lines, classes="worker")
        self.tool_use_id = tool_use_id
        self.worker_session_id = ""
        self.state: Literal["started", "completed", "failed"] = "started"
        self._model = ""
        self._steps: dict[str, str] = {}

    def stand(self, update: WorkerState) -> None:
        """Show how the worker stands."""
        self.state = update.state
        self._model = update.model or self._model
        self.worker_session_id = update.worker_session_id or self.worker_session_id
        cost = "" if update.state == "started" else usd_text(update.cost_usd)
        detail = update.detail.partition("\n")[0][:60]
        head = f"{_MARKS[update.state]} worker → {self._model or 'no model'}"
        self.tell("  ".join(part for part in (head, cost, detail) if part))
        for name in _MARKS:
            self.set_class(name == self.state, f"-{name}")

    def step(self, update: ToolState) -> None:
        """Show a tool that the worker uses."""
        took = f"{update.latency_ms} ms" if update.state == "done" else update.detail
        self._steps[update.tool_use_id] = f"{MARKS[update.state]} {update.name}  {took}".rstrip()
        self._lines.update(Content(plain("\n".join(self._steps.values()))))
