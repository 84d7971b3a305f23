"""A vote on an agent's output, by declared rules: the same output, the same vote (004 §4.4).

Votes on action requests are in `votes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.canonical import Form
from pointsman.kernel.codes import Code
from pointsman.kernel.columns import ascii_lower
from pointsman.kernel.document import Document, Path
from pointsman.kernel.number import ONE, Billionths, billionths, billionths_text, ratio

Axis = Literal["correctness", "relevance", "safety", "coherence"]
AXES: Final[tuple[Axis, ...]] = ("correctness", "relevance", "safety", "coherence")
ANY_KIND: Final = "*"

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Term = Annotated[str, Meta(min_length=1, max_length=200)]
Fraction = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Weight = Annotated[int, Meta(ge=1, le=1_000_000)]

# DETERMINISM: only ASCII separates words; the other letters change with the Python version.
_WORD = re.compile(r"[0-9A-Za-z\x80-\U0010ffff]+")
_SHORTEST_WORD = 4
_BLANKS = " \t\r\n"


class CouncilQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """The query: its text, and the deliverable a goal names, if one does."""

    text: str
    deliverable: str = ""


class AgentOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """The output of an agent. `found_kinds` are the sensitive kinds a detector found in the text.

    The caller of a detector reports its failure as a kind of its own.
    """

    agent_id: str
    text: str
    confidence: Billionths | None = None
    deliverable: str = ""
    claims: int = 0
    claims_with_evidence: int = 0
    found_kinds: tuple[str, ...] = ()
    is_finished: bool = True
    error: str = ""


class _Check(Struct, frozen=True, forbid_unknown_fields=True, tag_field="check"):
    """One condition of a rule."""


class ConfidenceAtLeast(_Check, frozen=True, tag="confidence_at_least"):
    """The agent's own confidence reaches a value; an output without one does not."""

    value: Fraction


class EvidenceAtLeast(_Check, frozen=True, tag="evidence_at_least"):
    """So many of its claims have evidence; an output without claims has it all."""

    share: Fraction


class MentionsQuestion(_Check, frozen=True, tag="mentions_question"):
    """So many of the question's longer words appear in the output."""

    share: Fraction


class Delivers(_Check, frozen=True, tag="delivers"):
    """The deliverable is the one wanted, where one is."""


class ContainsAny(_Check, frozen=True, tag="contains_any"):
    """At least one of the terms appears, in any ASCII case."""

    terms: tuple[Term, ...]


class ContainsNone(_Check, frozen=True, tag="contains_none"):
    """None of the terms appears, in any ASCII case."""

    terms: tuple[Term, ...]


class FindsNone(_Check, frozen=True, tag="finds_none"):
    """No sensitive data of these kinds was found; `*` stands for every kind."""

    kinds: tuple[Name, ...]


class LengthBetween(_Check, frozen=True, tag="length_between"):
    """The text is neither too short nor too long, blanks at its ends apart."""

    min_chars: Annotated[int, Meta(ge=0, le=10_000_000)]
    max_chars: Annotated[int, Meta(ge=1, le=10_000_000)]


class IsFinished(_Check, frozen=True, tag="finished"):
    """The agent came to its end, and without an error."""


class IsJson(_Check, frozen=True, tag="is_json"):
    """The text is one JSON value."""


Check: TypeAlias = (
    ConfidenceAtLeast
    | EvidenceAtLeast
    | MentionsQuestion
    | Delivers
    | ContainsAny
    | ContainsNone
    | FindsNone
    | LengthBetween
    | IsFinished
    | IsJson
)


class CouncilRule(Struct, frozen=True, forbid_unknown_fields=True):
    """A declared rule: its axis, its check, and the suggestion where it is broken."""

    id: Name
    axis: Axis
    check: Check
    weight: Weight = 1
    is_veto: bool = False
    suggestion: Annotated[str, Meta(max_length=4_000)] = ""


class CouncilRules(Struct, frozen=True, forbid_unknown_fields=True):
    """The rules in their order; an output is approved where every axis reaches `approve_at`."""

    rules: Annotated[tuple[CouncilRule, ...], Meta(max_length=1_000)]
    approve_at: Fraction = Decimal("0.7")


class CouncilVote(Struct, frozen=True, forbid_unknown_fields=True):
    """A vote on one output. An axis without a rule is 1."""

    vote_id: str
    agent_id: str
    correctness: Billionths
    relevance: Billionths
    safety: Billionths
    coherence: Billionths
    approve: bool
    suggested_changes: tuple[str, ...]
    explain: str


VOTE_FORM: Final = Form(CouncilVote)

