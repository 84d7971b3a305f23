"""The closed set of predicates of document 002 §5.3: as written, as recorded, and as tests.

A `When` is what `routing.yaml` says. A `Condition` is the same, exact and canonical. `ready` turns
it into a function that always gives true or false and never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec import UNSET, Struct, UnsetType, field

from pointsman.errors import MissingSnapshot, Problem
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.kernel.codes import Code
from pointsman.kernel.columns import ascii_lower
from pointsman.kernel.document import Document, Path
from pointsman.kernel.literal import ClockTime, Count, Usd
from pointsman.kernel.number import MicroUsd, microusd
from pointsman.kernel.regex import refusal
from pointsman.turns.facts import CallerFacts, SplitUnits, TurnFacts, minutes
from pointsman.turns.rules.fact_expression import FactExpression, fact_expression, reason_text
from pointsman.turns.rules.text_patterns import TextPatterns, literal_pattern


class Patterns(Struct, frozen=True):
    """The patterns of a policy: those for messages and those for workspace paths.

    `tenant_budgets` names the budgets that each tenant has of its own.
    """

    message: TextPatterns
    path: TextPatterns
    tenant_budgets: frozenset[str] = frozenset()


class FactsView:
    """The facts of a turn, and the patterns that match them, found when first asked."""

    __slots__ = ("_hits", "_path_hits", "_patterns", "facts", "unanswered")

    def __init__(self, facts: TurnFacts, patterns: Patterns) -> None:
        self.facts = facts
        self.unanswered: list[str] = []
        """Why expressions that were asked have no answer."""
        self._patterns = patterns
        self._hits: frozenset[int] | None = None
        self._path_hits: frozenset[int] | None = None

    @property
    def hits(self) -> frozenset[int]:
        """The numbers of the patterns that match the message."""
        if self._hits is None:
            self._hits = self._patterns.message.hits(self.message)
        return self._hits

    @property
    def message(self) -> str:
        """The message's text."""
        text = self.facts.message
        if not isinstance(text, str):
            raise MissingSnapshot("a rule reads the message, and its text is not kept")
        return text

    @property
    def path_hits(self) -> frozenset[int]:
        """The numbers of the patterns that match the workspace's path; none without a path."""
        if self._path_hits is None:
            path = self.facts.workspace_path
            self._path_hits = frozenset() if path is None else self._patterns.path.hits(path)
        return self._path_hits

    @property
    def team_left(self) -> MicroUsd | None:
        """What the tightest of the budgets for each tenant allows; None where there is none."""
        names = self._patterns.tenant_budgets
        left = (each.left_microusd for each in self.facts.budgets if each.name in names)
        return min(left, default=None)

    @property
    def caller(self) -> CallerFacts:
        """The sender of the turn."""
        return _require(self.facts.caller, "a rule asks who calls")

    @property
    def split_units(self) -> SplitUnits:
        """The names by which the turn falls into the slots of a split."""
        return _require(self.facts.split_units, "a rule has a split")

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools the turn defines."""
        return _require(self.facts.tool_names, "a rule asks for the names of tools")


T = TypeVar("T")
Words = str | tuple[str, ...]


class When(Struct, frozen=True, forbid_unknown_fields=True):
    """What a rule asks, as it is written. Several keys mean that all must hold.

    No predicate takes `null`: a rule that asks nothing matches every turn.
    """

    message_matches: str | UnsetType = UNSET
    message_contains_any: Words | UnsetType = UNSET
    estimated_input_tokens_gt: Count | UnsetType = UNSET
    estimated_input_tokens_lt: Count | UnsetType = UNSET
    has_images: bool | UnsetType = UNSET
    has_tool_calls_in_history: bool | UnsetType = UNSET
    skills_matching_message_includes: Words | UnsetType = UNSET
    file_extensions_in_context: Words | UnsetType = UNSET
    workspace_path_matches: str | UnsetType = UNSET
    time_of_day_between: tuple[ClockTime, ClockTime] | UnsetType = UNSET
    cost_today_exceeds_usd: Usd | UnsetType = UNSET
    team_budget_remaining_lt: Usd | UnsetType = UNSET
    key_is: Words | UnsetType = UNSET
    tenant_is: Words | UnsetType = UNSET
    agent_is: Words | UnsetType = UNSET
    tool_names_include: Words | UnsetType = UNSET
    expr: str | UnsetType = UNSET
    zone_is: Words | UnsetType = UNSET
    label_includes: Words | UnsetType = UNSET
    any_of: tuple[When, ...] | UnsetType = UNSET
    all_of: tuple[When, ...] | UnsetType = UNSET
    not_: When | UnsetType = field(default=UNSET, name="not")


class TimeWindow(Struct, frozen=True, forbid_unknown_fields=True):
    """Minutes since midnight: from the start on, up to but without the end."""

    start: int
    end: int


class Condition(Struct, frozen=True, forbid_unknown_fields=True):
    """What a rule asks, exactly, as policies record it.

    The fields with `UNSET` are younger than the first policies, which keep their bytes.
    """

    message_matches: str | None = None
    message_contains_any: tuple[str, ...] | None = None
    estimated_input_tokens_gt: int | None = None
    estimated_input_tokens_lt: int | None = None
    has_images: bool | None = None
    has_tool_calls_in_history: bool | None = None
    skills_matching_message_includes: tuple[str, ...] | None = None
    file_extensions_in_context: tuple[str, ...] | None = None
    workspace_path_matches: str | None = None
    time_of_day_between: TimeWindow | None = None
    cost_today_exceeds_microusd: MicroUsd | None = None
    any_of: tuple[Condition, ...] | None = None
    all_of: tuple[Condition, ...] | None = None
    not_: Condition | None = field(default=None, name="not")
    team_budget_remaining_lt_microusd: MicroUsd | UnsetType = UNSET
    key_is: tuple[str, ...] | UnsetType = UNSET
    tenant_is: tuple[str, ...] | UnsetType = UNSET
    agent_is: tuple[str, ...] | UnsetType = UNSET
    tool_names_include: tuple[str, ...] | UnsetType = UNSET
    expr: str | UnsetType = UNSET
    """An expression over the facts, as it is written."""
    zone_is: tuple[str, ...] | UnsetType = UNSET
    label_includes: tuple[str, ...] | UnsetType = UNSET


TREES = ("any_of", "all_of", "not_")
"""The fields of a condition that hold conditions."""

Test = Callable[[FactsView], bool]


def condition(when: When) -> Condition:
    """Return the exact form of a rule's condition."""
    window, cost = _or_none(when.time_of_day_between), _or_none(when.cost_today_exceeds_usd)
    extensions = _words(when.file_extensions_in_context)
    any_of, all_of, inner = _or_none(when.any_of), _or_none(when.all_of), _or_none(when.not_)
    team, agents = when.team_budget_remaining_lt, _set_words(when.agent_is)
    return Condition(
        message_matches=_or_none(when.message_matches),
        message_contains_any=_words(when.message_contains_any),
        estimated_input_tokens_gt=_or_none(when.estimated_input_tokens_gt),
        estimated_input_tokens_lt=_or_none(when.estimated_input_tokens_lt),
        has_images=_or_none(when.has_images),
        has_tool_calls_in_history=_or_none(when.has_tool_calls_in_history),
        skills_matching_message_includes=_words(when.skills_matching_message_includes),
        file_extensions_in_context=extensions and tuple(map(ascii_lower, extensions)),
        workspace_path_matches=_or_none(when.workspace_path_matches),
        time_of_day_between=window and TimeWindow(minutes(window[0]), minutes(window[1])),
        cost_today_exceeds_microusd=None if cost is None else microusd(f"{cost:f}"),
        any_of=None if any_of is None else tuple(map(condition, any_of)),
        all_of=None if all_of is None else tuple(map(condition, all_of)),
        not_=None if inner is None else condition(inner),
        team_budget_remaining_lt_microusd=UNSET if team is UNSET else microusd(f"{team:f}"),
        key_is=_set_words(when.key_is),
        tenant_is=_set_words(when.tenant_is),
        agent_is=UNSET if agents is UNSET else tuple(map(ascii_lower, agents)),
        tool_names_include=_set_words(when.tool_names_include),
        expr=when.expr if when.expr is UNSET else when.expr.strip(),
        zone_is=_set_words(when.zone_is),
        label_includes=_set_words(when.label_includes),
    )


