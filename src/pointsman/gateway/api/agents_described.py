"""The agents' routes in words and types: documents 000 and 004, and how actions are governed."""

from __future__ import annotations

from typing import Final

from pointsman.agents.facts import GivenJob
from pointsman.gateway.api.agents import shapes as agent_shapes
from pointsman.gateway.api.description import (
    LIMIT,
    SINCE,
    Description,
    Key,
    Parameter,
)
from pointsman.jobs.request import JobRequest

_TRACE: Final = Parameter(
    "traceparent", "a W3C trace that this call belongs to", {"type": "string"}, "header"
)
_STATUS: Final = Parameter("status", "only requests that stand so", {"type": "string"})

_WRONG: Final = (404, 409)
"""An id that names nothing; a request that cannot take that now."""

AGENTS: Final[dict[Key, Description]] = {
    ("POST", "/router/decide"): Description(
        "choose the agent that takes a job; recorded",
        "act",
        agent_shapes.RouteAnswer,
        GivenJob,
        parameters=(_TRACE,),
        errors=(404,),
    ),
    ("POST", "/selfrep/create_snapshot"): Description(
        "keep a snapshot of modules",
        "act",
        agent_shapes.SelfRepKept,
        agent_shapes.SelfRepBody,
        parameters=(_TRACE,),
    ),
    ("GET", "/selfrep"): Description(
        "tell how the modules of this home stand now",
        "read",
        agent_shapes.SelfRepAnswer,
        parameters=(_TRACE,),
    ),
    ("GET", "/selfrep/{id}"): Description(
        "give a snapshot of modules",
        "read",
        agent_shapes.SelfRepAnswer,
        parameters=(_TRACE,),
    ),
    ("POST", "/brainstate/create_snapshot"): Description(
        "keep the first state of a job",
        "act",
        agent_shapes.StartAnswer,
        agent_shapes.StartBody,
        parameters=(_TRACE,),
    ),
    ("GET", "/brainstate/{id}"): Description(
        "give a state: in full to admins and the council, else redacted",
        "read",
        agent_shapes.SnapshotAnswer,
        parameters=(_TRACE,),
    ),
    ("POST", "/brainstate/tick"): Description(
        "take one step from a state; what lasts becomes a request for an action",
        "act",
        agent_shapes.TickAnswer,
        agent_shapes.TickBody,
        parameters=(_TRACE,),
        errors=_WRONG,
    ),
    ("POST", "/brainstate/query"): Description(
        "give what a state advises whoever chooses an agent",
        "act",
        agent_shapes.HintsAnswer,
        agent_shapes.QueryBody,
        parameters=(_TRACE,),
        errors=(404,),
    ),
}

ACTIONS: Final[dict[Key, Description]] = {
    ("POST", "/actions"): Description(
        "ask for an action; it is recorded, and done only once approved",
        "act",
        agent_shapes.ActionAnswer,
        agent_shapes.ActionBody,
        parameters=(_TRACE,),
        errors=_WRONG,
    ),
    ("GET", "/actions"): Description(
        "list the latest requests for actions",
        "read",
        agent_shapes.ActionsAnswer,
        parameters=(_STATUS, LIMIT, SINCE, _TRACE),
    ),
    ("GET", "/actions/{id}"): Description(
        "tell how a request stands", "read", agent_shapes.ActionAnswer, parameters=(_TRACE,)
    ),
    ("POST", "/actions/{id}/votes"): Description(
        "vote on a request; the vote that carries it has it done",
        "act",
        agent_shapes.ActionAnswer,
        agent_shapes.VoteBody,
        parameters=(_TRACE,),
        errors=_WRONG,
    ),
    ("POST", "/actions/{id}/cancel"): Description(
        "call a request off",
        "act",
        agent_shapes.ActionAnswer,
        agent_shapes.NoteBody,
        parameters=(_TRACE,),
        errors=_WRONG,
    ),
    ("POST", "/actions/{id}/execute"): Description(
        "have done what was approved and nobody did",
        "act",
        agent_shapes.ActionAnswer,
        agent_shapes.NoteBody,
        parameters=(_TRACE,),
        errors=_WRONG,
    ),
    ("POST", "/actions/{id}/settle"): Description(
        "end a request whose executor died: do it again, or write it off",
        "act",
        agent_shapes.ActionAnswer,
        agent_shapes.SettleBody,
        parameters=(_TRACE,),
        errors=_WRONG,
    ),
    ("GET", "/sem/{namespace}"): Description(
        "list what a namespace of semantic memory holds",
        "read",
        agent_shapes.NamespaceAnswer,
        parameters=(_TRACE,),
    ),
    ("GET", "/sem/{namespace}/{key}"): Description(
        "tell what a key of semantic memory holds, and by which request",
        "read",
        agent_shapes.SemAnswer,
        parameters=(_TRACE,),
    ),
}

JOBS: Final[dict[Key, Description]] = {
    ("POST", "/jobs"): Description(
        "run a job to its end: decide, call, judge, tick, and again where an agent fails",
        "act",
        agent_shapes.JobAnswer,
        JobRequest,
        parameters=(_TRACE,),
        errors=_WRONG,
    ),
    ("GET", "/jobs"): Description(
        "list the latest jobs", "read", agent_shapes.JobsAnswer, parameters=(LIMIT, _TRACE)
    ),
    ("GET", "/jobs/{id}"): Description(
        "tell how a job ended, by its log's id or its own",
        "read",
        agent_shapes.JobAnswer,
        parameters=(_TRACE,),
    ),
    ("POST", "/jobs/{id}/replay"): Description(
        "run a job again from its record and compare; a verdict, never what was said",
        "act",
        agent_shapes.ReplayedJob,
        parameters=(_TRACE,),
    ),
}
