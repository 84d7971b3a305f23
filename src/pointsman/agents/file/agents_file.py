"""Modules, intents and constants as people write them: `agents.yaml`, and snapshots posted by HTTP.

Read with every problem at its place; `agents.policy` and `make_selfrep` make exact values of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from pointsman.agents.file.config import EPSILON, Count, Fraction, GivenConfig, Name
from pointsman.agents.file.run_section import (
    GivenCouncil,
    GivenPrivacy,
    GivenRun,
    council_problems,
    run_problems,
)
from pointsman.agents.modules.module import ModuleType, Status
from pointsman.errors import InputError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Json, Path, Position, escape
from pointsman.kernel.instant import read_instant
from pointsman.kernel.nearest import nearest
from pointsman.kernel.regex import refusal
from pointsman.kernel.schema import conform

MOST_PATTERNS: Final = 64
_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}", re.ASCII)

Words = tuple[Name, ...]
Role = Annotated[str, Meta(pattern="^[a-z][a-z0-9_]{0,62}$")]


class GivenTrust(Struct, frozen=True, forbid_unknown_fields=True):
    """The constants of trust; document names such as `DECAY` are accepted as well."""

    decay: Fraction | UnsetType = UNSET
    beta: Fraction | UnsetType = UNSET
    gamma: Fraction | UnsetType = UNSET
    apt_init: Fraction | UnsetType = UNSET
    min_events_for_trust: Count | UnsetType = UNSET
    apt_degraded: Fraction | UnsetType = UNSET
    apt_block: Fraction | UnsetType = UNSET
    failures_offline: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET


class GivenMetrics(Struct, frozen=True, forbid_unknown_fields=True):
    """A module's record so far."""

    consecutive_failures: Count = 0
    total_calls: Count = 0


class GivenModulePolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """The actions of a module; empty `allowed_actions` restrict nothing."""

    allowed_actions: Words = ()
    forbidden_actions: Words = ()


class GivenRegistration(Struct, frozen=True, forbid_unknown_fields=True):
    """Who added a module, and when."""

    registered_by: str = ""
    registered_at: str = ""


class GivenModule(Struct, frozen=True, forbid_unknown_fields=True):
    """One module under its id. A status that is given stands as given."""

    node_id: str | UnsetType = UNSET
    type: ModuleType = "agent"
    display_name: Annotated[str, Meta(max_length=200)] = ""
    version: Annotated[str, Meta(max_length=100)] = ""
    status: Status | UnsetType = UNSET
    status_reason: Annotated[str, Meta(max_length=1000)] | None = None
    apt: Fraction | UnsetType = UNSET
    metrics: GivenMetrics = GivenMetrics()
    capabilities: Words = ()
    dependencies: Words = ()
    policy: GivenModulePolicy = GivenModulePolicy()
    registration: GivenRegistration = GivenRegistration()
    last_updated: str = ""
    is_fallback: bool = False


class GivenEdge(Struct, frozen=True, forbid_unknown_fields=True):
    """A dependency of a module."""

    from_: Name = field(name="from")
    to: Name = field(name="to")
    required: bool = field(name="required", default=True)
    edge_id: str | UnsetType = field(name="edge_id", default=UNSET)


class GivenSelfRep(Struct, frozen=True, forbid_unknown_fields=True):
    """A snapshot of modules, as `POST /selfrep/create_snapshot` takes it."""

    modules: dict[str, GivenModule]
    edges: tuple[GivenEdge, ...] = ()
    trust: GivenTrust = GivenTrust()


class GivenIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of query; the first whose pattern is found counts."""

    intent: Name
    patterns: Annotated[tuple[str, ...], Meta(max_length=MOST_PATTERNS)] = ()
    required_action: Annotated[str, Meta(max_length=200)] = ""
    candidates: Words = ()


class GivenRole(Struct, frozen=True, forbid_unknown_fields=True):
    """Which modules a role may use; all but the denied ones where `modules` is absent."""

    modules: Words | None = None
    denied: Words = ()


class AgentsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`agents.yaml`: the modules, and the rules of the choice between them.

    `run`, `council` and `privacy` are the executor's: no snapshot holds them.
    """

    schema_version: Literal[1] = 1
    modules: dict[str, GivenModule] = {}
    edges: tuple[GivenEdge, ...] = ()
    trust: GivenTrust = GivenTrust()
    router_config: GivenConfig = GivenConfig()
    intents: tuple[GivenIntent, ...] = ()
    roles: dict[Role, GivenRole] = {}
    run: dict[str, GivenRun] = {}
    council: GivenCouncil = GivenCouncil()
    privacy: GivenPrivacy = GivenPrivacy()


NO_AGENTS: Final = AgentsFile()


def file_problems(file: AgentsFile, document: Document) -> Iterable[Problem]:
    """Find the problems of `agents.yaml` that its schema cannot state."""
    yield from module_problems(file, document)
    yield from _config_problems(file, document)
    yield from _intent_problems(file, document)
    yield from _role_problems(file, document)
    yield from _executor_problems(file, document)


def read_selfrep_document(document: Document) -> GivenSelfRep:
    """Read a posted snapshot of modules, or raise with every problem at its place."""
    lowered, problems = lower_keys(document, ("trust",))
    return conform(lowered, GivenSelfRep, lambda *_: problems, module_problems)


