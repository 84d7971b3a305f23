"""The decision table of a rule: its rows name models, its input is the turn's facts.

A table comes from `decisions/` and is recorded whole in the policy, with the id of the decision
that it was made from: the same row is found when the turn is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from pointsman.errors import Problem
from pointsman.expressions.checking import Declared
from pointsman.expressions.evaluate import EvaluationScope, Unknown
from pointsman.expressions.expression import Expression, condition, value
from pointsman.expressions.functions import ANY
from pointsman.expressions.syntax import ExpressionRefused, Path
from pointsman.expressions.values import MISSING, Missing, Value, follow_path
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.document import Path as Place
from pointsman.turns.registry.models import meant, model_id
from pointsman.turns.rules.condition import FactsView
from pointsman.turns.rules.fact_expression import (
    FACT_KINDS,
    fact_values,
    names_read,
    reason_text,
)
from pointsman.turns.trace import TableHit

HitWay = Literal["first", "unique", "any", "lowest"]
"""Which of the rows that match counts: the first, the only one, any where they agree, or the one
with the lowest rank."""

NEXT_RULE: Final = "next_rule"
"""The target by which a table passes its rule over."""

NO_ROW: Final = "no row matched"
SEVERAL: Final = "several rows matched"
DIFFERENT: Final = "the rows that matched differ"


class OfferedRow(Struct, frozen=True):
    """A row of a table that routing may use; under `any`, rows of one rank agree."""

    label: str
    when: str
    target: str
    rank: int = 0


class OfferedTable(Struct, frozen=True):
    """A decision as routing may use it, or the reason why it may not."""

    decision: str
    definition: str
    input: str
    hit: HitWay
    rows: tuple[OfferedRow, ...]
    default: str
    refusal: str = ""


class TableRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One row; without a model it passes the rule over."""

    label: str
    when: str
    model: str | None
    rank: int


class RoutingTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table of a rule; `definition` is the content id of its decision."""

    decision: str
    definition: str
    input: str
    hit: HitWay
    rows: tuple[TableRow, ...]
    default: str | None

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that it may choose, each once."""
        named = (*(row.model for row in self.rows), self.default)
        return tuple(dict.fromkeys(each for each in named if each is not None))

    @property
    def is_total(self) -> bool:
        """Whether it chooses a model for every turn."""
        return None not in (*(row.model for row in self.rows), self.default)

    @property
    def order(self) -> list[int]:
        """The rows in the order in which they count."""
        rows = range(len(self.rows))
        return sorted(rows, key=lambda n: self.rows[n].rank) if self.hit == "lowest" else [*rows]


class TableConditions:
    """The input and the conditions of a table, read and compiled."""

    def __init__(self, input_text: str, conditions: Sequence[str]) -> None:
        given = value(input_text, FACT_KINDS)
        self.input: Expression | None = None
        if isinstance(given.tree, Path):
            keys = FACT_KINDS.resolve(given.tree.keys, has_input=False) or ()
            self.declared = Declared(FACT_KINDS.kinds, keys, FACT_KINDS.of(keys) or ANY)
        else:
            self.input = given.compile()
            self.declared = Declared(FACT_KINDS.kinds, None, given.kinds)
        self.rows = tuple(condition(each, self.declared).compile() for each in conditions)
        every = [names_read(each, self.declared) for each in self.rows]
        every += [] if self.input is None else [names_read(self.input)]
        self.names = tuple(dict.fromkeys(name for names in every for name in names))
        """The facts that it reads."""

    def scope(self, look: FactsView, model: str) -> EvaluationScope:
        """Return what the rows look at."""
        facts = fact_values(self.names, look, model)
        keys = self.declared.input_keys
        given: Value | Missing = facts if keys == () else MISSING
        if keys:
            given = follow_path(facts, keys)
        elif self.input is not None:
            answer = self.input.answer(EvaluationScope(facts))
            given = MISSING if isinstance(answer.value, Unknown) else answer.value
        return EvaluationScope(facts, given)


