"""Static review of a policy: warnings, and a proof about privacy.

Nothing here rejects a policy. Statements about a rule are exact, warnings are syntactic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET, Struct

from pointsman.kernel.codes import Meaning
from pointsman.kernel.document import quote
from pointsman.kernel.number import microusd_text
from pointsman.turns.chain.validation import Rejection, rejection
from pointsman.turns.compiled import CompiledTurnPolicy, WorkspaceScope, compile_policy
from pointsman.turns.facts import TurnFacts, placed_within
from pointsman.turns.policy import RoutingRule, TurnPolicy, known_zones
from pointsman.turns.registry.models import TIERS, Model, lies_within
from pointsman.turns.rules.condition import TREES, Condition, TimeWindow, predicates, set_fields
from pointsman.turns.rules.fact_formula import lower_expressions, tree_condition
from pointsman.turns.rules.implication import (
    Parts,
    implies,
    is_contradictory,
    own_key,
    parts,
    search_keys,
)
from pointsman.turns.rules.table import TableConditions
from pointsman.turns.rules.text_patterns import ascii_only
from pointsman.turns.trace import Slot

MOST_COMPARED = 256
"""Earlier rules that one is compared with where only limits tell them apart."""


class Concern(Meaning):
    """One kind of warning; `meaning` is the sentence the documentation shows."""

    UNREACHABLE = "turns.rule_unreachable", "an earlier rule matches every turn"
    SECOND_CHOICE = (
        "turns.rule_second_choice",
        "the rule serves where an earlier model cannot",
    )
    SHADOWED = "turns.rule_shadowed", "an earlier rule asks for no more than this one"
    CONTRADICTION = "turns.rule_never_matches", "what the rule asks for cannot all be true"
    ROW = "turns.row_unreachable", "no turn reaches a row of the rule's table"
    UNFIT = "turns.rule_model_unfit", "the model cannot take the turns the rule is for"
    UNPRICED = "turns.price_unknown", "a budget is set and the price of a cloud model is unknown"
    NOT_FREE = "turns.default_not_free", "a budget is set and every default costs money"
    ASCII_ONLY = (
        "turns.pattern_ascii",
        "`\\b` or `\\w` stands beside a letter that it does not know",
    )
    NO_ZONE_MODEL = (
        "turns.zone_without_model",
        "turns are kept within a zone, and no cloud model lies within it",
    )
    NO_TIER_MODEL = "turns.tier_without_model", "delegation is set up and a tier has no model"


class Finding(Struct, frozen=True):
    """One warning; `workspace` is None where it holds everywhere, `by` is the rule in the way."""

    code: Concern
    message: str
    workspace: str | None = None
    rule_name: str | None = None
    by: str | None = None


def review(policy: TurnPolicy) -> tuple[Finding, ...]:
    """Return the findings about a valid policy, in the order of the file."""
    ready = compile_policy(policy)
    known: dict[Condition, _Asked] = {}
    return (
        *(each for scoped in _scopes(ready) for each in _rule_findings(ready, scoped, known)),
        *_budget_findings(ready),
        *_tier_findings(ready),
    )


def zone_findings(policy: TurnPolicy, named: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Find zones without a model in the cloud; `named` says what keeps turns within which zone."""
    cloud = [model for model in policy.models.values() if model.location != "local"]
    for what, zone in named:
        if not any(lies_within(model, [zone]) for model in cloud):
            message = f"{what} keeps turns within {zone}, where only the models of this machine are"
            yield Finding(Concern.NO_ZONE_MODEL, message)


class Scoped(Struct, frozen=True):
    """What holds in one workspace; the first `own` rules are its own, the others are global."""

    workspace: str | None
    scope: WorkspaceScope
    own: int

    @property
    def rules(self) -> list[RoutingRule]:
        """The rules in the order in which they are tried."""
        return [each.rule for each in self.scope.rules]


def scopes(policy: TurnPolicy) -> list[Scoped]:
    """Return the global scope, then the scope of each workspace."""
    return _scopes(compile_policy(policy))


