"""Hiring a worker: from a planner's delegation to a session that can run. Document 002 §6.2."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from pointsman.conversations.driver import Seat
from pointsman.conversations.staging import Said, Stage, Standing
from pointsman.kernel.canonical import content_id
from pointsman.providers.messages import OutputFormat
from pointsman.sessions.delegate_call import CONTEXT_TOOL, Delegation, offered_to_worker
from pointsman.sessions.events.session import SessionCreated
from pointsman.sessions.prompts import worker_prompt
from pointsman.sessions.worker import Hire
from pointsman.signals.tokens import count_tokens


def hired(stage: Stage, seat: Seat, standing: Standing, work: Delegation, policy_id: str) -> Hire:
    """Give the worker of a delegation; `standing` is its planner's, of which it gets no history."""
    given = work.given
    offered, dropped = offered_to_worker(work.tools, given.allowed_tools)
    tools = (*offered, CONTEXT_TOOL)
    names = [each.name for each in tools]

    def system(model: str) -> str:
        schema, context = given.output_schema, work.handed.summary
        return worker_prompt(model, given.task, context, names, schema, *standing.prompts)

    output = None
    if given.output_schema is not None:
        schema = Raw(msgspec.json.encode(given.output_schema))
        output = OutputFormat("json_schema", "result", schema)
    said = Said(
        text=given.task,
        more=work.handed.blocks,
        tier=given.tier,
        output=output,
        parent_tool_use_id=work.use.id,
        most_output_tokens=given.max_tokens,
    )
    alone = Standing(privacy=standing.privacy, prompts=standing.prompts)
    staged = stage.staged(seat, alone, said, tools, system)
    return Hire(
        delegation=work,
        turn=staged.turn,
        created=session_created(seat.workspace, None, policy_id),
        task_tokens=count_tokens(given.task),
        dropped_tools=dropped,
    )


def session_created(workspace: str | None, model: str | None, policy_id: str) -> SessionCreated:
    """Tell that a session begins."""
    return SessionCreated(workspace, workspace_hash(workspace), model, policy_id)


def workspace_hash(workspace: str | None) -> str:
    """Name a workspace without saying where it is."""
    return "" if workspace is None else content_id(workspace.encode("utf-8", "surrogatepass"))