BUILT_IN: Final = CouncilRules(
    (
        CouncilRule(
            "finished",
            "coherence",
            IsFinished(),
            is_veto=True,
            suggestion="run the agent again to its end",
        ),
        CouncilRule(
            "says_something",
            "coherence",
            LengthBetween(1, 1_000_000),
            is_veto=True,
            suggestion="say something",
        ),
        CouncilRule(
            "no_sensitive_data",
            "safety",
            FindsNone((ANY_KIND,)),
            is_veto=True,
            suggestion="leave out personal data and secrets",
        ),
        CouncilRule(
            "confident",
            "correctness",
            ConfidenceAtLeast(Decimal("0.7")),
            suggestion="check the answer until it is certain",
        ),
        CouncilRule(
            "delivers",
            "relevance",
            Delivers(),
            suggestion="produce the deliverable that is wanted",
        ),
    )
)
"""The rules in force where none are declared."""


def rule_problems(given: CouncilRules, document: Document, at: Path = ()) -> Iterator[Problem]:
    """Find the problems of rules at `at` that a schema cannot express."""
    seen: set[str] = set()
    for index, rule in enumerate(given.rules):
        path = (*at, "rules", index)
        if rule.id in seen:
            message = f"a rule `{rule.id}` is declared already"
            yield document.problem((*path, "id"), Code.INVALID_VALUE, message)
        seen.add(rule.id)
        check = rule.check
        if isinstance(check, LengthBetween) and check.min_chars > check.max_chars:
            message = "`min_chars` is more than `max_chars`"
            yield document.problem((*path, "check", "min_chars"), Code.OUT_OF_RANGE, message)


class RuleVoter:
    """Votes by declared rules and nothing else."""

    def __init__(self, rules: CouncilRules = BUILT_IN) -> None:
        self._rules = rules

    def vote(self, vote_id: str, question: CouncilQuestion, output: AgentOutput) -> CouncilVote:
        """Judge an output by every rule; never raises."""
        rules = self._rules
        broken = [rule for rule in rules.rules if not passes_check(rule.check, question, output)]
        scores = {axis: _score(axis, rules.rules, broken) for axis in AXES}
        least = _share(rules.approve_at)
        approve = not any(rule.is_veto for rule in broken) and min(scores.values()) >= least
        return CouncilVote(
            vote_id=vote_id,
            agent_id=output.agent_id,
            **scores,
            approve=approve,
            suggested_changes=tuple(rule.suggestion for rule in broken if rule.suggestion),
            explain=_explain(scores, broken, rules, approve=approve),
        )


def council_approval(votes: Sequence[CouncilVote]) -> bool | None:
    """Return the council's approval: more than half approve; None without a vote."""
    if not votes:
        return None
    return 2 * sum(vote.approve for vote in votes) > len(votes)


def passes_check(check: Check, question: CouncilQuestion, output: AgentOutput) -> bool:  # noqa: C901, PLR0911 - one line a check
    """Tell whether an output passes a check."""
    match check:
        case ConfidenceAtLeast(value):
            return output.confidence is not None and output.confidence >= _share(value)
        case EvidenceAtLeast(share):
            return output.claims_with_evidence * ONE >= _share(share) * output.claims
        case MentionsQuestion(share):
            return _mention_share(question.text, output.text) >= _share(share)
        case Delivers():
            return question.deliverable in ("", output.deliverable)
        case ContainsAny(terms):
            return _has_any(output.text, terms)
        case ContainsNone(terms):
            return not _has_any(output.text, terms)
        case FindsNone(kinds):
            found = output.found_kinds
            return not (found if ANY_KIND in kinds else [x for x in found if x in kinds])
        case LengthBetween(least, most):
            return least <= len(output.text.strip(_BLANKS)) <= most
        case IsFinished():
            return output.is_finished and not output.error
        case IsJson():
            return _is_json(output.text)


def _score(axis: Axis, rules: Iterable[CouncilRule], broken: Iterable[CouncilRule]) -> Billionths:
    total = sum(rule.weight for rule in rules if rule.axis == axis)
    lost = sum(rule.weight for rule in broken if rule.axis == axis)
    return ratio(total - lost, total) if total else ONE


def _explain(
    scores: dict[Axis, Billionths],
    broken: Sequence[CouncilRule],
    rules: CouncilRules,
    *,
    approve: bool,
) -> str:
    """Write the outcome, every axis, and each broken rule by id; quotes nothing of the output."""
    said = ", ".join(f"{axis} {billionths_text(score)}" for axis, score in scores.items())
    outcome = "approved" if approve else "rejected"
    names = ", ".join(f"`{rule.id}`{' (veto)' if rule.is_veto else ''}" for rule in broken)
    least = billionths_text(_share(rules.approve_at))
    return f"{outcome}: {said}; every axis needs {least}; broken: {names or 'none'}"


def _mention_share(question: str, text: str) -> Billionths:
    wanted = dict.fromkeys(word for word in _words(question) if len(word) >= _SHORTEST_WORD)
    if not wanted:
        return ONE
    said = frozenset(_words(text))
    return ratio(sum(word in said for word in wanted), len(wanted))


def _words(text: str) -> list[str]:
    return _WORD.findall(ascii_lower(text))


def _has_any(text: str, terms: Iterable[str]) -> bool:
    lowered = ascii_lower(text)
    return any(ascii_lower(term) in lowered for term in terms)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _share(value: Decimal) -> Billionths:
    return billionths(f"{value:f}")