def _scopes(ready: CompiledTurnPolicy) -> list[Scoped]:
    policy = ready.policy
    return [
        Scoped(None, ready.scope(None), len(policy.rules)),
        *(
            Scoped(each.path, ready.scope(each.path), len(each.rules))
            for each in policy.workspaces
        ),
    ]  # fmt: skip


class _Asked(Struct, frozen=True):
    """What a rule asks for, looked at once."""

    parts: Parts
    is_never: bool
    key: Condition | str
    search_keys: list[Condition | str]


def _analyse(when: Condition, known: dict[Condition, _Asked]) -> _Asked:
    if when not in known:
        found = parts(lower_expressions(when))
        known[when] = _Asked(found, is_contradictory(found), own_key(found), search_keys(found))
    return known[when]


def _rule_findings(
    ready: CompiledTurnPolicy, scoped: Scoped, known: dict[Condition, _Asked]
) -> Iterator[Finding]:
    rules = scoped.rules
    asked = [_analyse(rule.when, known) for rule in rules]
    for rule, own in list(zip(rules, asked, strict=True))[: scoped.own]:
        if own.is_never:
            message = f"`{rule.name}` asks for what cannot all be true: it never matches"
            yield Finding(Concern.CONTRADICTION, message, scoped.workspace, rule.name)
        elif _asks_no_budget(ready.policy, rule.when):
            message = (
                f"`{rule.name}` asks for the budget of a tenant, and no budget has `each: tenant`"
            )
            yield Finding(Concern.CONTRADICTION, message, scoped.workspace, rule.name)
        else:
            for name in rule.models:
                yield from _unfit(name, ready.models[name], rule, own.parts, scoped.workspace)
        yield from _ascii_only(rule, scoped.workspace)
        yield from _row_findings(rule, scoped.workspace)
    for later, earlier in _covered_pairs(asked, scoped.own):
        is_always = not asked[earlier].parts
        if not _takes_all(rules[earlier]):
            continue
        is_plain = _is_plain(rules[later]) and _is_plain(rules[earlier])
        is_other = is_plain and rules[later].use != rules[earlier].use
        if is_always and not asked[later].parts and is_other:
            yield _second_choice(rules[later], rules[earlier], scoped.workspace)
        else:
            yield _covering(rules[later], rules[earlier], scoped.workspace, is_always=is_always)


def _is_plain(rule: RoutingRule) -> bool:
    """Tell whether a rule has one model for all of its turns."""
    return rule.split is UNSET and rule.table is UNSET


def _takes_all(rule: RoutingRule) -> bool:
    """Tell whether a rule has a model for every turn that it matches."""
    return rule.table is UNSET or rule.table.is_total


def _asks_no_budget(policy: TurnPolicy, asked: Condition) -> bool:
    has_any = any(each.each == "tenant" for each in policy.budgets)
    return not has_any and "team_budget_remaining_lt_microusd" in predicates(
        lower_expressions(asked)
    )


def _second_choice(rule: RoutingRule, by: RoutingRule, workspace: str | None) -> Finding:
    """Tell of a second rule for every turn: it works, and a list of defaults says it better."""
    message = (
        f"`{rule.name}` serves only where {by.use} of `{by.name}` is rejected or fails:"
        f" `global_default: [{by.use}, {rule.use}]` says the same"
    )
    return Finding(Concern.SECOND_CHOICE, message, workspace, rule.name, by.name)


def _covering(
    rule: RoutingRule, by: RoutingRule, workspace: str | None, *, is_always: bool
) -> Finding:
    code = Concern.UNREACHABLE if is_always else Concern.SHADOWED
    what = "every turn" if is_always else f"all that `{rule.name}` does"
    # After a rejected model the next rule that matches is tried (companion D-002-1).
    effect = f"`{rule.name}` acts only when {' or '.join(by.models)} is rejected"
    if rule.models == by.models and _is_plain(by):
        effect = f"`{rule.name}` uses the same model and changes nothing"
    message = f"`{by.name}` comes first and matches {what}: {effect}"
    return Finding(code, message, workspace, rule.name, by.name)


