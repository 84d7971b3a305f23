"""The council that judges outputs: declared rules, and functions or agents that were named beside.

Rules vote the same way whenever they are asked. What others vote is recorded, and recalled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pointsman.agents.file.run_section import GivenCouncil, GivenRun, GivenVoter
from pointsman.brainstate.constants import Fraction
from pointsman.brainstate.reading import fraction
from pointsman.errors import DocumentError, IntegrityFailure
from pointsman.governance.council import AgentOutput, CouncilVote, Question, RuleVoter
from pointsman.jobs.agent_calling import AgentCalling, Called
from pointsman.jobs.agent_privacy import lasting
from pointsman.kernel.canonical import canonical_json, untagged
from pointsman.kernel.document import Document, Json, Limits
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import ONE, Billionths, billionths_text
from pointsman.kernel.schema import conform

MOST_SAID: Final = 4_000
_ANY_SIZE: Final = Limits(bytes=2**31, nodes=2**31)
_NUMBERS: Final = msgspec.json.Encoder(decimal_format="number")


class GivenVote(Struct, frozen=True, forbid_unknown_fields=True):
    """A vote as a function or an agent gives it; a mark not given is 1 or 0, as it votes."""

    approve: bool
    correctness: Fraction | None = None
    relevance: Fraction | None = None
    safety: Fraction | None = None
    coherence: Fraction | None = None
    suggested_changes: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    explain: str = ""


def council_bytes(council: GivenCouncil) -> bytes:
    """Give a council as a job's record carries it."""
    return canonical_json(read_json(_NUMBERS.encode(council), "council", _ANY_SIZE).value)


def recorded_council(canonical: bytes) -> GivenCouncil:
    """Read a recorded council back."""
    try:
        value = untagged(msgspec.json.decode(canonical))
        return conform(Document("council", value, {}, {}), GivenCouncil)
    except (DocumentError, msgspec.MsgspecError) as error:
        raise IntegrityFailure("the recorded council cannot be read") from error


def is_rules(voter: GivenVoter) -> bool:
    """Tell whether a voter goes by the declared rules alone."""
    return voter.python is None and voter.agent is None


class Sitting:
    """A council that sits: it knows how its members are asked."""

    def __init__(
        self, council: GivenCouncil, calling: AgentCalling, run: Mapping[str, GivenRun]
    ) -> None:
        self._council = council
        self._rules = RuleVoter(council.declared)
        self._calling = calling
        self._run = run

    def vote(
        self, voter: GivenVoter, vote_id: str, question: Question, output: AgentOutput
    ) -> CouncilVote | str:
        """Give a member's vote, or why there is none."""
        if is_rules(voter):
            return self._rules.vote(vote_id, question, output)
        asked = {"vote_id": vote_id, "question": question, "output": _shown(output)}
        given: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(asked))
        called = self._asked(voter, given)
        if called.status != "done":
            return f"{voter.id} did not vote: {called.status}"
        try:
            return _vote(vote_id, output.agent_id, _read(called.value))
        except DocumentError:
            return f"{voter.id} did not vote: its answer is no vote"

    def _asked(self, voter: GivenVoter, given: dict[str, Json]) -> Called:
        if voter.agent is None:
            return self._calling.function(voter.python or "", voter.timeout_ms, given)
        query = "Vote on this output. Answer with JSON: " + '{"approve": true or false}.'
        work: dict[str, Json] = {"query": f"{query}\n{canonical_json(given).decode()}", **given}
        return self._calling.call(voter.agent, self._run.get(voter.agent), work)


def _shown(output: AgentOutput) -> dict[str, object]:
    confidence = output.confidence
    told = None if confidence is None else billionths_text(confidence)
    fields: dict[str, object] = msgspec.to_builtins(output)
    return fields | {"confidence": told}


def _read(value: Json) -> GivenVote:
    """Read a vote; a text, or an answer with a text, holds it as JSON."""
    if isinstance(value, dict) and "approve" not in value and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, str):
        start, end = value.find("{"), value.rfind("}") + 1
        value = read_json(value[max(start, 0) : end].encode(), "the vote").value
    return conform(Document("the vote", value, {}, {}), GivenVote)


def _vote(vote_id: str, agent_id: str, given: GivenVote) -> CouncilVote:
    otherwise = ONE if given.approve else Billionths(0)

    def mark(name: str) -> Billionths:
        value = getattr(given, name)
        return otherwise if value is None else fraction(value)

    # What others write may quote the output: personal data does not get into the ledger by it.
    return CouncilVote(
        vote_id,
        agent_id,
        mark("correctness"),
        mark("relevance"),
        mark("safety"),
        mark("coherence"),
        given.approve,
        tuple(lasting(each[:MOST_SAID]) for each in given.suggested_changes),
        lasting(given.explain[:MOST_SAID]),
    )
