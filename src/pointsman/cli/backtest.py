"""`backtest`: recorded turns under another policy."""

from __future__ import annotations

from pathlib import Path

import click

from pointsman.audit.backtest.picture import picture
from pointsman.audit.backtest.result import (
    ESTIMATE,
    Backtest,
    InputCost,
    TurnChange,
    backtest_value,
)
from pointsman.cli.terms import Session, command, count_text, read_input
from pointsman.errors import InputError
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, instant_text, read_instant
from pointsman.kernel.number import MicroUsd, microusd_text

MOST_LISTED = 10
NO_MODEL = "no model"


@click.command()
@click.option("--policy", required=True, metavar="FILE|-", help="The other routing.yaml.")
@click.option("--models", metavar="FILE", help="The models.yaml it rests on [that of the home].")
@click.option("--since", metavar="INSTANT", help="Only turns from this instant on (RFC 3339).")
@click.option("--no-previews", is_flag=True, help="Leave out turns that `route` only previewed.")
@click.option("--picture", "target", metavar="FILE", help="Also draw it, as SVG.")
@command
def backtest(
    session: Session,
    policy: str,
    models: str | None,
    since: str | None,
    no_previews: bool,  # noqa: FBT001 - click passes flags so
    target: str | None,
) -> None:
    """Run recorded turns under another policy: what changes, and what it costs."""
    start = EPOCH if since is None else read_instant(since)
    with session.open() as pointsman:
        if models is None:
            session.warn(pointsman.in_force().problems)
        other = pointsman.candidate_policy(
            read_input(policy), None if models is None else read_input(models)
        )
        found = pointsman.backtest(other, start, previews=not no_previews)
    if target is not None:
        _write(Path(target), picture(found))
    session.show(_text(found, target), backtest_value(found))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from error


def _text(found: Backtest, target: str | None) -> str:
    head = f"{count_text(found.turns, 'turn')} decided again, {found.changed_count} change model"
    lines = [head, ""]
    names = dict.fromkeys([*found.models_before, *found.models_after])
    rows = [
        (_model(name), str(found.models_before.get(name, 0)), str(found.models_after.get(name, 0)))
        for name in names
    ]
    lines += [table([("MODEL", "BEFORE", "AFTER"), *rows]), ""] if rows else []
    lines += [
        f"{count:>6}  {_model(then)} -> {_model(now)}"
        for (then, now), count in found.shifts.items()
    ]
    lines += [f"        {_change_line(each)}" for each in found.changed[:MOST_LISTED]]
    lines += _rule_lines(found)
    lines += _cost_lines(found.cost)
    lines += _unable_lines(found)
    lines += [f"picture in {target}"] if target is not None else []
    return "\n".join(printable(line) for text in lines for line in text.split("\n"))


def _model(name: str) -> str:
    return name or NO_MODEL


def _change_line(each: TurnChange) -> str:
    by = f"rule {each.rule}" if each.rule else each.after_policy or "nothing"
    return (
        f"{each.turn_id}  {instant_text(each.at)[:19]}Z  {_model(each.before_model)}"
        f" ({each.before_policy or 'nothing'}) -> {_model(each.after_model)} ({by})"
    )


def _rule_lines(found: Backtest) -> list[str]:
    if not found.by_rule:
        return []
    return ["", *(f"{count:>6}  by rule {name}" for name, count in found.by_rule.items())]


def _cost_lines(cost: InputCost) -> list[str]:
    before, after = microusd_text(cost.before_microusd), microusd_text(cost.after_microusd)
    difference = cost.difference_microusd
    more = f"{'+' if difference >= 0 else '-'}${microusd_text(MicroUsd(abs(difference)))}"
    lines = [
        "",
        f"input cost of {count_text(cost.turns, 'turn')}: ${before} -> ${after} ({more})",
        f"  {ESTIMATE}",
    ]
    if cost.price_unknown:
        lines.append(f"  {count_text(cost.price_unknown, 'turn')} left out: a price is unknown")
    if cost.no_model:
        lines.append(f"  {count_text(cost.no_model, 'turn')} left out: no model before or after")
    return lines


def _unable_lines(found: Backtest) -> list[str]:
    if not found.unable_count:
        return []
    return [
        "",
        f"{count_text(found.unable_count, 'turn')} could not be decided again",
        *(f"        {each.turn_id}  {each.code}: {each.reason}"
          for each in found.unable[:MOST_LISTED]),
    ]  # fmt: skip