def lower_keys(document: Document, sections: tuple[str, ...]) -> tuple[Document, list[Problem]]:
    """Accept the documents' own upper-case names of constants; each only once."""
    value = document.value
    if not isinstance(value, dict):
        return document, []
    changed, problems = dict(value), []
    marks = [dict(document.values), dict(document.keys)]
    flaws = set(document.flaws)
    for section in sections:
        given = value.get(section)
        if not isinstance(given, dict):
            continue
        found: dict[str, Json] = {}
        for key, each in given.items():
            name = key.lower() if key.isupper() else key
            if name in found:
                message = f"`{escape(key)}` is given twice, in two spellings"
                path = (section, key)
                problems.append(document.problem(path, Code.DUPLICATE_KEY, message, key=True))
            found.setdefault(name, each)
            _move_marks(marks, (section, key), (section, name))
            if (section, key) in flaws:
                flaws.add((section, name))
        changed[section] = found
    lowered = replace(
        document, value=changed, values=marks[0], keys=marks[1], flaws=frozenset(flaws)
    )
    return lowered, problems


def _move_marks(marks: list[dict[Path, Position]], old: Path, new: Path) -> None:
    for each in marks:
        if old != new and old in each:
            each.setdefault(new, each[old])


def module_problems(given: GivenSelfRep | AgentsFile, document: Document) -> Iterable[Problem]:
    """Find the problems of modules that a schema cannot express: names, edges, instants."""
    for node_id, module in given.modules.items():
        path: Path = ("modules", node_id)
        if _NODE_ID.fullmatch(node_id) is None:
            message = f"`{escape(node_id)}` is no module id"
            hint = "letters, digits and `_.:/@-`, at most 128 of them"
            yield document.problem(path, Code.PATTERN, message, hint, key=True)
        if module.node_id not in {UNSET, node_id}:
            message = f"`node_id` is `{escape(str(module.node_id))}`, the key `{escape(node_id)}`"
            yield document.problem((*path, "node_id"), Code.INVALID_VALUE, message)
        yield from _instant_problems(module, document, path)
        for index, name in enumerate(module.dependencies):
            at = (*path, "dependencies", index)
            yield from _known_problems(name, given.modules, document, at)
            if name == node_id:
                message = f"`{escape(name)}` cannot depend on itself"
                yield document.problem(at, Code.INVALID_VALUE, message)
    yield from _edge_problems(given, document)


def _instant_problems(module: GivenModule, document: Document, path: Path) -> Iterable[Problem]:
    places = (
        (module.last_updated, (*path, "last_updated")),
        (module.registration.registered_at, (*path, "registration", "registered_at")),
    )
    for text, at in places:
        try:
            if text:
                read_instant(text)
        except InputError as error:
            yield document.problem(at, Code.INVALID_VALUE, error.message, error.hint)


def _edge_problems(given: GivenSelfRep | AgentsFile, document: Document) -> Iterable[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(given.edges):
        path: Path = ("edges", index)
        yield from _known_problems(each.from_, given.modules, document, (*path, "from"))
        yield from _known_problems(each.to, given.modules, document, (*path, "to"))
        ends = (each.from_, each.to)
        if each.from_ == each.to:
            message = f"`{escape(each.to)}` cannot depend on itself"
            yield document.problem((*path, "to"), Code.INVALID_VALUE, message)
        if ends in seen:
            message = f"the edge `{escape('->'.join(ends))}` is given twice"
            yield document.problem(path, Code.DUPLICATE_KEY, message)
        seen.add(ends)
        if each.edge_id not in {UNSET, "->".join(ends)}:
            message = f"the id of this edge is `{escape('->'.join(ends))}`"
            yield document.problem((*path, "edge_id"), Code.INVALID_VALUE, message)


def _config_problems(file: AgentsFile, document: Document) -> Iterable[Problem]:
    if file.router_config.numeric_epsilon not in {UNSET, EPSILON}:
        message = "scores have a resolution of 1e-9, and no other"
        path = ("router_config", "numeric_epsilon")
        yield document.problem(path, Code.INVALID_VALUE, message)


def _intent_problems(file: AgentsFile, document: Document) -> Iterable[Problem]:
    seen: set[str] = set()
    for index, each in enumerate(file.intents):
        path: Path = ("intents", index)
        if each.intent in seen:
            message = f"the intent `{escape(each.intent)}` is taken by an earlier one"
            yield document.problem((*path, "intent"), Code.DUPLICATE_KEY, message)
        seen.add(each.intent)
        for number, pattern in enumerate(each.patterns):
            reason = refusal(pattern, is_case_sensitive=False)
            if reason:
                message = f"the pattern `{escape(pattern)}` cannot be used: {reason}"
                at = (*path, "patterns", number)
                yield document.problem(at, Code.INVALID_VALUE, message)
        for number, name in enumerate(each.candidates):
            at = (*path, "candidates", number)
            yield from _known_problems(name, file.modules, document, at)


def _role_problems(file: AgentsFile, document: Document) -> Iterable[Problem]:
    for role, each in file.roles.items():
        for key, names in (("modules", each.modules or ()), ("denied", each.denied)):
            for index, name in enumerate(names):
                at = ("roles", role, key, index)
                yield from _known_problems(name, file.modules, document, at)


def _executor_problems(file: AgentsFile, document: Document) -> Iterable[Problem]:
    yield from run_problems(file.run, file.modules, document)
    yield from council_problems(file.council, file.run, document)


def _known_problems(
    name: str, known: Iterable[str], document: Document, path: Path
) -> Iterable[Problem]:
    names = list(known)
    if name not in names and document.is_read(("modules",)):
        near = nearest(name, names)
        hint = f"did you mean `{near}`?" if near else ""
        message = f"there is no module `{escape(name)}`"
        yield document.problem(path, Code.UNKNOWN_VALUE, message, hint)


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without repetitions, sorted."""
    # DETERMINISM: one order, whatever order they are written in.
    return tuple(sorted(set(names)))
