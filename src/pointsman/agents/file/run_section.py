"""How agents are called and judged, as `agents.yaml` writes it. Configuration, never policy.

None of it is in a snapshot of the modules: an agent's address says nothing about its trust.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.agents.file.config import Fraction, Name
from pointsman.errors import Problem
from pointsman.governance.council import BUILT_IN, CouncilRule, CouncilRules, rule_problems
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path, escape
from pointsman.kernel.nearest import nearest

Function = Annotated[
    str, Meta(max_length=200, pattern="^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$")
]
Url = Annotated[str, Meta(max_length=2048, pattern="^https?://")]
Text = Annotated[str, Meta(max_length=64_000)]

RULES: Final = "rules"
"""The name of the voter that goes by the declared rules."""

UNDECLARED: Final = tuple(each for each in BUILT_IN.rules if each.id != "confident")
"""The rules where none is declared. Many agents, models first of all, report no confidence: that
alone is no reason to reject an output. A goal still needs one to succeed."""


class RunHttp(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent behind an address: the work is posted as JSON, the answer comes back as JSON."""

    url: Url
    headers: dict[str, str] = {}


class RunModel(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that is a model with a prompt of its own; `auto` lets the turn be routed."""

    system: Text = ""
    model: Name = "auto"


class GivenRun(Struct, frozen=True, forbid_unknown_fields=True):
    """How one agent is called: one of three ways, and how long it may take."""

    python: Function | None = None
    http: RunHttp | None = None
    model: RunModel | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 60_000

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways that are set."""
        return tuple(name for name in ("python", "http", "model") if getattr(self, name))


class GivenVoter(Struct, frozen=True, forbid_unknown_fields=True):
    """A voter on outputs: by the declared rules unless a function or an agent is named."""

    id: Name
    python: Function | None = None
    agent: Name | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=86_400_000)] = 60_000


class GivenCouncil(Struct, frozen=True, forbid_unknown_fields=True):
    """The council that votes on outputs. Without `voters`, the declared rules vote alone."""

    rules: Annotated[tuple[CouncilRule, ...], Meta(max_length=1_000)] | UnsetType = UNSET
    approve_at: Fraction = Decimal("0.7")
    voters: Annotated[tuple[GivenVoter, ...], Meta(max_length=32)] | UnsetType = UNSET

    @property
    def rules_in_force(self) -> CouncilRules:
        """The declared rules, else the default ones."""
        rules = UNDECLARED if isinstance(self.rules, UnsetType) else self.rules
        return CouncilRules(rules, self.approve_at)

    @property
    def members(self) -> tuple[GivenVoter, ...]:
        """All voters; an empty list means that there is no council."""
        return (GivenVoter(RULES),) if isinstance(self.voters, UnsetType) else self.voters


class GivenPrivacy(Struct, frozen=True, forbid_unknown_fields=True):
    """Which kinds (`email`) or groups (`pii`, `secret`) of finds do not block a query."""

    let_through: Annotated[tuple[Name, ...], Meta(max_length=200)] = ()


def run_problems(
    run: Mapping[str, GivenRun], modules: Iterable[str], document: Document
) -> Iterable[Problem]:
    """Find the problems of `run` that a schema cannot express."""
    names = list(modules)
    for node_id, each in run.items():
        path: Path = ("run", node_id)
        if len(each.ways) != 1:
            message = "an agent is called by exactly one of `python`, `http` and `model`"
            yield document.problem(path, Code.INVALID_VALUE, message)
        if node_id not in names and document.is_read(("modules",)):
            near = nearest(node_id, names)
            hint = f"did you mean `{near}`?" if near else ""
            message = f"there is no module `{escape(node_id)}`"
            yield document.problem(path, Code.UNKNOWN_VALUE, message, hint, key=True)


def council_problems(
    council: GivenCouncil, run: Mapping[str, GivenRun], document: Document
) -> Iterable[Problem]:
    """Find the problems of a council that a schema cannot express."""
    if not isinstance(council.rules, UnsetType):
        yield from rule_problems(council.rules_in_force, document, ("council",))
    seen: set[str] = set()
    for index, each in enumerate(council.members):
        path: Path = ("council", "voters", index)
        if each.id in seen:
            message = f"a voter `{escape(each.id)}` is declared already"
            yield document.problem((*path, "id"), Code.INVALID_VALUE, message)
        seen.add(each.id)
        if each.python is not None and each.agent is not None:
            message = "a voter is a function or an agent, not both"
            yield document.problem(path, Code.INVALID_VALUE, message)
        if each.agent is not None and each.agent not in run and document.is_read(("run",)):
            message = f"nothing under `run` says how `{escape(each.agent)}` is called"
            yield document.problem((*path, "agent"), Code.UNKNOWN_VALUE, message)


def privacy_problems(
    privacy: GivenPrivacy, kinds: Iterable[str], document: Document
) -> Iterable[Problem]:
    """Find names that no detector knows; without `kinds` nothing is checked."""
    known = list(kinds)
    for index, name in enumerate(privacy.let_through):
        if known and name not in known:
            near = nearest(name, known)
            hint = f"did you mean `{near}`?" if near else ""
            message = f"no detector finds `{escape(name)}`"
            at = ("privacy", "let_through", index)
            yield document.problem(at, Code.UNKNOWN_VALUE, message, hint)
