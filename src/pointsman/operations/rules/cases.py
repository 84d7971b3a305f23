"""A table of expected decisions: read, written, and run against a policy. Records nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from pointsman.errors import InputError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.recording.gathering import exact_facts
from pointsman.storage.policies.policies import PolicyFiles
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import decide
from pointsman.turns.facts import GivenFacts, TurnFacts
from pointsman.turns.proofs.chain_formula import Winner
from pointsman.turns.proofs.examples import Example
from pointsman.turns.registry.models import model_id
from pointsman.turns.trace import Evaluation, Slot, TurnOutcome, TurnTrace, ValidationFailure

NO_MODEL = "no model"

Exact = Callable[[GivenFacts], TurnFacts]
"""Returns the exact facts of the written ones, or raises an InputError."""


class Want(Struct, frozen=True, forbid_unknown_fields=True):
    """The expected decision; a field left out may be anything.

    `chosen_model` is an id or alias, empty when no model may take the turn. `validation_failure`
    must be among the reasons for which candidates were rejected on the way.
    """

    chosen_model: str | None = None
    policy: Slot | None = None
    rule: str | None = None
    validation_failure: ValidationFailure | None = None
    banners: tuple[str, ...] | None = None


class RuleCase(Struct, frozen=True, forbid_unknown_fields=True):
    """One row: facts as `route --facts` reads them, and the expected decision."""

    note: str
    facts: GivenFacts
    want: Want | None = None
    want_error: str | None = None


class RuleCaseResult(Struct, frozen=True):
    """The result of one case; `expected` and `got` name only the differences."""

    note: str
    place: str
    state: Literal["passed", "failed"]
    expected: dict[str, str]
    got: dict[str, str]


class TableReport(Struct, frozen=True):
    """The results of a table."""

    rows: tuple[RuleCaseResult, ...]

    @property
    def failures(self) -> int:
        """How many rows did not come out as expected."""
        return sum(1 for row in self.rows if row.state == "failed")


class RuleTable(Struct, frozen=True):
    """The cases of a file, each with its place in it."""

    cases: tuple[RuleCase, ...]
    places: tuple[str, ...]


def read_table(text: bytes, source: str) -> RuleTable:
    """Read a table, or raise with every problem at its place."""
    document = parse_yaml(text, source)
    cases = conform(document, tuple[RuleCase, ...], _problems)
    return RuleTable(cases, tuple(str(document.place((index,))) for index in range(len(cases))))


def run_table(table: RuleTable, ready: CompiledTurnPolicy, exact: Exact) -> TableReport:
    """Decide every case and compare."""
    rows = zip(table.cases, table.places, strict=True)
    return TableReport(tuple(_run_case(case, place, ready, exact) for case, place in rows))


def run_on_files(files: PolicyFiles, table: RuleTable) -> TableReport:
    """Run a table against the files as they are on disk.

    The environment does not count: unless a case says so, every model is configured.
    """
    ready = files.on_disk().ready
    return run_table(table, ready, lambda given: exact_facts(given, ready, files))


def _problems(cases: tuple[RuleCase, ...], document: Document) -> Iterable[Problem]:
    if not cases:
        yield document.problem((), Code.TOO_SHORT, "the table has no cases")
    # The document is asked, not the case: a `want` that is wrong in itself is still given.
    wanting = {path[0] for path in document.keys if len(path) == 3 and path[1] == "want"}
    for index, case in enumerate(cases):
        given = {name for name in ("want", "want_error") if (index, name) in document.keys}
        if len(given) != 1:
            message = "a case has either `want` or `want_error`"
            yield document.problem((index,), Code.INVALID_VALUE, message)
        elif not document.is_sound((index,)):
            continue
        elif (given == {"want"} and index not in wanting) or case.want_error == "":
            message = "this case wants nothing, so it could not fail"
            hint = "name at least `chosen_model`"
            yield document.problem((index,), Code.TOO_SHORT, message, hint)


def _run_case(
    case: RuleCase, place: str, ready: CompiledTurnPolicy, exact: Exact
) -> RuleCaseResult:
    try:
        facts = exact(case.facts)
    except InputError as error:
        return _case_result(case, place, _compare_error(case, error))
    if case.want is None:
        outcome, _ = decide(ready, facts)
        got = f"decided: {outcome.chosen_model or NO_MODEL}"
        return _case_result(case, place, [("error", case.want_error or "", got)])
    return _case_result(case, place, _compare_decision(case.want, ready, *decide(ready, facts)))


_Comparison = Iterable[tuple[str, str, str]]
"""The compared field, its expected value, and its value."""


def _case_result(case: RuleCase, place: str, found: _Comparison) -> RuleCaseResult:
    differing = [each for each in found if each[1] != each[2]]
    expected = {name: wanted for name, wanted, _ in differing}
    got = {name: value for name, _, value in differing}
    return RuleCaseResult(case.note, place, "failed" if differing else "passed", expected, got)


def _compare_error(case: RuleCase, error: InputError) -> _Comparison:
    wanted = case.want_error
    if wanted is not None and (wanted == error.code or wanted in error.message):
        return []
    return [("error", wanted or "none", f"{error.code}: {error.message}")]


def _compare_decision(
    want: Want, ready: CompiledTurnPolicy, outcome: TurnOutcome, trace: TurnTrace
) -> Iterator[tuple[str, str, str]]:
    """Yield each expected value of a case: its name, the wanted text and the decided text."""
    winner = trace.chain[outcome.winner_index] if outcome.winner_index >= 0 else None
    if want.chosen_model is not None:
        wanted = ready.aliases.get(want.chosen_model) or model_id(want.chosen_model)
        yield "chosen_model", wanted or NO_MODEL, outcome.chosen_model or NO_MODEL
    if want.policy is not None:
        yield "policy", want.policy, winner.policy if winner else "none"
    if want.rule is not None:
        yield "rule", want.rule, (winner.rule_name if winner else None) or "none"
    if want.validation_failure is not None:
        failures = list(dict.fromkeys(_failures(trace.chain)))
        met = want.validation_failure in failures
        got = want.validation_failure if met else ", ".join(failures) or "none"
        yield "validation_failure", want.validation_failure, got
    if want.banners is not None:
        shown = [banner.code for banner in outcome.banners]
        yield "banners", ", ".join(want.banners) or "none", ", ".join(shown) or "none"


def _failures(chain: Iterable[Evaluation]) -> Iterator[str]:
    for each in chain:
        yield from (attempt.validation_failure for attempt in each.rule_attempts)
        if each.validation_failure is not None:
            yield each.validation_failure


def case_text(note: str, example: Example) -> str:
    """Write one case: a turn, and how it is decided."""
    wanted = json.dumps(_want_value(example.winner), ensure_ascii=False)
    note = _flow_text(note or "an example")
    return f"- note: {note}\n  facts: {facts_text(example.facts)}\n  want: {wanted}\n"


def facts_text(facts: GivenFacts) -> str:
    """Write the facts of a turn in one line; those left out are as in any turn."""
    return _flow_text(_given_values(facts))


def _want_value(winner: Winner | None) -> dict[str, str]:
    if winner is None:
        return {"chosen_model": ""}
    rule = {"rule": winner.rule} if winner.rule else {}
    return {"chosen_model": winner.model, "policy": winner.slot, **rule}


def _given_values(given: Struct) -> dict[str, object]:
    """Return the values that differ from the defaults, and the message."""
    plain = GivenFacts("") if isinstance(given, GivenFacts) else None
    values: dict[str, object] = {}
    for name, default in zip(given.__struct_fields__, _defaults(given, plain), strict=True):
        value = getattr(given, name)
        if name == "message" or value != default:
            values[name] = value
    return values


def _defaults(given: Struct, plain: GivenFacts | None) -> Iterable[object]:
    if plain is not None:
        return (getattr(plain, name) for name in plain.__struct_fields__)
    required = len(given.__struct_fields__) - len(given.__struct_defaults__)
    return (*([...] * required), *given.__struct_defaults__)


def _flow_text(value: object) -> str:
    """Write a value as JSON with exact numbers; every YAML reader takes it."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Struct):
        value = _given_values(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)}: {_flow_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow_text, value)) + "]"
    return json.dumps(value)
