"""`models` and `providers`: what there is to route to, and whether it can be used now."""

from __future__ import annotations

import click
import msgspec

from pointsman.app import Pointsman
from pointsman.cli.terms import Session, command
from pointsman.kernel.document import printable
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.runs.audit.columns import table
from pointsman.runs.provider_view import provider_rows, provider_table
from pointsman.storage.secrets import missing_secrets
from pointsman.turns.availability import ALL_HEALTHY, reports
from pointsman.turns.registry import Model, provider_of

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


@click.command()
@command
def providers(session: Session) -> None:
    """List providers and models with their state, and what is missing to use them."""
    with session.open() as pointsman:
        in_force = pointsman.in_force()
        session.warn(in_force.problems)
        missing = _missing(pointsman)
        now = pointsman.clock.now()
    # No call is made yet, so none is recorded: whatever is configured counts as healthy.
    rows = provider_rows(reports(ALL_HEALTHY, now, "", in_force.ready.models), now)
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


def _lines_printable(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))


def _missing(pointsman: Pointsman) -> dict[str, list[str]]:
    """Give the references of secrets that cannot be found, by provider."""
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