def set_fields(asked: Condition) -> Iterator[str]:
    """Yield the fields that a condition has, those that hold conditions included."""
    for name in asked.__struct_fields__:
        value = getattr(asked, name)
        if value is not None and value is not UNSET:
            yield name


def predicates(asked: Condition) -> frozenset[str]:
    """Return the fields that a condition or one inside of it has."""
    inner = (*(asked.any_of or ()), *(asked.all_of or ()), *((asked.not_,) if asked.not_ else ()))
    return frozenset(set_fields(asked)).union(*map(predicates, inner))


def written_zones(when: When) -> Iterator[tuple[Path, str]]:
    """Yield every zone that a condition asks for, with its place in it."""
    for zone in _words(when.zone_is) or ():
        yield ("zone_is",), zone
    for name in ("any_of", "all_of"):
        for index, inner in enumerate(getattr(when, name) or ()):
            yield from (((name, index, *at), zone) for at, zone in written_zones(inner))
    if not isinstance(when.not_, UnsetType):
        yield from ((("not", *at), zone) for at, zone in written_zones(when.not_))


def asked_zones(asked: Condition) -> Iterator[str]:
    """Yield the zones that a condition asks about."""
    yield from () if asked.zone_is is UNSET else asked.zone_is
    denied = () if asked.not_ is None else (asked.not_,)
    for inner in (*(asked.any_of or ()), *(asked.all_of or ()), *denied):
        yield from asked_zones(inner)