class TableChooser:
    """Chooses the row of a turn."""

    def __init__(self, table: RoutingTable) -> None:
        self.table = table
        self.conditions = TableConditions(table.input, [row.when for row in table.rows])

    def choose(self, look: FactsView, model: str) -> tuple[str | None, TableHit]:
        """Return the model of a turn, None where the rule is passed over, and the row."""
        scope = self.conditions.scope(look, model)
        hits: list[int] = []
        unknown: list[str] = []
        for number in self.table.order:
            answer = self.conditions.rows[number].answer(scope)
            if not answer.is_known:
                unknown.append(f"row {number + 1} has no answer: {reason_text(answer)}")
            elif answer.value is True:
                hits.append(number)
                if self.table.hit in {"first", "lowest"}:
                    break
        return self._pick(hits, unknown)

    def _pick(self, hits: list[int], unknown: list[str]) -> tuple[str | None, TableHit]:
        table, reason = self.table, NO_ROW
        if len(hits) > 1 and table.hit == "unique":
            hits, reason = [], SEVERAL
        elif len({table.rows[each].rank for each in hits}) > 1 and table.hit == "any":
            hits, reason = [], DIFFERENT
        reason = "; ".join((reason, *unknown)) if not hits else ""
        if not hits:
            return table.default, TableHit(table.decision, None, "default", reason)
        row = table.rows[hits[0]]
        return row.model, TableHit(table.decision, hits[0], row.label, reason)


def hit_text(hit: TableHit) -> str:
    """Say which row of a table took a turn."""
    if hit.row is None:
        return f"the default of table {hit.decision}: {hit.reason}"
    return f"row {hit.row + 1} ({hit.label}) of table {hit.decision}"


def passed_text(hit: TableHit) -> str:
    """Say why a table passes its rule over."""
    return f"{hit_text(hit)}, passes to the next rule"


def rule_table(offered: OfferedTable, aliases: Mapping[str, str]) -> RoutingTable:
    """Return the exact form of a table whose targets are known."""

    def model(target: str) -> str | None:
        return None if target == NEXT_RULE else aliases[model_id(target)]

    rows = tuple(TableRow(e.label, e.when, model(e.target), e.rank) for e in offered.rows)
    return RoutingTable(
        offered.decision, offered.definition, offered.input, offered.hit, rows,
        model(offered.default),
    )  # fmt: skip


def problems(
    name: str,
    tables: Mapping[str, OfferedTable],
    aliases: Mapping[str, str],
    document: Document,
    path: Place,
) -> Iterable[Problem]:
    """List the problems of the table that a rule names."""
    offered = tables.get(name)
    if offered is None:
        message = f"`{name}` is no decision of decisions/"
        hint = meant(name, tables) or f"known: {', '.join([*tables][:8]) or 'none'}"
        yield document.problem(path, Code.UNKNOWN_VALUE, message, hint)
        return
    for message, hint in _refusals(offered, aliases):
        yield document.problem(path, Code.INVALID_VALUE, f"decision `{name}`: {message}", hint)


def _refusals(offered: OfferedTable, aliases: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if offered.refusal:
        yield offered.refusal, ""
        return
    targets = {"default": offered.default}
    targets |= {f"row {n}": each.target for n, each in enumerate(offered.rows, 1)}
    for place, target in targets.items():
        if target != NEXT_RULE and model_id(target) not in aliases:
            message = f"{place}: `{target}` is neither a model of models.yaml nor an alias of one"
            yield message, meant(target, aliases) or f"or `{NEXT_RULE}`"
    if all(each == NEXT_RULE for each in targets.values()):
        yield "it names no model", ""
    try:
        TableConditions(offered.input, ())
    except ExpressionRefused as refusal:
        yield f"input: {refusal.message}", refusal.hint
        return
    for number, row in enumerate(offered.rows, 1):
        try:
            TableConditions(offered.input, (row.when,))
        except ExpressionRefused as refusal:
            yield f"row {number}: {refusal.message}", refusal.hint


def table_facts(table: RoutingTable | UnsetType) -> tuple[str, ...]:
    """Return the facts that the table of a rule reads."""
    if table is UNSET:
        return ()
    return TableConditions(table.input, [row.when for row in table.rows]).names
