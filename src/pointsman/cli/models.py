"""`models` and `providers`: the models to route to, and whether they can be used now."""

from __future__ import annotations

import click
import msgspec

from pointsman.app import Pointsman
from pointsman.cli.terms import Session, command
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.operations.providers import provider_rows, provider_table, recoveries
from pointsman.storage.policies.secrets import missing_secrets
from pointsman.turns.registry.models import Model, model_id, provider_of

UNKNOWN = "?"
_HEADINGS = (
    "MODEL", "LOCATION", "TIER", "ALIASES", "CONTEXT", "IN $/M", "OUT $/M", "CONFIGURED",
)  # fmt: skip


@click.command()
@command
def models(session: Session) -> None:
    """List the models there are, what they cost, and whether they can be used."""
    with session.open() as pointsman:
        in_force = pointsman.in_force()
        session.warn(in_force.problems)
        missing = _missing(pointsman)
    known = in_force.ready.models
    rows = [_cells(name, known[name], _needs(name, missing)) for name in known]
    session.show(
        table([_HEADINGS, *rows]),
        [_value(name, known[name], _needs(name, missing)) for name in known],
    )


@click.group(invoke_without_command=True)
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
        model.location,
        model.tier or "",
        ", ".join(model.aliases),
        UNKNOWN if context is None else str(context),
        _usd(price.input if price else None) or UNKNOWN,
        _usd(price.output if price else None) or UNKNOWN,
        f"no: {', '.join(missing)}" if missing else "yes",
    )


def _value(name: str, model: Model, missing: list[str]) -> dict[str, object]:
    price = model.price
    return {
        "model": name,
        "location": model.location,
        "tier": model.tier,
        "can_delegate": model.can_delegate,
        "aliases": model.aliases,
        "capabilities": model.capabilities,
        "input_usd_per_million": _usd(price.input if price else None),
        "output_usd_per_million": _usd(price.output if price else None),
        "configured": not missing,
        "missing": missing,
    }


def _usd(rate: MicroUsd | None) -> str | None:
    return None if rate is None else microusd_text(rate)
