"""A policy, compiled: rules as functions, patterns as one matcher, workspaces as scopes.

Made once when a policy is loaded, used for every turn under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.kernel.number import MicroUsd
from pointsman.turns.facts import CallerFacts, SplitUnits, TurnFacts
from pointsman.turns.learning.pattern import PatternSettings
from pointsman.turns.policy import (
    Default,
    RoutingRule,
    TurnPolicy,
    Workspace,
    model_names,
    normal_path,
)
from pointsman.turns.registry.models import EMBEDDED_MODEL, aliases
from pointsman.turns.rules.condition import (
    Condition,
    FactsView,
    Patterns,
    Test,
    expressions,
    needed_patterns,
    predicates,
    ready,
)
from pointsman.turns.rules.fact_expression import CALLER_NAMES, fact_expression
from pointsman.turns.rules.split import Splitter
from pointsman.turns.rules.table import TableChooser, table_facts
from pointsman.turns.rules.text_patterns import TextPatterns
from pointsman.turns.trace import SplitDraw, TableHit


class CompiledRule(Struct, frozen=True):
    """A rule and its condition as a function."""

    rule: RoutingRule
    matches: Test
    needed: frozenset[int] | None
    splitter: Splitter | None = None
    may_match: Test | None = None
    """Whether it could match if each expression without an answer had the one that it takes."""
    chooser: TableChooser | None = None

    def choose(self, look: FactsView) -> tuple[str | None, SplitDraw | TableHit | None]:
        """Return the model of a turn that matches, and its draw or its table's row.

        There is none where a table passes the rule over.
        """
        if self.chooser is not None:
            return self.chooser.choose(look, self.rule.use)
        if self.splitter is None:
            return self.rule.use, None
        return self.splitter.draw(look.split_units)

    @property
    def needs_pattern(self) -> bool:
        """Whether the rule can only hold where some message pattern matches."""
        return self.needed is not None


class WorkspaceScope(Struct, frozen=True):
    """What holds for the turns of one workspace, or of none.

    `tiers` are those of the workspace, which names all of them or none, else the policy's. `always`
    are the rules that must be asked every time, `by_pattern` numbers those that can only hold where
    a certain message pattern matches.
    """

    defaults: tuple[str, ...]
    pattern: PatternSettings
    tiers: Mapping[str, str]
    rules: tuple[CompiledRule, ...]
    always: tuple[CompiledRule, ...]
    by_pattern: Mapping[int, tuple[int, ...]]

    def worth_asking(self, look: FactsView) -> Iterable[CompiledRule]:
        """Return the rules that can hold, in their order."""
        if not self.by_pattern or not look.hits:
            return self.always
        found = {n for hit in look.hits for n in self.by_pattern.get(hit, ())}
        return (each for n, each in enumerate(self.rules) if n in found or not each.needs_pattern)


class CompiledTurnPolicy:
    """A policy of turns with everything that is the same for all turns under it."""

    def __init__(self, policy: TurnPolicy) -> None:
        self.policy = policy
        self.models = policy.models
        self.aliases = aliases(policy.models)
        self.defaults = model_names(policy.global_default)
        self.local_model = EMBEDDED_MODEL if policy.local_model is UNSET else policy.local_model
        """The model for turns that must stay here, where no other candidate can take them."""
        tenants = frozenset(each.name for each in policy.budgets if each.each == "tenant")
        self._patterns = Patterns(TextPatterns(), TextPatterns(), tenants)
        shared = self._rules(policy.rules)
        self._anywhere = self._make_scope(None, policy.pattern, policy.tiers, shared)
        self._workspaces = [
            (
                tuple(each.path.split("/")[1:]) if each.path != "/" else (),
                self._workspace_scope(each, shared),
            )
            for each in policy.workspaces
        ]
        # DETERMINISM: the longest path first; equal lengths cannot both match.
        self._workspaces.sort(key=lambda found: -len(found[0]))
        self._patterns.message.ready()
        self._patterns.path.ready()
        scopes = (self._anywhere, *(scope for _, scope in self._workspaces))
        self.learns_on_purpose = any(_is_learning(each.pattern) for each in scopes)
        rules = (*policy.rules, *(r for each in policy.workspaces for r in each.rules))
        asked = frozenset[str]().union(*(predicates(rule.when) for rule in rules))
        said = {name for rule in rules for name in facts_read(rule)}
        in_text = asked.isdisjoint(("message_matches", "message_contains_any"))
        self.reads_text = not in_text or "message" in said
        named = asked.isdisjoint(("key_is", "tenant_is", "agent_is"))
        self.asks_caller = not named or not said.isdisjoint(CALLER_NAMES)
        self.asks_tool_names = "tool_names_include" in asked or "tool_names" in said
        splits = [rule.split for rule in rules if rule.split is not UNSET]
        self.split_by = frozenset(each.by for each in splits)
        asking = (
            *(rule.second_opinion for rule in rules),
            *(s.pattern.second_opinion for s in scopes),
        )
        self.has_second_opinions = any(each is not UNSET for each in asking)

    def complete(self, facts: TurnFacts) -> TurnFacts:
        """Return a caller's facts with those that rules ask for and the caller left out."""
        if self.asks_caller and facts.caller is UNSET:
            facts = replace(facts, caller=CallerFacts())
        if self.asks_tool_names and facts.tool_names is UNSET:
            facts = replace(facts, tool_names=())
        if self.split_by and facts.split_units is UNSET:
            facts = replace(facts, split_units=SplitUnits())
        return facts

    def look(self, facts: TurnFacts) -> FactsView:
        """Look at a turn's facts."""
        return FactsView(facts, self._patterns)

    def scope(self, workspace_path: str | None) -> WorkspaceScope:
        """Return the scope of a workspace: of nested ones, the closest."""
        if workspace_path is not None and workspace_path.startswith("/"):
            normal = normal_path(workspace_path, "")
            parts = tuple(part for part in normal.split("/") if part)
            for prefix, scope in self._workspaces:
                if parts[: len(prefix)] == prefix:
                    return scope
        return self._anywhere

    def _workspace_scope(
        self, workspace: Workspace, shared: tuple[CompiledRule, ...]
    ) -> WorkspaceScope:
        policy = self.policy
        return self._make_scope(
            workspace.default,
            policy.pattern if workspace.pattern is None else workspace.pattern,
            policy.tiers if workspace.tiers is None else workspace.tiers,
            (*self._rules(workspace.rules), *shared),
        )

    def _make_scope(
        self,
        default: Default | None,
        pattern: PatternSettings,
        tiers: Mapping[str, str],
        rules: tuple[CompiledRule, ...],
    ) -> WorkspaceScope:
        always = tuple(each for each in rules if not each.needs_pattern)
        by_pattern: dict[int, tuple[int, ...]] = {}
        for number, each in enumerate(rules):
            for hit in sorted(each.needed or ()):
                by_pattern[hit] = (*by_pattern.get(hit, ()), number)
        return WorkspaceScope(model_names(default), pattern, tiers, rules, always, by_pattern)

    def _rules(self, rules: tuple[RoutingRule, ...]) -> tuple[CompiledRule, ...]:
        patterns = self._patterns
        return tuple(
            CompiledRule(
                rule,
                ready(rule.when, rule.use, patterns),
                needed_patterns(rule.when, patterns),
                None if rule.split is UNSET else Splitter(rule.name, rule.split),
                _may_match(rule, patterns),
                None if rule.table is UNSET else TableChooser(rule.table),
            )
            for rule in rules
        )


