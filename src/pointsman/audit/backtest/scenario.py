"""Changes of the world beside the policy: prices, models that are out, and models that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pointsman.errors import InputError, NumberError
from pointsman.kernel.number import MicroUsd, microusd
from pointsman.turns.facts import TurnFacts
from pointsman.turns.policy import TurnPolicy
from pointsman.turns.registry.models import aliases, meant, model_id, provider_of
from pointsman.turns.registry.prices import Price


class Scenario(Struct, frozen=True):
    """Prices by model, the providers and models that are out, and the models that are gone."""

    prices: dict[str, Price] = {}
    out: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


AS_IT_WAS = Scenario()


def read_scenario(
    policy: TurnPolicy,
    prices: Sequence[str] = (),
    out: Sequence[str] = (),
    gone: Sequence[str] = (),
) -> Scenario:
    """Read the options of a backtest; each names a model of the policy, an alias or a provider."""
    names = aliases(policy.models)
    providers = dict.fromkeys(map(provider_of, policy.models))
    return Scenario(
        dict(_read_price(names, each) for each in prices),
        tuple(name if name in providers else _model(names, name, providers) for name in out),
        tuple(_model(names, name, ()) for name in gone),
    )


def _model(names: dict[str, str], given: str, others: Iterable[str]) -> str:
    model = names.get(given) or names.get(model_id(given))
    if model is None:
        hint = meant(given, [*names, *others])
        raise InputError(f"`{given[:100]}` names no model of the policy", hint=hint)
    return model


def _read_price(names: dict[str, str], given: str) -> tuple[str, Price]:
    """Read `MODEL=INPUT,OUTPUT[,CACHED[,WRITTEN]]`, in dollars for a million tokens."""
    name, _, text = given.rpartition("=")
    rates = text.split(",")
    if not name or not 2 <= len(rates) <= 4:
        raise InputError(
            f"`{given[:100]}` is no price", hint="write MODEL=INPUT,OUTPUT, like acme:big=3,15"
        )
    read = [_rate(each, given) for each in rates]
    return _model(names, name, ()), Price(*read)


def _rate(text: str, given: str) -> MicroUsd:
    try:
        rate = microusd(text.strip())
    except NumberError as error:
        raise InputError(f"`{given[:100]}` is no price") from error
    if rate < 0:
        raise InputError(f"`{given[:100]}` is no price: it is below 0")
    return rate


def policy_in(scenario: Scenario, policy: TurnPolicy) -> TurnPolicy:
    """Return a policy at the prices of a scenario."""
    if not scenario.prices:
        return policy
    prices = scenario.prices
    models = {
        name: replace(model, price=prices[name]) if name in prices else model
        for name, model in policy.models.items()
    }
    return replace(policy, models=models)


def facts_in(scenario: Scenario, facts: TurnFacts, known: Iterable[str]) -> TurnFacts:
    """Return the facts of a turn in a scenario; `known` are the models of the policy."""
    if scenario.out:
        away = dict.fromkeys(scenario.out, "unavailable")
        facts = replace(facts, availability={**facts.availability, **away})
    if scenario.gone:
        configured = known if facts.configured is None else facts.configured
        left = tuple(name for name in configured if name not in scenario.gone)
        facts = replace(facts, configured=left)
    return facts
