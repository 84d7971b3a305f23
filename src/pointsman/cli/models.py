"""`models` and `providers`: the models to route to, and whether they can be used now."""

from __future__ import annotations

import click
import msgspec

from pointsman.app import Pointsman
from pointsman.cli.groups import CommandGroup, ExampleCommand
from pointsman.cli.terms import Session, command
from pointsman.errors import InputError
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.operations.providers import provider_rows, provider_table, recoveries
from pointsman.storage.policies.secrets import missing_secrets
from pointsman.turns.registry.catalogue import CAPABILITY_NAMES
from pointsman.turns.registry.models import Model, meant, model_id, provider_of
from pointsman.turns.registry.sources import value_sources

UNKNOWN = "?"
_VALUE_HEADINGS = ("VALUE", "", "SOURCE")
_HEADINGS = (
    "MODEL", "LOCATION", "TIER", "ALIASES", "CONTEXT", "IN $/M", "OUT $/M", "CONFIGURED",
)  # fmt: skip


@click.command(cls=ExampleCommand)
@click.argument("model", required=False)
@command
def models(session: Session, model: str | None) -> None:
    """List the models there are, what they cost, and whether they can be used.

    With MODEL (an id or an alias): each value of that model and where it comes from.
    """
    with session.open() as pointsman:
        in_force, files = pointsman.in_force(), pointsman.files
        session.warn(in_force.problems)
        missing = _missing(pointsman)
    known = in_force.ready.models
    sources = {
        name: value_sources(name, in_force.models, files.prices, files.catalogue) for name in known
    }
    values = [_value(name, known[name], _needs(name, missing), sources[name]) for name in known]
    if model is None:
        rows = [_cells(name, known[name], _needs(name, missing)) for name in known]
        session.show(table([_HEADINGS, *rows]), values)
        return
    name = in_force.ready.aliases.get(model, model_id(model))
    if name not in known:
        hint = meant(model, in_force.ready.aliases) or "`pointsman models` lists them"
        raise InputError(f"`{model}` is no model of this home", hint=hint)
    value = next(each for each in values if each["model"] == name)
    session.show(table([_VALUE_HEADINGS, *_value_rows(known[name], sources[name])]), value)


@click.group(cls=CommandGroup, invoke_without_command=True)
@command
def providers(session: Session) -> None:
    """List providers and models with their state, and what is missing to use them.

    The state is the one that all processes of the home share, also after a restart.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    with session.open() as pointsman:
        in_force, health = pointsman.in_force(), pointsman.health
        rows = provider_rows(health.reports(in_force.ready.models), pointsman.clock.now())
        session.warn((*in_force.problems, *([health.trouble] if health.trouble else [])))
        missing = _missing(pointsman)
    lines = [provider_table(rows)]
    lines += [f"not configured: {name} needs {', '.join(names)}" for name, names in missing.items()]
    value = [
        {
            **msgspec.structs.asdict(row),
            "configured": row.provider not in missing,
            "missing": missing.get(row.provider, []),
        }
        for row in rows
    ]
    session.show("\n".join(map(_lines_printable, lines)), value)


@providers.command()
@click.argument("name")
@command
def clear(session: Session, name: str) -> None:
    """End the outage of a provider with all its models, or of one model.

    It is recorded, and counts for every process of the home from its next turn on.
    """
    with session.open() as pointsman:
        back = recoveries(pointsman.clear_outage(name))
        left = pointsman.health.outage_of(model_id(name))
    lines = [
        f"{each.provider if each.scope == 'provider_wide' else each.models_recovered[0]} may be"
        f" called again; it was out for {each.downtime_seconds} s"
        for each in back
    ] or [f"{name} was not out by itself"]
    if left is not None:
        lines.append(f"{left.provider} is out as a whole ({left.why}): clear it, too")
    session.show("\n".join(map(printable, lines)), {"name": name, "cleared": back})


def _lines_printable(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))


def _missing(pointsman: Pointsman) -> dict[str, list[str]]:
    """Return the references of secrets that cannot be found, by provider."""
    known = pointsman.in_force().models.providers
    home = pointsman.home.path
    found = {name: missing_secrets(provider, home) for name, provider in known.items()}
    return {name: references for name, references in found.items() if references}


def _needs(name: str, missing: dict[str, list[str]]) -> list[str]:
    return missing.get(provider_of(name), [])


def _cells(name: str, model: Model, missing: list[str]) -> tuple[str, ...]:
    price = model.price
    context = model.capabilities.max_context_tokens
    return (
        name,
        model.zone,
        model.tier or "",
        ", ".join(model.aliases),
        UNKNOWN if context is None else str(context),
        _usd(price.input if price else None) or UNKNOWN,
        _usd(price.output if price else None) or UNKNOWN,
        f"no: {', '.join(missing)}" if missing else "yes",
    )


def _value_rows(model: Model, sources: dict[str, str]) -> list[tuple[str, ...]]:
    price = model.price
    rates = (
        f"{_usd(price.input if price else None) or UNKNOWN} in,"
        f" {_usd(price.output if price else None) or UNKNOWN} out"
    )
    values = {"price": rates, **{name: _known_text(model, name) for name in CAPABILITY_NAMES}}
    return [(name, value, sources[name]) for name, value in values.items()]


def _known_text(model: Model, capability: str) -> str:
    value = getattr(model.capabilities, capability)
    return UNKNOWN if value is None else str(value).lower()


def _value(
    name: str, model: Model, missing: list[str], sources: dict[str, str]
) -> dict[str, object]:
    price = model.price
    return {
        "model": name,
        "location": model.location,
        "zone": model.zone,
        "tier": model.tier,
        "can_delegate": model.can_delegate,
        "aliases": model.aliases,
        "capabilities": model.capabilities,
        "sources": sources,
        "input_usd_per_million": _usd(price.input if price else None),
        "output_usd_per_million": _usd(price.output if price else None),
        "configured": not missing,
        "missing": missing,
    }


def _usd(rate: MicroUsd | None) -> str | None:
    return None if rate is None else microusd_text(rate)