def compile_policy(policy: TurnPolicy) -> CompiledTurnPolicy:
    """Compile a policy once, for every turn under it."""
    return CompiledTurnPolicy(policy)


def _may_match(rule: RoutingRule, patterns: Patterns) -> Test | None:
    if next(expressions(rule.when), None) is None:
        return None
    return ready(rule.when, rule.use, patterns, takes_unknown=True)


def facts_read(rule: RoutingRule) -> Iterator[str]:
    """Yield the facts that a rule reads by expressions."""
    for text in expressions(rule.when):
        yield from fact_expression(text).names
    yield from table_facts(rule.table)


def _is_learning(settings: PatternSettings) -> bool:
    """Tell whether some turns are sent elsewhere, or run again, to learn from it."""
    given = (settings.explore, settings.shadow)
    return settings.mode != "off" and any(each is not UNSET for each in given)


def exceeded_limit(asked: Condition, spent: MicroUsd) -> MicroUsd | None:
    """Return the daily spend a condition asks about and that is exceeded, outside of any `not`."""
    own = asked.cost_today_exceeds_microusd
    if own is not None and spent > own:
        return own
    inner = (*(asked.all_of or ()), *(asked.any_of or ()))
    found = (exceeded_limit(each, spent) for each in inner)
    return next((limit for limit in found if limit is not None), None)
