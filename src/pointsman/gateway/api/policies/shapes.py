"""What the page about policies takes and gives: rules with their hits, checks and dry runs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pointsman.audit.turn_shapes import InstantText
from pointsman.turns.facts import GivenFacts
from pointsman.turns.rules.review import Finding, Proof

PolicyText = Annotated[str, Meta(max_length=1 << 20)]


class RuleLine(Struct, frozen=True):
    """A rule in the order it is tried, how often it chose, and the findings about it."""

    name: str
    when: str
    use: str
    is_global: bool
    hits: int
    rejected: int
    last_at: InstantText | None
    findings: tuple[Finding, ...]


class RuleScope(Struct, frozen=True):
    """The rules that hold in one workspace; none is everywhere."""

    workspace: str | None
    default: str | None
    rules: tuple[RuleLine, ...]


class RulesAnswer(Struct, frozen=True):
    """The rules in force."""

    policy_id: str
    scopes: tuple[RuleScope, ...]
    warnings: tuple[Finding, ...]
    privacy: Proof
    problems: tuple[str, ...]
    is_writable: bool
    behind: int


class CheckBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A policy file that is being written."""

    text: PolicyText


class ProblemRow(Struct, frozen=True):
    """One thing wrong with a file: lines and columns count from 1."""

    source: str
    line: int
    column: int
    code: str
    message: str
    hint: str


class CheckAnswer(Struct, frozen=True):
    """Everything that is wrong with a file, then what a valid one should be warned of."""

    ok: bool
    problems: tuple[ProblemRow, ...]
    warnings: tuple[Finding, ...]
    privacy: Proof | None
    policy_id: str | None


class DifferenceBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A policy that is being written; recorded turns are counted where that is asked."""

    text: PolicyText
    count_recorded: bool = False


class DifferentTurns(Struct, frozen=True):
    """One kind of turns that the policy in force and the one being written decide differently."""

    before_model: str
    after_model: str
    before: str
    after: str
    where: str
    unless: tuple[str, ...]
    is_exact: bool
    is_usual: bool
    recorded_turns: int | None
    example: str | None


class DifferenceAnswer(Struct, frozen=True):
    """Every kind of turns that would be decided differently, those recorded most often first."""

    headline: str
    is_complete: bool
    notes: tuple[str, ...]
    steps: int
    recorded_turns: int | None
    recorded_differing: int | None
    recorded_unable: int | None
    kinds: tuple[DifferentTurns, ...]


class TryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A policy that is being written, and the facts of a turn to try it on."""

    text: PolicyText
    facts: GivenFacts


class PolicyAnswer(Struct, frozen=True):
    """A policy file as it stands; `publication_id` where the policy is published in the ledger."""

    name: str
    text: str
    problems: tuple[str, ...]
    is_there: bool
    publication_id: str | None


class PolicyWritten(Struct, frozen=True):
    """The policy in force after a file was replaced."""

    name: str
    policy_id: str
    problems: tuple[str, ...]
    publication_id: str | None
