"""The work an agent is given and the reply it returns, read strictly; its actions are wishes."""

from __future__ import annotations

from typing import Annotated, cast

from msgspec import Meta, Struct

from pointsman.agents.facts import JobFacts
from pointsman.agents.trace import AgentOutcome
from pointsman.brainstate.bodies import Anything, GivenItem, Name
from pointsman.brainstate.constants import Fraction, Tokens
from pointsman.brainstate.events import ActionType, ActionWished, Insertion
from pointsman.brainstate.reading import canonical_text, fraction, value_problems
from pointsman.brainstate.state import BrainState
from pointsman.brainstate.view import state_view
from pointsman.errors import Problem
from pointsman.governance.council import AgentOutput
from pointsman.kernel.canonical import canonical_json, untag
from pointsman.kernel.document import Document, DocumentLimits, Json
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import Billionths
from pointsman.kernel.schema import conform

MOST_CLAIMS = 1_000_000
_STORED = DocumentLimits(bytes=64 * 1024 * 1024, depth=64, nodes=2_000_000)

Count = Annotated[int, Meta(ge=0, le=MOST_CLAIMS)]


class GivenWish(Struct, frozen=True, forbid_unknown_fields=True):
    """A persistent effect the agent wishes for."""

    action_type: ActionType
    payload: Anything
    goal_id: Name | None = None


class AgentReply(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent's answer. A plain text is an answer with nothing but its `text`."""

    text: Annotated[str, Meta(max_length=1_000_000)] = ""
    confidence: Fraction | None = None
    deliverable: Annotated[str, Meta(max_length=200)] = ""
    claims: Count = 0
    claims_with_evidence: Count = 0
    is_finished: bool = True
    tokens_used: Tokens = 0
    wm: Annotated[tuple[GivenItem, ...], Meta(max_length=256)] = ()
    actions: Annotated[tuple[GivenWish, ...], Meta(max_length=64)] = ()

    @property
    def exact_confidence(self) -> Billionths | None:
        """How sure the agent is, in billionths; None where it does not say."""
        return None if self.confidence is None else fraction(self.confidence)

    def output(self, agent_id: str, found_kinds: tuple[str, ...]) -> AgentOutput:
        """Return the output a council judges."""
        return AgentOutput(
            agent_id,
            self.text,
            self.exact_confidence,
            self.deliverable,
            self.claims,
            self.claims_with_evidence,
            found_kinds,
            self.is_finished,
        )

    def insertions(self) -> tuple[Insertion, ...]:
        """Return the items it wants remembered."""
        return tuple(
            Insertion(
                each.type,
                canonical_text(each.value),
                each.ttl_ticks,
                each.goal_id,
                each.token_estimate,
                each.wm_id,
            )
            for each in self.wm
        )

    def wishes(self, agent_id: str) -> tuple[ActionWished, ...]:
        """Return its wishes for actions, in its own name."""
        return tuple(
            ActionWished(each.action_type, agent_id, canonical_text(each.payload), each.goal_id)
            for each in self.actions
        )


def read_reply(value: Json) -> AgentReply:
    """Read what an agent answered, or raise all that is wrong with it."""
    given: Json = {"text": value} if isinstance(value, str) else value
    return conform(Document("the answer", given, {}, {}), AgentReply, _problems)


def reply_text(value: Json) -> str:
    """Return a reply as it is stored: canonical JSON."""
    return canonical_json(value).decode()


def read_stored_reply(text: str) -> AgentReply:
    """Read a stored reply back."""
    return read_reply(untag(read_json(text.encode(), "the answer", _STORED).value))


def agent_work(facts: JobFacts, query: str, state: BrainState, outcome: AgentOutcome) -> Json:
    """Return the work for an agent: the job, its depth and budget, goals and memory."""
    mind = state_view(state)
    found: dict[str, object] = {
        "job_id": facts.job_id,
        "job_seed": facts.job_seed,
        "attempt": facts.attempt,
        "agent": outcome.selected_agent,
        "query": query,
        "intent": outcome.intent,
        "required_action": outcome.required_action,
        "depth": outcome.depth,
        "token_budget": outcome.token_budget,
        "goals": [
            {
                "goal_id": each.goal_id,
                "type": each.type,
                "status": each.status,
                "priority": each.priority,
                "deliverable": each.deliverable,
                "metadata": each.metadata,
            }
            for each in mind.goals
        ],
        "memory": [{"type": each.type, "value": each.value} for each in mind.wm],
        "context": [{"type": each.type, "value": each.value} for each in mind.cwm.items],
    }
    # Values and metadata were read from canonical JSON.
    return cast("Json", found)


def _problems(given: AgentReply, document: Document) -> list[Problem]:
    found: list[Problem] = []
    for index, item in enumerate(given.wm):
        found += value_problems(item.value, document, ("wm", index, "value"))
    for index, wish in enumerate(given.actions):
        found += value_problems(wish.payload, document, ("actions", index, "payload"))
    return found
