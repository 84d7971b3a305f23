"""The policy of turns: `routing.yaml`, read, checked, and put together with the registry.

A policy is complete in itself: every default is written into it before it is named and recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.literal import AtLeastOne, Fraction, Usd
from pointsman.kernel.number import Billionths, MicroUsd, billionths, microusd
from pointsman.kernel.schema import conform
from pointsman.kernel.snapshot import SnapshotForm
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.placement.rules.zones import BUILT_IN_ZONES, unknown_zone_problems
from pointsman.turns.learning.pattern import (
    BEST,
    GivenPattern,
    GivenTarget,
    PatternSettings,
    pattern_problems,
    pattern_settings,
)
from pointsman.turns.learning.second_opinion import (
    GivenSecondOpinion,
    SecondOpinion,
    second_opinion,
    second_opinion_problems,
)
from pointsman.turns.registry.models import (
    EMBEDDED_MODEL,
    TIERS,
    Model,
    aliases,
    meant,
    model_id,
)
from pointsman.turns.rules import condition
from pointsman.turns.rules.condition import Condition, When
from pointsman.turns.rules.split import GivenSplit, RuleSplit, SplitBy, rule_split
from pointsman.turns.rules.split import problems as split_problems
from pointsman.turns.rules.table import OfferedTable, RoutingTable, rule_table
from pointsman.turns.rules.table import problems as table_problems

Tables = Mapping[str, OfferedTable]
NO_TABLES: Tables = {}


class GivenDisagreement(Struct, frozen=True, forbid_unknown_fields=True):
    """When a pattern that a rule outranks is shown to the user, as it is written."""

    surface: bool = False
    min_confidence: Fraction = Decimal("0.85")
    min_sample_size: AtLeastOne = 20


class GivenTiers(Struct, frozen=True, forbid_unknown_fields=True):
    """Which model serves a tier, as it is written."""

    fast: str | None = None
    balanced: str | None = None
    deep: str | None = None


GivenDefault = str | Annotated[tuple[str, ...], Meta(min_length=1)]
"""One model, or several that are asked in their order."""


class GivenRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule, as it is written. There is no fallback list: document 002 §4.6."""

    when: When
    use: str | None = None
    name: str | None = None
    split: GivenSplit | None = None
    by: SplitBy | None = None
    decide: str | None = None
    second_opinion: GivenSecondOpinion | None = None