def _covered_pairs(asked: Sequence[_Asked], own: int) -> Iterator[tuple[int, int]]:
    """Return each rule that an earlier one covers, with the first that does.

    Pairs of global rules are left out beyond the first `own`: they are told of once, globally.
    """
    earlier: dict[Condition | str, list[int]] = {}
    if not own:
        return
    for later, each in enumerate(asked):
        if each.is_never:
            continue
        near = sorted({index for key in each.search_keys for index in earlier.get(key, ())})
        covers = (
            index for index in near[:MOST_COMPARED] if implies(each.parts, asked[index].parts)
        )
        found = next(covers, None)
        if found is not None:
            yield later, found
        elif later < own:
            # What covers a covered rule covers all that this one would.
            earlier.setdefault(each.key, []).append(later)


def _unfit(
    name: str, model: Model, rule: RoutingRule, asked: Parts, workspace: str | None
) -> Iterator[Finding]:  # fmt: skip
    can = model.capabilities
    if Condition(has_images=True) in asked and can.supports_images is False:
        message = f"`{rule.name}` is for images, which {name} cannot see: always rejected"
        yield Finding(Concern.UNFIT, message, workspace, rule.name)
    least = max((part.estimated_input_tokens_gt or 0 for part in asked), default=0)
    if can.max_context_tokens is not None and least >= can.max_context_tokens:
        message = (
            f"`{rule.name}` is for more than {least} tokens, {name} takes"
            f" {can.max_context_tokens}: always rejected"
        )
        yield Finding(Concern.UNFIT, message, workspace, rule.name)


def _row_findings(rule: RoutingRule, workspace: str | None) -> Iterator[Finding]:
    """Tell of rows that no turn reaches, as far as predicates say what the rows ask."""
    table = rule.table
    if table is UNSET:
        return
    conditions = TableConditions(table.input, [row.when for row in table.rows])
    earlier: dict[int, Parts] = {}
    for number in table.order:
        tree = conditions.rows[number].tree
        asked = tree_condition(tree, conditions.declared, wanted=True)
        if asked is None:
            continue
        own, row = parts(asked), f"row {number + 1} ({table.rows[number].label})"
        by = next((each for each, known in earlier.items() if implies(own, known)), None)
        if is_contradictory(own):
            message = f"`{rule.name}`: {row} of {table.decision} asks for what cannot all be true"
            yield Finding(Concern.ROW, message, workspace, rule.name)
        elif by is not None and table.hit in {"first", "lowest"}:
            message = f"`{rule.name}`: row {by + 1} of {table.decision} takes every turn of {row}"
            yield Finding(Concern.ROW, message, workspace, rule.name)
        earlier[number] = own


def _ascii_only(rule: RoutingRule, workspace: str | None) -> Iterator[Finding]:
    for pattern in _patterns(rule.when):
        sign, letter = ascii_only(pattern)
        is_edge = sign.lower() == "\\b"
        missed = f"no edge of a word beside `{letter}`" if is_edge else f"no letter in `{letter}`"
        instead = "(^|[^\\pL])" if is_edge else "\\pL"
        if sign:
            why = f"`{sign}` knows ASCII letters only and sees {missed}"
            message = f"`{rule.name}`: in {quote(pattern)} {why}; `{instead}` knows all letters"
            yield Finding(Concern.ASCII_ONLY, message, workspace, rule.name)


def _patterns(asked: Condition) -> Iterator[str]:
    yield from filter(None, (asked.message_matches, asked.workspace_path_matches))
    negated = () if asked.not_ is None else (asked.not_,)
    for inner in (*(asked.any_of or ()), *(asked.all_of or ()), *negated):
        yield from _patterns(inner)


