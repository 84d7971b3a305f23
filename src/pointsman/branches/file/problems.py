"""Problems of decision files that their schema cannot state, each at its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise

from msgspec import UnsetType
from msgspec.structs import replace

from pointsman.branches.file.decisions_file import (
    WHOLE_CONTEXT,
    DecisionsFile,
    GivenCase,
    GivenDecision,
    GivenGuardrail,
    variable_keys,
)
from pointsman.errors import NumberError, Problem, ValueRefused
from pointsman.expressions.checking import Declared, check_condition, value_kinds
from pointsman.expressions.expression import value
from pointsman.expressions.functions import ANY, Kinds
from pointsman.expressions.grammar import parse_expression
from pointsman.expressions.syntax import ExpressionRefused, Path
from pointsman.expressions.values import Value, same
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, escape
from pointsman.kernel.document import Path as Place
from pointsman.kernel.nearest import nearest
from pointsman.kernel.wb1 import whole_weights

_ONLY_TABLE = ("hit_policy", "aggregate", "output_values")
_ONLY_WEIGHTED = ("salt", "slots")
_ORDERED = frozenset({"output_order", "output_priority"})
_GUARDRAIL_KEYS = {
    "no_disabled_targets": {"disabled_stages"},
    "weight_bounds": {"min_weight", "max_weight"},
    "requires_approval": {"targets"},
    "known_targets": {"targets"},
}


def declare_variables(given: GivenDecision) -> Declared:
    """Return the variables a decision declares, and the kinds of its input in conditions."""
    kinds: dict[tuple[str | int, ...], Kinds] = {}
    for path, says in (given.variables or {}).items():
        keys = variable_keys(path, given.input)
        if keys:
            kinds[keys] = (says,) if isinstance(says, str) else _kinds_of(says)
    before = Declared(kinds)
    tree = value(given.input or WHOLE_CONTEXT, before).tree
    if not isinstance(tree, Path):
        found = value(given.input or WHOLE_CONTEXT, before)
        return Declared(kinds, None, found.kinds)
    keys = before.resolve(tree.keys, has_input=False) or ()
    return Declared(kinds, keys, before.of(keys) or ANY)


def _kinds_of(members: Sequence[object]) -> Kinds:
    found = {kind for each in members for kind in value_kinds(each)}  # type: ignore[arg-type] # what a document holds
    return tuple(kind for kind in ANY if kind in found)


def file_problems(
    file: DecisionsFile,
    document: Document,
    *,
    targets: Sequence[str] | None,
    taken: Sequence[str],
) -> Iterable[Problem]:
    """Find the problems of one file; `read_policy` says what `targets` and `taken` are."""
    # The document is asked, not the file: a decision that is wrong in itself is still given.
    if (("decision",) in document.keys) == (("decisions",) in document.keys):
        message = "a file has either `decision` or `decisions`"
        yield document.problem((), Code.MISSING_KEY, message)
    known = file.targets if file.targets is not None else targets
    seen = set(taken)
    for index, given in enumerate(file.every):
        at: Place = ("decision",) if not file.decisions else ("decisions", index)
        if given.id in seen:
            message = f"the id `{escape(given.id)}` is taken by another decision"
            yield document.problem((*at, "id"), Code.DUPLICATE_KEY, message)
        seen.add(given.id)
        yield from _Check(given, document, at, known).problems()


class _Check:
    """The checks of one decision."""

    def __init__(
        self, given: GivenDecision, document: Document, at: Place, known: Sequence[str] | None
    ) -> None:
        self._given = given
        self._document = document
        self._at = at
        self._known = known
        self._rows_at: Place = (*at, given.rows_key)

    def problems(self) -> Iterator[Problem]:
        """Yield every problem of the decision."""
        yield from self._form_problems()
        if not any(char in "123456789" for char in self._given.cache.ttl):
            at = (*self._at, "cache", "ttl")
            yield self._problem(at, "a `ttl` of nothing keeps no answer", "write `enabled: false`")
        yield from self._target_problems()
        yield from self._expression_problems()
        if self._given.type == "weighted":
            yield from self._weight_problems()
        if self._given.type == "rule_table":
            yield from self._output_problems()
        for index, each in enumerate(self._given.guardrails):
            yield from self._guardrail_problems(each, (*self._at, "guardrails", index))

    def _form_problems(self) -> Iterator[Problem]:
        given = self._given
        has_rules = given.rows_key == "rules"
        if has_rules and given.type != "rule_table":
            yield self._problem((*self._at, "rules"), "`rules` belong to a rule table", "`cases`")
        if has_rules and not isinstance(given.cases, UnsetType):
            yield self._problem((*self._at, "rules"), "a table has either `cases` or `rules`")
        if not given.rows:
            message = "a decision needs at least one case"
            yield self._document.problem(self._at, Code.TOO_SHORT, message)
        if given.type == "binary" and len(given.rows) > 2:
            message = f"a binary decision has one or two cases, got {len(given.rows)}"
            hint = "use the type `switch`"
            yield self._document.problem(self._rows_at, Code.TOO_LONG, message, hint)
        yield from self._stray_keys()

    def _stray_keys(self) -> Iterator[Problem]:
        given = self._given
        if given.type != "rule_table":
            yield from self._stray(given, self._at, _ONLY_TABLE, "a rule table")
        if given.type != "weighted":
            yield from self._stray(given, self._at, _ONLY_WEIGHTED, "a weighted decision")
        for index, row in enumerate(given.rows):
            at = (*self._rows_at, index)
            if given.type != "weighted":
                yield from self._stray(row, at, ("weight", "ranges"), "a weighted decision")
            if given.type != "rule_table":
                yield from self._stray(row, at, ("priority", "output"), "a rule table")

    def _stray(
        self, given: object, at: Place, names: Sequence[str], where: str
    ) -> Iterator[Problem]:
        for name in names:
            if getattr(given, name) is not None:
                message = f"`{name}` belongs to {where}"
                path = (*at, name)
                yield self._document.problem(path, Code.UNKNOWN_KEY, message, key=True)

    def _target_problems(self) -> Iterator[Problem]:
        given = self._given
        named = [((*self._at, "default", "target"), given.default.target)]
        named += [
            ((*self._rows_at, index, "target"), row.target) for index, row in enumerate(given.rows)
        ]
        named += [
            ((*self._at, "guardrails", index, "escalation_target"), each.escalation_target)
            for index, each in enumerate(given.guardrails)
            if each.escalation_target is not None
        ]
        for path, target in named if self._known is not None else ():
            if target not in (self._known or ()):
                near = nearest(target, self._known or ())
                hint = f"did you mean `{near}`?" if near else ""
                message = f"`{escape(target)}` is not a known target"
                yield self._document.problem(path, Code.UNKNOWN_VALUE, message, hint)

    def _expression_problems(self) -> Iterator[Problem]:
        given = self._given
        variables = list(self._variable_problems())
        yield from variables
        try:
            # Variables that cannot be read take no part in the check of the conditions.
            names = declare_variables(replace(given, variables=None) if variables else given)
        except ExpressionRefused as refusal:
            # Without its input and variables nothing can be said about the conditions' kinds.
            yield self._expression_problem((*self._at, "input"), refusal)
            names = Declared()
        if given.type == "weighted" and given.input is None:
            message = "a weighted decision needs an `input` that names its unit"
            yield self._document.problem(self._at, Code.MISSING_KEY, message, "add `input`")
        for index, row in enumerate(given.rows):
            yield from self._condition_problems(row, (*self._rows_at, index, "condition"), names)

    def _condition_problems(self, row: GivenCase, at: Place, names: Declared) -> Iterator[Problem]:
        if self._given.type == "weighted":
            if row.condition.strip():
                yield self._problem(at, "a weighted case has no condition", "leave it empty")
        elif not row.condition.strip():
            hint = "write `true` for a case that always holds"
            message = "this case has no condition"
            yield self._document.problem(at, Code.MISSING_KEY, message, hint)
        else:
            try:
                check_condition(parse_expression(row.condition), row.condition, names)
            except ExpressionRefused as refusal:
                yield self._expression_problem(at, refusal)

    def _variable_problems(self) -> Iterator[Problem]:
        for path, says in (self._given.variables or {}).items():
            at = (*self._at, "variables", path)
            try:
                keys = variable_keys(path, self._given.input)
            except ExpressionRefused:
                keys = None
            if not keys:
                message = f"`{escape(path)}` does not name a value of the context"
                yield self._document.problem(at, Code.INVALID_VALUE, message, key=True)
            if not isinstance(says, str):
                yield from self._exact_problems(says, at)

    def _exact_problems(self, members: Sequence[object], at: Place) -> Iterator[Problem]:
        if not members:
            yield self._document.problem(at, Code.TOO_SHORT, "a list of values cannot be empty")
        for index, each in enumerate(members):
            if isinstance(each, list | dict):
                yield self._problem((*at, index), "a variable's values are scalars")

    def _weight_problems(self) -> Iterator[Problem]:
        rows = self._given.rows
        if any(row.ranges is not None for row in rows) or self._given.slots is not None:
            yield from self._range_problems()
            return
        for index, row in enumerate(rows):
            is_given = (*self._rows_at, index, "weight") in self._document.keys
            if row.weight is None and not is_given:
                path = (*self._rows_at, index)
                message = "a weighted case needs a `weight`"
                yield self._document.problem(path, Code.MISSING_KEY, message, "add `weight`")
        try:
            whole_weights([row.weight or Decimal(0) for row in rows])
        except NumberError as error:
            yield self._document.problem(self._rows_at, Code.OUT_OF_RANGE, error.message)

    def _range_problems(self) -> Iterator[Problem]:
        slots = self._given.slots
        if slots is None or slots == 0:
            message = "`ranges` need `slots`, how many there are"
            yield self._document.problem(self._at, Code.MISSING_KEY, message, "add `slots: 100`")
        found: list[tuple[int, int, Place]] = []
        for index, row in enumerate(self._given.rows):
            at = (*self._rows_at, index)
            if row.weight is not None or row.ranges is None:
                message = "with `slots`, every case has `ranges` and none has a `weight`"
                yield self._problem(at, message)
            for number, (start, end) in enumerate(row.ranges or ()):
                place = (*at, "ranges", number)
                if start >= end or end > (slots or end):
                    message = f"a range is from a slot up to, but without, a later one of {slots}"
                    yield self._document.problem(place, Code.OUT_OF_RANGE, message)
                found.append((start, end, place))
        yield from self._overlaps(sorted(found, key=lambda each: each[:2]))

    def _overlaps(self, ranges: list[tuple[int, int, Place]]) -> Iterator[Problem]:
        for before, after in pairwise(ranges):
            if after[0] < before[1]:
                message = f"slot {after[0]} belongs to another range already"
                yield self._problem(after[2], message)

    def _output_problems(self) -> Iterator[Problem]:
        given = self._given
        policy, aggregate = given.hit_policy or "first", given.aggregate
        if aggregate is not None and policy != "collect":
            message = "`aggregate` belongs to the hit policy `collect`"
            yield self._problem((*self._at, "aggregate"), message)
        if policy in _ORDERED and not given.output_values:
            message = f"`{policy}` needs `output_values`, from the most important down"
            yield self._document.problem(self._at, Code.MISSING_KEY, message)
        for index, row in enumerate(given.rows):
            at = (*self._rows_at, index)
            output = output_of(row)
            if aggregate in {"sum", "min", "max"} and not _is_number(output):
                yield self._problem(at, f"`{aggregate}` needs a number as `output`")
            yield from self._exact(output, (*at, "output"))
            if policy in _ORDERED and not _is_listed(output, given.output_values or ()):
                yield self._problem(at, "the output is not among the `output_values`")

    def _exact(self, output: Value, at: Place) -> Iterator[Problem]:
        try:
            canonical_json(output)
        except ValueRefused as error:
            yield self._problem(at, error.message)

    def _guardrail_problems(self, given: GivenGuardrail, at: Place) -> Iterator[Problem]:
        allowed = _GUARDRAIL_KEYS[given.type]
        for name in ("disabled_stages", "min_weight", "max_weight", "targets"):
            if name not in allowed and getattr(given, name) is not None:
                message = f"`{name}` means nothing to `{given.type}`"
                path = (*at, name)
                yield self._document.problem(path, Code.UNKNOWN_KEY, message, key=True)
        if all(getattr(given, name) is None for name in sorted(allowed)):
            is_known = given.type == "known_targets" and self._known is not None
            if not is_known:
                message = f"`{given.type}` needs {' or '.join(f'`{n}`' for n in sorted(allowed))}"
                yield self._document.problem(at, Code.MISSING_KEY, message)
        if given.type == "weight_bounds" and self._given.type != "weighted":
            yield self._problem(at, "`weight_bounds` belongs to a weighted decision")
        if given.action_on_fail == "escalate" and given.escalation_target is None:
            message = "`escalate` needs an `escalation_target`"
            yield self._document.problem(at, Code.MISSING_KEY, message)

    def _problem(self, path: Place, message: str, hint: str = "") -> Problem:
        return self._document.problem(path, Code.INVALID_VALUE, message, hint)

    def _expression_problem(self, path: Place, refusal: ExpressionRefused) -> Problem:
        message = f"column {refusal.column}: {refusal.message}"
        return self._problem(path, message, refusal.hint)


def output_of(row: GivenCase) -> Value:
    """Return a rule's output; without one it is its target."""
    return row.target if row.output is None else row.output  # type: ignore[return-value] # what a document holds


def _is_number(output: Value) -> bool:
    return isinstance(output, int | Decimal) and not isinstance(output, bool)


def _is_listed(output: Value, ordered: Sequence[object]) -> bool:
    return any(same(output, each) for each in ordered)