def message_patterns(asked: Condition) -> Iterator[str]:
    """Yield every pattern and word that a condition looks for in the message's text."""
    if asked.message_matches is not None:
        yield asked.message_matches
    yield from asked.message_contains_any or ()
    negated = () if asked.not_ is None else (asked.not_,)
    for inner in (*(asked.any_of or ()), *(asked.all_of or ()), *negated):
        yield from message_patterns(inner)


def expressions(asked: Condition) -> Iterator[str]:
    """Yield the expressions of a condition and those inside of it."""
    if asked.expr is not UNSET:
        yield asked.expr
    negated = () if asked.not_ is None else (asked.not_,)
    for inner in (*(asked.any_of or ()), *(asked.all_of or ()), *negated):
        yield from expressions(inner)


def ready(asked: Condition, use: str, patterns: Patterns, *, takes_unknown: bool = False) -> Test:
    """Return a condition as a function; `use` is the model whose token estimate counts.

    An expression without an answer does not hold, but for inside of a `not`, where it does: so the
    condition as a whole holds only where it does for certain. `takes_unknown` asks the other way,
    whether the condition could hold.
    """
    facts = _fact_tests(asked, use, patterns.tenant_budgets)
    tests = [*_text_tests(asked, patterns), *facts]
    if asked.expr is not UNSET:
        tests.append(
            _expression_test(fact_expression(asked.expr), use, takes_unknown=takes_unknown)
        )
    return _every([*tests, *_trees(asked, use, patterns, takes_unknown=takes_unknown)])


def _expression_test(expression: FactExpression, use: str, *, takes_unknown: bool) -> Test:
    def test(look: FactsView) -> bool:
        answer = expression.answer(look, use)
        if answer.is_known:
            return answer.value is True
        look.unanswered.append(reason_text(answer))
        return takes_unknown

    return test