def _budget_findings(ready: CompiledTurnPolicy) -> Iterator[Finding]:
    policy = ready.policy
    if not policy.budgets:
        return
    for name, model in policy.models.items():
        if model.price is None or model.price.input is None:
            message = f"the price of {name} is unknown: while a budget is in force it is rejected"
            yield Finding(Concern.UNPRICED, message)
    for scoped in _scopes(ready):
        defaults = _defaults(ready, scoped)
        if (scoped.workspace is None or scoped.scope.defaults) and not any(
            _is_free(policy.models[name]) for name in defaults
        ):
            names = ", ".join(f"`{each.name}`" for each in policy.budgets)
            message = (
                f"once {names} is spent no default is left that is free: {', '.join(defaults)}"
            )
            yield Finding(Concern.NOT_FREE, message, scoped.workspace)


def _defaults(ready: CompiledTurnPolicy, scoped: Scoped) -> list[str]:
    return [*dict.fromkeys((*scoped.scope.defaults, *ready.defaults))]


def _is_free(model: Model) -> bool:
    price = model.price
    return price is not None and not (price.input or price.output or price.cache_write)


def _tier_findings(ready: CompiledTurnPolicy) -> Iterator[Finding]:
    policy = ready.policy
    if not any(model.can_delegate for model in policy.models.values()):
        return
    anywhere = ready.scope(None)
    for tier in TIERS:
        if anywhere.tiers.get(tier) is None:
            message = f"no model serves the tier `{tier}`: a delegation to it fails"
            yield Finding(Concern.NO_TIER_MODEL, message)


class Source(Struct, frozen=True):
    """Where a slot may take a candidate from."""

    slot: Slot
    where: str
    model: str


class Proof(Struct, frozen=True):
    """Whether a turn with `privacy_level: local` can reach a cloud model, whatever else is true.

    `reachable` are the candidates that can take such a turn.
    """

    holds: bool
    reachable: tuple[Source, ...]
    explanation: str


class ZoneProof(Struct, frozen=True):
    """Whether a turn that must stay within a zone can reach no model outside of it."""

    zone: str
    holds: bool
    explanation: str


def local_proof(policy: TurnPolicy) -> Proof:
    """Try every candidate of every slot against the most permissive facts that stay local.

    INVARIANT: a veto can only reject, and other facts only add vetoes, so a model rejected here is
    rejected always. Fallback takes models away (`excluded_models`) and adds no candidate.
    """
    candidates = list(dict.fromkeys(_sources(compile_policy(policy))))
    cloud = [each for each in candidates if not _is_local(policy, each.model)]
    vetoes = {each.model: rejection(each.model, policy.models, _PERMISSIVE) for each in candidates}
    reachable = tuple(each for each in candidates if vetoes[each.model] is None)
    blocked = [each for each in cloud if _is_privacy(vetoes[each.model])]
    holds = len(blocked) == len(cloud) and all(_is_local(policy, e.model) for e in reachable)
    return Proof(holds, reachable, _proof_text(len(blocked), len(cloud), reachable))


def zone_proofs(policy: TurnPolicy) -> tuple[ZoneProof, ...]:
    """Try every candidate of every slot against the most permissive facts that stay in each zone.

    INVARIANT: as for `local_proof`; zones beside the one that is tried only add vetoes.
    """
    ready = compile_policy(policy)
    candidates = list(dict.fromkeys(_sources(ready)))
    return tuple(_prove_zone(policy, zone, candidates) for zone in known_zones(policy))


def _prove_zone(policy: TurnPolicy, zone: str, candidates: Sequence[Source]) -> ZoneProof:
    facts = TurnFacts("", placement=placed_within((zone,)))
    vetoes = {each.model: rejection(each.model, policy.models, facts) for each in candidates}
    outside = [each for each in candidates if not lies_within(policy.models[each.model], [zone])]
    blocked = [each for each in outside if _is_privacy(vetoes[each.model])]
    models = {each.model for each in candidates if vetoes[each.model] is None}
    cloud = sum(not _is_local(policy, each) for each in models)
    text = f"{len(blocked)} of {len(outside)} ways out of {zone} are blocked for turns within it"
    many = "1 cloud model may" if cloud == 1 else f"{cloud} cloud models may"
    return ZoneProof(zone, len(blocked) == len(outside), f"{text}; {many} take them")


