"""`backtest`: recorded turns under other policies, and a forecast of cost, time and quality."""

from __future__ import annotations

from pathlib import Path

import click

from pointsman.app import Given, Pointsman
from pointsman.audit.backtest.backtester import BacktestCase
from pointsman.audit.backtest.forecast import Forecast, ForecastMeasure
from pointsman.audit.backtest.result import (
    ESTIMATE,
    Backtest,
    InputCost,
    TurnChange,
    backtest_value,
    picture,
)
from pointsman.audit.backtest.scenario import read_scenario
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.records import NO_MODEL, bar
from pointsman.cli.terms import Session, command, count_text, read_input
from pointsman.errors import InputError
from pointsman.kernel.columns import table
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, instant_text, read_instant
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.turns.policy import TurnPolicy

MOST_CHANGES = 10
IN_FORCE = "the policy in force"


@click.command(cls=ExampleCommand)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE|-",
    help="Another routing.yaml; several are compared in one pass [that in force].",
)
@click.option("--models", metavar="FILE", help="The models.yaml it rests on [that of the home].")
@click.option("--since", metavar="INSTANT", help="Only turns from this instant on (RFC 3339).")
@click.option("--no-previews", is_flag=True, help="Leave out turns that `route` only previewed.")
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="MODEL=IN,OUT",
    help="As if a model cost this for a million tokens; also MODEL=IN,OUT,CACHED,WRITTEN.",
)
@click.option("--out", multiple=True, metavar="NAME", help="As if a model or provider was down.")
@click.option("--without", multiple=True, metavar="MODEL", help="As if a model was gone.")
@click.option("--picture", "target", metavar="FILE", help="Also draw it, as SVG.")
@command
def backtest(  # noqa: PLR0913, PLR0917 - one for each option
    session: Session,
    policies: tuple[str, ...],
    models: str | None,
    since: str | None,
    no_previews: bool,  # noqa: FBT001 - click passes flags so
    prices: tuple[str, ...],
    out: tuple[str, ...],
    without: tuple[str, ...],
    target: str | None,
) -> None:
    """Run recorded turns under other policies, prices or outages: changes and costs."""
    if not (policies or models or prices or out or without):
        raise InputError(
            "name what is to be other", hint="one of --policy, --models, --price, --out, --without"
        )
    if target is not None and len(policies) > 1:
        raise InputError("`--picture` draws one policy")
    start = EPOCH if since is None else read_instant(since)
    with session.open() as pointsman:
        if models is None:
            session.warn(pointsman.in_force().problems)
        given = None if models is None else read_input(models)
        named = _candidates(pointsman, policies, given)
        cases = [
            BacktestCase(policy, read_scenario(policy, prices, out, without)) for policy in named
        ]
        with bar("deciding again", session) as progress:
            found = pointsman.backtest_all(
                cases, start, previews=not no_previews, progress=progress
            )
    if target is not None:
        _write(Path(target), picture(found[0]))
    names = policies or (IN_FORCE,)
    if len(found) == 1:
        session.show(_text(found[0], target), backtest_value(found[0]))
        return
    sections = [_text(each, None) for each in found]
    text = [f"{name}\n{section}\n" for name, section in zip(names, sections, strict=True)]
    value = {
        "policies": [
            {"policy": name, **backtest_value(each)}
            for name, each in zip(names, found, strict=True)
        ]
    }
    session.show("\n".join([*text, _side_by_side(names, found)]), value)


def _candidates(
    pointsman: Pointsman, policies: tuple[str, ...], models: Given | None
) -> list[TurnPolicy]:
    """Read the policies, or take the one in force over other models."""
    if policies:
        return [pointsman.candidate_policy(read_input(each), models) for each in policies]
    if models is None:
        return [pointsman.in_force().ready.policy]
    routing = pointsman.home.path / "routing.yaml"
    text = routing.read_bytes() if routing.exists() else b"schema_version: 1\n"
    return [pointsman.candidate_policy((text, str(routing)), models)]


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
    lines += [f"        {_change_line(each)}" for each in found.changed[:MOST_CHANGES]]
    lines += _rule_lines(found)
    lines += _cost_lines(found.cost)
    lines += _place_lines(found)
    lines += forecast_lines(found.forecast)
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


def _place_lines(found: Backtest) -> list[str]:
    """Tell which turns would leave this machine, or would no longer."""
    places = found.places
    lines = ["", f"{count_text(places.leave, 'turn')} that stayed here would leave this machine"]
    return [*lines, f"{count_text(places.stay, 'turn')} that left would stay here"]


_FORMS = {
    "cost_usd": ("cost, in $", "{:.6f}"),
    "output_tokens": ("output tokens", "{:.0f}"),
    "latency_ms": ("ms of a turn", "{:.0f}"),
    "score": ("score of a judged turn", "{:.3f}"),
    "failed_share": ("share that fails first", "{:.3f}"),
}


def forecast_lines(forecast: Forecast) -> list[str]:
    """Write the forecast, each measure with its interval, and its support."""
    if not forecast.measures:
        return ["", "no recorded call: nothing is known of output, time and quality"]
    heading = ("OF CALLED TURNS", "TURNS", "BEFORE", "AFTER", "95 % FROM", "TO")
    rows = [_forecast_row(each) for each in forecast.measures]
    support = forecast.support
    lines = ["", table([heading, *rows])]
    lines.append(
        f"  as recorded: {support.kept}; estimated from turns like them: {support.estimated}"
    )
    lines += [
        f"  no estimate for {count}: {reason}" for reason, count in support.unsupported.items()
    ]
    if support.refused:
        lines.append(f"  no model would take {count_text(support.refused, 'called turn')}")
    if support.uncalled:
        lines.append(f"  {count_text(support.uncalled, 'turn')} never led to a call")
    return lines


def _forecast_row(each: ForecastMeasure) -> tuple[str, ...]:
    name, form = _FORMS[each.name]
    figures = (each.before, each.after, each.low, each.high)
    return (name, str(each.turns), *(form.format(figure) for figure in figures))


def _side_by_side(names: tuple[str, ...], found: list[Backtest]) -> str:
    """Write one line for each policy: what changes, and each measure with its interval."""
    heading = ("POLICY", "CHANGE", "LEAVE", *(name for name, _ in _FORMS.values()))
    rows = [heading]
    for name, each in zip(names, found, strict=True):
        known: dict[str, ForecastMeasure] = {
            measure.name: measure for measure in each.forecast.measures
        }
        cells = [_cell(known.get(key), form) for key, (_, form) in _FORMS.items()]
        rows.append((name, str(each.changed_count), str(each.places.leave), *cells))
    return "\n".join(map(printable, table(rows).split("\n")))


def _cell(measure: ForecastMeasure | None, form: str) -> str:
    if measure is None:
        return "?"
    after, low, high = (form.format(value) for value in (measure.after, measure.low, measure.high))
    return f"{after} ({low} to {high})"


def _unable_lines(found: Backtest) -> list[str]:
    if not found.unable_count:
        return []
    return [
        "",
        f"{count_text(found.unable_count, 'turn')} could not be decided again",
        *(f"        {each.turn_id}  {each.code}: {each.reason}"
          for each in found.unable[:MOST_CHANGES]),
    ]  # fmt: skip