def needed_patterns(asked: Condition, patterns: Patterns) -> frozenset[int] | None:
    """Return message patterns of which one must match for the condition to hold, if any must."""
    if asked.message_matches is not None:
        return frozenset((patterns.message.number(asked.message_matches),))
    if asked.message_contains_any is not None:
        pattern = literal_pattern(asked.message_contains_any)
        return frozenset((patterns.message.number(pattern),))
    for inner in asked.all_of or ():
        found = needed_patterns(inner, patterns)
        if found is not None:
            return found
    either = [needed_patterns(inner, patterns) for inner in asked.any_of or ()]
    sure = [each for each in either if each is not None]
    return frozenset().union(*sure) if either and len(sure) == len(either) else None


def problems(when: When, document: Document, path: Path) -> Iterable[Problem]:
    """List what a schema cannot say about a condition: patterns, empty lists."""
    for name in ("message_matches", "workspace_path_matches"):
        pattern = getattr(when, name)
        reason = "" if pattern is UNSET else refusal(pattern)
        if reason:
            message = f"the pattern `{pattern}` is refused: {reason}"
            yield document.problem((*path, name), Code.PATTERN, message)
    yield from _list_problems(when, document, path)
    if when.expr is not UNSET:
        try:
            fact_expression(when.expr.strip())
        except ExpressionRefused as refusal_:
            message = f"column {refusal_.column}: {refusal_.message}"
            yield document.problem((*path, "expr"), Code.INVALID_VALUE, message, refusal_.hint)
    for name in ("any_of", "all_of"):
        for index, inner in enumerate(getattr(when, name) or ()):
            yield from problems(inner, document, (*path, name, index))
    if not isinstance(when.not_, UnsetType):
        yield from problems(when.not_, document, (*path, "not"))


def _list_problems(when: When, document: Document, path: Path) -> Iterable[Problem]:
    for name in (
        "any_of", "all_of", "message_contains_any", "skills_matching_message_includes",
        "file_extensions_in_context", "key_is", "tenant_is", "agent_is", "tool_names_include",
        "zone_is", "label_includes",
    ):  # fmt: skip
        value = getattr(when, name)
        members = (value,) if isinstance(value, str) else value
        if members is not UNSET and (len(members) == 0 or "" in members):
            message = f"`{name}` needs at least one member, and none that is empty"
            yield document.problem((*path, name), Code.TOO_SHORT, message)


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _words(value: Words | UnsetType) -> tuple[str, ...] | None:
    return (value,) if isinstance(value, str) else _or_none(value)


def _set_words(value: Words | UnsetType) -> tuple[str, ...] | UnsetType:
    return (value,) if isinstance(value, str) else value


def _require(fact: T | UnsetType, why: str) -> T:
    """Return a fact that is gathered only where a rule asks for it."""
    if isinstance(fact, UnsetType):
        raise MissingSnapshot(f"{why}, and that was not recorded")
    return fact


def _text_tests(asked: Condition, patterns: Patterns) -> Iterable[Test]:
    if asked.message_matches is not None:
        yield _matches(patterns.message.number(asked.message_matches))
    if asked.message_contains_any is not None:
        yield _matches(patterns.message.number(literal_pattern(asked.message_contains_any)))
    if asked.workspace_path_matches is not None:
        yield _path_matches(patterns.path.number(asked.workspace_path_matches))


def _matches(number: int) -> Test:
    return lambda look: number in look.hits


def _path_matches(number: int) -> Test:
    return lambda look: number in look.path_hits


def _fact_tests(asked: Condition, use: str, budgets: frozenset[str]) -> Iterable[Test]:
    yield from _token_tests(asked, use)
    yield from _flag_tests(asked)
    yield from _list_tests(asked)
    yield from _caller_tests(asked)
    if asked.time_of_day_between is not None:
        yield _time_test(asked.time_of_day_between)
    if asked.cost_today_exceeds_microusd is not None:
        yield _cost_test(asked.cost_today_exceeds_microusd)
    if asked.team_budget_remaining_lt_microusd is not UNSET:
        yield _team_test(asked.team_budget_remaining_lt_microusd, budgets)