class GivenWorkspace(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds in one workspace, as it is written."""

    default: GivenDefault | None = None
    pattern: GivenPattern | None = None
    tiers: GivenTiers | None = None
    rules: tuple[GivenRule, ...] = ()


class GivenBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """A cap on spending, as it is written."""

    name: str
    limit_usd: Usd
    per: Literal["day", "month"] = "day"
    each: Literal["all", "key", "session", "workspace", "tenant"] = "all"


class RoutingFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`routing.yaml` as it is written."""

    schema_version: Literal[1]
    global_default: GivenDefault | None = None
    tiers: GivenTiers = GivenTiers()
    pattern: GivenPattern = GivenPattern()
    pattern_disagreement: GivenDisagreement = GivenDisagreement()
    trace_deferred: Literal["rule_only", "off"] = "rule_only"
    rules: tuple[GivenRule, ...] = ()
    workspaces: dict[str, GivenWorkspace] = {}
    budgets: tuple[GivenBudget, ...] = ()


class RoutingRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One rule, exact, with its name."""

    name: str
    when: Condition
    use: str
    """Its model; of a split or a table the first one."""
    split: RuleSplit | UnsetType = UNSET
    table: RoutingTable | UnsetType = UNSET
    second_opinion: SecondOpinion | UnsetType = UNSET

    @property
    def models(self) -> tuple[str, ...]:
        """Every model it may send turns to."""
        if self.table is not UNSET:
            return self.table.models
        if self.split is UNSET:
            return (self.use,)
        return tuple(each.model for each in self.split.targets if each.weight)

    @property
    def target_text(self) -> str:
        """The model, the split or the table in one line."""
        if self.table is not UNSET:
            return f"decide {self.table.decision}: {', '.join(self.table.models)}"
        return self.use if self.split is UNSET else self.split.text


class Disagreement(Struct, frozen=True, forbid_unknown_fields=True):
    """When a pattern that a rule outranks is shown to the user."""

    surface: bool
    min_confidence: Billionths
    min_sample_size: int


Default = str | tuple[str, ...]
"""The one model of a default, or several in the order they are asked."""


class Workspace(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds in one workspace; None where the global section does."""

    path: str
    default: Default | None
    pattern: PatternSettings | None
    tiers: dict[str, str] | None
    rules: tuple[RoutingRule, ...]


class Budget(Struct, frozen=True, forbid_unknown_fields=True):
    """A cap on spending."""

    name: str
    limit_microusd: MicroUsd
    per: Literal["day", "month"]
    each: Literal["all", "key", "session", "workspace", "tenant"] = "all"


class TurnPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides about turns, besides the facts.

    `local_model` is the first local model of models.yaml; the embedded one where it names none.
    """

    global_default: Default | None
    tiers: dict[str, str]
    pattern: PatternSettings
    pattern_disagreement: Disagreement
    trace_deferred: Literal["rule_only", "off"]
    rules: tuple[RoutingRule, ...]
    workspaces: tuple[Workspace, ...]
    budgets: tuple[Budget, ...]
    models: dict[str, Model]
    local_model: str | UnsetType = UNSET


NO_ROUTING = RoutingFile(schema_version=1)


def read_policy(
    text: bytes,
    source: str,
    models: Mapping[str, Model],
    home: str,
    zones: Mapping[str, object] | None = None,
    *,
    tables: Tables = NO_TABLES,
) -> RoutingFile:
    """Read `routing.yaml` against the models there are; `home` is what `~` stands for.

    With `zones`, those that placement.yaml names, a rule may ask for no other. `tables`
    are the decisions that rules may name.
    """
    check = _Check(models, home, zones, tables)
    return conform(parse_yaml(text, source), RoutingFile, check.problems)


def turn_policy(
    routing: RoutingFile, models: dict[str, Model], home: str, tables: Tables = NO_TABLES
) -> TurnPolicy:
    """Put the policy together; without a global default the embedded model is it."""
    default = EMBEDDED_MODEL if routing.global_default is None else routing.global_default
    disagreement = routing.pattern_disagreement
    theirs = (rule.name for given in routing.workspaces.values() for rule in given.rules)
    known = _Targets(aliases(models), tables)
    rules = _rules(routing.rules, known, tuple(name for name in theirs if name is not None))
    shared = tuple(rule.name for rule in rules)
    return TurnPolicy(
        global_default=_default(default),
        tiers={**_registry_tiers(models), **_tiers(routing.tiers)},
        pattern=pattern_settings(routing.pattern),
        pattern_disagreement=Disagreement(
            disagreement.surface,
            _fraction(disagreement.min_confidence),
            disagreement.min_sample_size,
        ),
        trace_deferred=routing.trace_deferred,
        rules=rules,
        workspaces=tuple(
            Workspace(
                path=normal_path(path, home),
                default=None if given.default is None else _default(given.default),
                pattern=None if given.pattern is None else pattern_settings(given.pattern),
                tiers=None if given.tiers is None else _tiers(given.tiers),
                rules=_rules(given.rules, known, shared),
            )
            for path, given in routing.workspaces.items()
        ),
        budgets=tuple(
            Budget(each.name, microusd(f"{each.limit_usd:f}"), each.per, each.each)
            for each in routing.budgets
        ),
        models=models,
        local_model=_first_local(models),
    )


def known_zones(policy: TurnPolicy) -> tuple[str, ...]:
    """Return the zones beside the built-in ones that models stand in and rules ask for."""
    models = (model.zones for model in policy.models.values())
    found = {zone for zones in models if zones is not UNSET for zone in zones}
    own = (rule for workspace in policy.workspaces for rule in workspace.rules)
    for rule in (*policy.rules, *own):
        found.update(condition.asked_zones(rule.when))
    return tuple(sorted(found - {*BUILT_IN_ZONES}))


def model_names(default: Default | None) -> tuple[str, ...]:
    """Return the models of a default in the order they are asked."""
    if default is None:
        return ()
    return (default,) if isinstance(default, str) else default


def _default(given: GivenDefault) -> Default:
    """Return a default as policies hold it: a list of one is that one."""
    names = tuple(model_id(name) for name in model_names(given))
    return names[0] if len(names) == 1 else names


def _first_local(models: Mapping[str, Model]) -> str | UnsetType:
    local = (name for name, model in models.items() if model.location == "local")
    return next((name for name in local if name != EMBEDDED_MODEL), UNSET)


def normal_path(path: str, home: str) -> str:
    """Return a path without `~`, `.`, `..` and doubled slashes; links are not followed."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/" + "/".join(parts)


def _rules(
    given: tuple[GivenRule, ...], known: _Targets, taken: tuple[str, ...] = ()
) -> tuple[RoutingRule, ...]:
    names = rule_names(given, taken)
    return tuple(_rule(name, rule, known) for name, rule in zip(names, given, strict=True))


class _Targets(Struct, frozen=True):
    """What rules may name: models by ids and aliases, and tables."""

    aliases: Mapping[str, str]
    tables: Tables


def _rule(name: str, given: GivenRule, known: _Targets) -> RoutingRule:
    when = condition.condition(given.when)
    asked = given.second_opinion
    opinion = UNSET if asked is None else second_opinion(asked)
    if given.decide is not None:
        table = rule_table(known.tables[given.decide], known.aliases)
        first = table.models[0]
        return RoutingRule(name, when, first, table=table, second_opinion=opinion)
    if given.split is None:
        return RoutingRule(name, when, model_id(given.use or ""), second_opinion=opinion)
    split = rule_split(given.split, given.by or "session", known.aliases)
    first = split.targets[0].model
    return RoutingRule(name, when, first, split, second_opinion=opinion)


def rule_names(given: tuple[GivenRule, ...], taken: tuple[str, ...] = ()) -> list[str]:
    """Return the name of every rule; one without gets `rule_<index>`, made unique where it clashes.

    `taken` are names of other rules that hold beside these.
    """
    used = [*taken, *(rule.name for rule in given if rule.name is not None)]
    names: list[str] = []
    for index, rule in enumerate(given):
        name = rule.name or f"rule_{index}"
        while rule.name is None and name in used:
            name += "_"
        names.append(name)
    return names


def _fraction(value: Decimal) -> Billionths:
    return billionths(f"{value:f}")


def _registry_tiers(models: Mapping[str, Model]) -> dict[str, str]:
    """Return the first model declared for each tier; the built-in one where there is no other."""
    declared = [*(name for name in models if name != EMBEDDED_MODEL), EMBEDDED_MODEL]
    tiers = [(models[name].tier, name) for name in declared if name in models]
    return {tier: name for tier, name in reversed(tiers) if tier is not None}


def _tiers(given: GivenTiers) -> dict[str, str]:
    found = ((tier, getattr(given, tier)) for tier in TIERS)
    return {tier: model_id(name) for tier, name in found if name is not None}


class _Check:
    """The checks of document 002 §5.7 that a schema cannot make."""

    def __init__(
        self,
        models: Mapping[str, Model],
        home: str,
        zones: Mapping[str, object] | None,
        tables: Tables,
    ) -> None:
        self._models = models
        self._home = home
        self._zones = zones
        self._tables = tables

    def problems(self, routing: RoutingFile, document: Document) -> Iterable[Problem]:
        yield from self._default_problems(routing.global_default, document, ("global_default",))
        yield from self._tier_problems(routing.tiers, document, ("tiers",))
        yield from self._pattern_problems(routing.pattern, document, ("pattern",))
        yield from self._rule_problems(routing.rules, document, ("rules",))
        names = {rule.name for rule in routing.rules if rule.name is not None}
        paths: dict[str, str] = {}
        for path, given in routing.workspaces.items():
            at: Path = ("workspaces", path)
            yield from self._workspace_problems(given, document, at, names)
            yield from self._path_problems(path, document, at, paths)
        yield from _budget_problems(routing.budgets, document)

    def _workspace_problems(
        self, given: GivenWorkspace, document: Document, at: Path, global_names: set[str]
    ) -> Iterable[Problem]:
        yield from self._default_problems(given.default, document, (*at, "default"))
        if given.pattern is not None:
            yield from self._pattern_problems(given.pattern, document, (*at, "pattern"))
        if given.tiers is not None:
            yield from self._tier_problems(given.tiers, document, (*at, "tiers"))
            missing = [tier for tier in TIERS if getattr(given.tiers, tier) is None]
            if missing:
                message = f"the tiers of a workspace are all or none; missing: {', '.join(missing)}"
                hint = "restate the others, or leave `tiers` out"
                yield document.problem((*at, "tiers"), Code.MISSING_KEY, message, hint)
        yield from self._rule_problems(given.rules, document, (*at, "rules"))
        for index, rule in enumerate(given.rules):
            if rule.name in global_names:
                message = f"the name `{rule.name}` belongs to a global rule already"
                path = (*at, "rules", index, "name")
                yield document.problem(path, Code.DUPLICATE_KEY, message)

    def _path_problems(
        self, path: str, document: Document, at: Path, paths: dict[str, str]
    ) -> Iterable[Problem]:
        normal = normal_path(path, self._home)
        if path != "~" and not path.startswith(("/", "~/")):
            hint = "write it from `/` or `~/` on"
            message = f"`{path}` is not an absolute path"
            yield document.problem(at, Code.INVALID_VALUE, message, hint, key=True)
        elif normal in paths:
            message = f"`{path}` is the same workspace as `{paths[normal]}`"
            yield document.problem(at, Code.DUPLICATE_KEY, message, key=True)
        paths.setdefault(normal, path)

    def _rule_problems(
        self, rules: tuple[GivenRule, ...], document: Document, at: Path
    ) -> Iterable[Problem]:
        seen: set[str] = set()
        for index, rule in enumerate(rules):
            path = (*at, index)
            yield from self._target_problems(rule, document, path)
            if rule.second_opinion is not None:
                place, above = (*path, "second_opinion"), () if rule.use is None else (rule.use,)
                yield from second_opinion_problems(rule.second_opinion, document, place, above)
                yield from self._opinion_problems(rule.second_opinion, document, place)
            yield from condition.problems(rule.when, document, (*path, "when"))
            if self._zones is not None:
                for place, zone in condition.written_zones(rule.when):
                    where = (*path, "when", *place)
                    yield from unknown_zone_problems(zone, self._zones, document, where)
            if rule.name is not None and rule.name in seen:
                message = f"the name `{rule.name}` is taken by an earlier rule"
                yield document.problem((*path, "name"), Code.DUPLICATE_KEY, message)
            elif rule.name == "":
                yield document.problem((*path, "name"), Code.TOO_SHORT, "a name cannot be empty")
            seen.add(rule.name or "")

    def _pattern_problems(
        self, given: GivenPattern, document: Document, at: Path
    ) -> Iterable[Problem]:
        yield from pattern_problems(given, document, at)
        if given.second_opinion is not None:
            place = (*at, "second_opinion")
            yield from self._opinion_problems(given.second_opinion, document, place)
        target = given.target or GivenTarget()
        for key in ("quality_of", "share_of"):
            name = getattr(target, key)
            if name is not None and (key, name) != ("quality_of", BEST):
                yield from self._model_problems(name, document, (*at, "target", key))

    def _opinion_problems(
        self, given: GivenSecondOpinion, document: Document, at: Path
    ) -> Iterable[Problem]:
        for index, name in enumerate(given.ask):
            yield from self._model_problems(name, document, (*at, "ask", index))
        yield from self._model_problems(given.judge, document, (*at, "judge"))

    def _target_problems(
        self, rule: GivenRule, document: Document, path: Path
    ) -> Iterable[Problem]:
        """Check that a rule names one model, one split or one table, of models there are."""
        named = [each for each in (rule.use, rule.split, rule.decide) if each is not None]
        if len(named) != 1:
            message = "a rule has one of `use`, `split` and `decide`"
            code = Code.INVALID_VALUE if named else Code.MISSING_KEY
            yield document.problem(path, code, message)
            return
        if rule.split is None and rule.by is not None:
            message = "`by` belongs to a `split`, and the rule has none"
            yield document.problem((*path, "by"), Code.INVALID_VALUE, message)
        if rule.decide is not None:
            known_, place_ = aliases(self._models), (*path, "decide")
            yield from table_problems(rule.decide, self._tables, known_, document, place_)
            return
        if rule.split is None:
            yield from self._model_problems(rule.use, document, (*path, "use"))
            return
        known, unknown = aliases(self._models), False
        for name in rule.split:
            if model_id(name) not in known:
                unknown = True
                message = f"`{name}` is neither a model of models.yaml nor an alias of one"
                hint = meant(name, known) or f"known: {', '.join([*known][:8])}"
                place = (*path, "split", name)
                yield document.problem(place, Code.UNKNOWN_VALUE, message, hint, key=True)
        if not unknown:
            yield from split_problems(rule.split, known, document, (*path, "split"))

    def _tier_problems(self, tiers: GivenTiers, document: Document, at: Path) -> Iterable[Problem]:
        for tier in TIERS:
            yield from self._model_problems(getattr(tiers, tier), document, (*at, tier))

    def _default_problems(
        self, default: GivenDefault | None, document: Document, at: Path
    ) -> Iterable[Problem]:
        if default is None or isinstance(default, str):
            yield from self._model_problems(default, document, at)
            return
        seen: set[str] = set()
        for index, name in enumerate(default):
            yield from self._model_problems(name, document, (*at, index))
            if model_id(name) in seen:
                message = f"`{name}` stands in this list already"
                yield document.problem((*at, index), Code.DUPLICATE_KEY, message)
            seen.add(model_id(name))

    def _model_problems(self, name: str | None, document: Document, at: Path) -> Iterable[Problem]:
        if name is not None:
            yield from unknown_model_problems(name, self._models, document, at)


def unknown_model_problems(
    name: str, models: Mapping[str, Model], document: Document, at: Path
) -> Iterable[Problem]:
    """Report a name that is no model, with the nearest one that is."""
    if model_id(name) not in models:
        message = f"`{name}` is not a model of models.yaml"
        hint = meant(name, models) or f"known: {', '.join([*models][:8])}"
        yield document.problem(at, Code.UNKNOWN_VALUE, message, hint)


def _budget_problems(budgets: tuple[GivenBudget, ...], document: Document) -> Iterable[Problem]:
    seen: set[str] = set()
    for index, budget in enumerate(budgets):
        if budget.name in seen:
            message = f"the name `{budget.name}` is taken by an earlier budget"
            yield document.problem(("budgets", index, "name"), Code.DUPLICATE_KEY, message)
        seen.add(budget.name)


POLICY_FORM = SnapshotForm("turn.policy", 1, TurnPolicy)
