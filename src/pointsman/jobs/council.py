"""The council that judges a job's outputs: declared rules, and named functions or agents.

Rules always vote the same way; the votes of functions and agents are recorded, and recalled.
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
from pointsman.governance.council import AgentOutput, CouncilQuestion, CouncilVote, RuleVoter
from pointsman.jobs.agent_client import AgentClient, AgentResult
from pointsman.jobs.privacy import redact_findings
from pointsman.kernel.canonical import canonical_json, untag
from pointsman.kernel.document import Document, DocumentLimits, Json
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import ONE, Billionths, billionths_text
from pointsman.kernel.schema import conform

MOST_SAID: Final = 4_000
_ANY_SIZE: Final = DocumentLimits(bytes=2**31, nodes=2**31)
_NUMBERS: Final = msgspec.json.Encoder(decimal_format="number")


class VoteReply(Struct, frozen=True, forbid_unknown_fields=True):
    """A vote as a function or an agent returns it; a missing mark is 1 or 0, as it votes."""

    approve: bool
    correctness: Fraction | None = None
    relevance: Fraction | None = None
    safety: Fraction | None = None
    coherence: Fraction | None = None
    suggested_changes: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    explain: str = ""


def council_bytes(council: GivenCouncil) -> bytes:
    """Encode a council for a job's record."""
    return canonical_json(read_json(_NUMBERS.encode(council), "council", _ANY_SIZE).value)


def read_council(canonical: bytes) -> GivenCouncil:
    """Read a recorded council back."""
    try:
        value = untag(msgspec.json.decode(canonical))
        return conform(Document("council", value, {}, {}), GivenCouncil)
    except (DocumentError, msgspec.MsgspecError) as error:
        raise IntegrityFailure("the recorded council cannot be read") from error


def votes_by_rules(voter: GivenVoter) -> bool:
    """Tell whether a voter goes by the declared rules alone."""
    return voter.python is None and voter.agent is None


class JobCouncil:
    """Asks the members of a job's council for their votes."""

    def __init__(
        self, council: GivenCouncil, client: AgentClient, run: Mapping[str, GivenRun]
    ) -> None:
        self._council = council
        self._rules = RuleVoter(council.rules_in_force)
        self._client = client
        self._run = run

    def vote(
        self, voter: GivenVoter, vote_id: str, question: CouncilQuestion, output: AgentOutput
    ) -> CouncilVote | str:
        """Return a member's vote, or the reason why there is none."""
        if votes_by_rules(voter):
            return self._rules.vote(vote_id, question, output)
        asked = {"vote_id": vote_id, "question": question, "output": _output_fields(output)}
        given: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(asked))
        called = self._ask(voter, given)
        if called.status != "done":
            return f"{voter.id} did not vote: {called.status}"
        try:
            return _to_vote(vote_id, output.agent_id, _read_vote(called.value))
        except DocumentError:
            return f"{voter.id} did not vote: its answer is no vote"

    def _ask(self, voter: GivenVoter, given: dict[str, Json]) -> AgentResult:
        if voter.agent is None:
            return self._client.function(voter.python or "", voter.timeout_ms, given)
        query = "Vote on this output. Answer with JSON: " + '{"approve": true or false}.'
        work: dict[str, Json] = {"query": f"{query}\n{canonical_json(given).decode()}", **given}
        return self._client.call(voter.agent, self._run.get(voter.agent), work)


def _output_fields(output: AgentOutput) -> dict[str, object]:
    confidence = output.confidence
    told = None if confidence is None else billionths_text(confidence)
    fields: dict[str, object] = msgspec.to_builtins(output)
    return fields | {"confidence": told}


def _read_vote(value: Json) -> VoteReply:
    """Read a vote; a text, or an answer with a text, holds it as JSON."""
    if isinstance(value, dict) and "approve" not in value and isinstance(value.get("text"), str):
        value = value["text"]
    if isinstance(value, str):
        start, end = value.find("{"), value.rfind("}") + 1
        value = read_json(value[max(start, 0) : end].encode(), "the vote").value
    return conform(Document("the vote", value, {}, {}), VoteReply)


def _to_vote(vote_id: str, agent_id: str, given: VoteReply) -> CouncilVote:
    otherwise = ONE if given.approve else Billionths(0)

    def mark(name: str) -> Billionths:
        value = getattr(given, name)
        return otherwise if value is None else fraction(value)

    # Foreign text may quote the output: redact it, so that no personal data enters the ledger.
    return CouncilVote(
        vote_id,
        agent_id,
        mark("correctness"),
        mark("relevance"),
        mark("safety"),
        mark("coherence"),
        given.approve,
        tuple(redact_findings(each[:MOST_SAID]) for each in given.suggested_changes),
        redact_findings(given.explain[:MOST_SAID]),
    )