def _token_tests(asked: Condition, use: str) -> Iterable[Test]:
    above, below = asked.estimated_input_tokens_gt, asked.estimated_input_tokens_lt
    if above is not None:
        yield lambda look: look.facts.tokens_for(use) > above
    if below is not None:
        yield lambda look: look.facts.tokens_for(use) < below


def _flag_tests(asked: Condition) -> Iterable[Test]:
    images, calls = asked.has_images, asked.has_tool_calls_in_history
    if images is not None:
        yield lambda look: look.facts.has_images is images
    if calls is not None:
        yield lambda look: look.facts.has_tool_calls_in_history is calls


def _list_tests(asked: Condition) -> Iterable[Test]:
    skills, extensions = asked.skills_matching_message_includes, asked.file_extensions_in_context
    if skills is not None:
        wanted = frozenset(skills)
        yield lambda look: not wanted.isdisjoint(look.facts.skills_matching_message)
    if extensions is not None:
        endings = frozenset(extensions)
        yield lambda look: not endings.isdisjoint(look.facts.file_extensions_in_context)
    if asked.tool_names_include is not UNSET:
        tools = frozenset(asked.tool_names_include)
        yield lambda look: not tools.isdisjoint(look.tool_names)
    if asked.zone_is is not UNSET:
        zones = frozenset(asked.zone_is)
        yield lambda look: not zones.isdisjoint(look.facts.zones)
    if asked.label_includes is not UNSET:
        labels = frozenset(asked.label_includes)
        yield lambda look: not labels.isdisjoint(look.facts.labels)


def _caller_tests(asked: Condition) -> Iterable[Test]:
    keys, tenants, agents = asked.key_is, asked.tenant_is, asked.agent_is
    if keys is not UNSET:
        yield lambda look: look.caller.key_id in keys or look.caller.key_name in keys
    if tenants is not UNSET:
        yield lambda look: look.caller.tenant in tenants
    if agents is not UNSET:
        yield lambda look: look.caller.agent in agents


def _time_test(window: TimeWindow) -> Test:
    if window.start == window.end:
        return lambda _look: True
    if window.start < window.end:
        return lambda look: window.start <= look.facts.local_minutes < window.end
    return lambda look: not window.end <= look.facts.local_minutes < window.start


def _cost_test(limit: MicroUsd) -> Test:
    return lambda look: look.facts.cost_today_microusd > limit


def _team_test(limit: MicroUsd, budgets: frozenset[str]) -> Test:
    return lambda look: any(
        each.left_microusd < limit for each in look.facts.budgets if each.name in budgets
    )


def _trees(
    asked: Condition, use: str, patterns: Patterns, *, takes_unknown: bool
) -> Iterable[Test]:
    if asked.any_of is not None:
        some = [ready(inner, use, patterns, takes_unknown=takes_unknown) for inner in asked.any_of]
        yield _some(some)
    if asked.all_of is not None:
        every = [ready(inner, use, patterns, takes_unknown=takes_unknown) for inner in asked.all_of]
        yield _every(every)
    if asked.not_ is not None:
        inner = ready(asked.not_, use, patterns, takes_unknown=not takes_unknown)
        yield lambda look: not inner(look)


def _every(tests: list[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda look: first(look) and second(look)

    def test(look: FactsView) -> bool:
        for each in tests:  # noqa: SIM110 - a generator would cost more than most tests
            if not each(look):
                return False
        return True

    return test


def _some(tests: list[Test]) -> Test:
    def test(look: FactsView) -> bool:
        for each in tests:  # noqa: SIM110 - see above
            if each(look):
                return True
        return False

    return test