def _is_local(policy: TurnPolicy, name: str) -> bool:
    model = policy.models.get(name)
    return model is not None and model.location == "local"


_PERMISSIVE = TurnFacts("", privacy_level="local")


def _is_privacy(veto: Rejection | None) -> bool:
    return veto is not None and veto.code == "privacy_blocked"


def _proof_text(blocked: int, cloud: int, reachable: Sequence[Source]) -> str:
    proved = f"{blocked} of {cloud} ways to a cloud model are blocked when a turn must stay local"
    sure = [each for each in reachable if each.slot == "global_default"]
    if sure:
        return f"{proved}; such turns fall back on {sure[0].model} ({sure[0].where})"
    rules = [each for each in reachable if each.slot == "rule"]
    if rules:
        return (
            f"{proved}; no default is local: such turns fail where {rules[0].where} does not apply"
        )
    named = reachable[0].model if reachable else "one"
    return f"{proved}; no rule and no default is local: such turns fail unless a user names {named}"


def _sources(ready: CompiledTurnPolicy) -> Iterator[Source]:
    """Name every candidate that some facts could bring up, slot by slot."""
    scoped = _scopes(ready)
    for alias, model in ready.aliases.items():
        yield Source("per_message_override", f"@{alias}", model)
    for model in ready.models:
        yield Source("manual_sticky", "any model a user sets", model)
    for each in scoped:
        yield from _rule_sources(each)
    for each in scoped:
        yield from _inferred_sources(ready, each)
    for each in scoped:
        for name in each.scope.defaults:
            yield Source("workspace_default", f"default{_inside(each)}", name)
    for name in ready.defaults:
        yield Source("global_default", "global default", name)
    if ready.local_model in ready.models and ready.local_model not in ready.defaults:
        yield Source("global_default", "local model for what must stay", ready.local_model)


def _rule_sources(scoped: Scoped) -> Iterator[Source]:
    for rule in scoped.rules[: scoped.own]:
        for model in rule.models:
            yield Source("rule", f"rule {rule.name}{_inside(scoped)}", model)


def _inferred_sources(ready: CompiledTurnPolicy, scoped: Scoped) -> Iterator[Source]:
    """Name the models patterns and delegations may bring up; an upgrade uses the same tiers."""
    if scoped.scope.pattern.mode == "apply":
        where = f"any model with a record{_inside(scoped)}"
        yield from (Source("pattern", where, model) for model in ready.models)
    for tier in TIERS:
        model = scoped.scope.tiers.get(tier)
        if model is not None:
            yield Source("delegate_request", f"tier {tier}{_inside(scoped)}", model)


def _inside(scoped: Scoped) -> str:
    return "" if scoped.workspace is None else f" in {scoped.workspace}"


def condition_text(asked: Condition) -> str:
    """Write a condition in one line, in the words of `routing.yaml`."""
    said = [
        f"{name} {_value_text(getattr(asked, name))}"
        for name in set_fields(asked)
        if name not in TREES and name not in _MONEY
    ]
    for name, written in _MONEY.items():
        amount = getattr(asked, name)
        if amount is not None and amount is not UNSET:
            said.append(f"{written} {microusd_text(amount)}")
    said += [condition_text(each) for each in asked.all_of or ()]
    if asked.any_of is not None:
        said.append(f"({' or '.join(condition_text(each) for each in asked.any_of)})")
    if asked.not_ is not None:
        said.append(f"not ({condition_text(asked.not_)})")
    return " and ".join(said) or "always"


_MONEY = {
    "cost_today_exceeds_microusd": "cost_today_exceeds_usd",
    "team_budget_remaining_lt_microusd": "team_budget_remaining_lt",
}


def _value_text(value: str | int | bool | tuple[str, ...] | TimeWindow) -> str:  # noqa: FBT001 - it is the value
    if isinstance(value, TimeWindow):
        return f"{clock_text(value.start)}-{clock_text(value.end)}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(quote, value))
    return quote(value) if isinstance(value, str) else str(value)


def clock_text(minutes: int) -> str:
    """Write minutes since midnight as a clock shows them."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
