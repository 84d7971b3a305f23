"""`cost`: the spending by model, key, session and day."""

from __future__ import annotations

from contextlib import closing

import click

from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command, count_text, waits
from pointsman.kernel.columns import pad_line
from pointsman.kernel.document import printable
from pointsman.kernel.instant import DAY, Instant, instant_text, read_instant
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.storage.stores.spend import SPEND, By, SpendAmounts, SpendQuery, SpendReader, Total

PARTS: tuple[By, ...] = ("model", "key", "session", "day")
MOST_LINES = 20
NOTHING = SpendAmounts(0, 0, 0, 0, 0, 0, 0, 0)


@click.command(cls=ExampleCommand)
@click.option("--session", "session_id", metavar="ID", help="Only what this session spent.")
@click.option("--key", "key_id", metavar="ID", help="Only what this key spent.")
@click.option("--since", metavar="INSTANT", help="Only from the day of this instant on, in UTC.")
@command
@waits("adding up")
def cost(session: Session, session_id: str | None, key_id: str | None, since: str | None) -> None:
    """Show what was spent, by model, key, session and day."""
    first_day = 0 if since is None else read_instant(since) // DAY
    asked = SpendQuery(session_id=session_id, key_id=key_id, first_day=first_day)
    with session.open() as pointsman:
        place = pointsman.home.place(SPEND)
        found = _read_totals(SpendReader(place), asked) if place.exists() else {}
    whole = next(iter(found.get("all", ())), Total("", NOTHING))
    value = {"session": session_id, "key": key_id, **_amounts(whole.amounts)}
    value.update(
        {f"by_{part}": [_value(part, each) for each in found.get(part, ())] for part in PARTS}
    )
    session.show(_text(whole, found), value)


def _read_totals(reader: SpendReader, asked: SpendQuery) -> dict[By, list[Total]]:
    with closing(reader):
        return {by: reader.totals(by, asked) for by in ("all", *PARTS)}


def _text(whole: Total, found: dict[By, list[Total]]) -> str:
    if not whole.amounts.calls:
        return "nothing was spent"
    lines = [f"total  {_summary(whole.amounts)}"]
    for part in PARTS:
        lines.append(f"by {part}")
        # The newest days, and the dearest models, keys and sessions: users look for these.
        totals = sorted(found[part], key=lambda each: _rank(part, each), reverse=True)
        lines += [
            f"  {pad_line(_name(part, each), 40)} {_summary(each.amounts)}"
            for each in totals[:MOST_LINES]
        ]
        if len(totals) > MOST_LINES:
            lines.append(f"  and {len(totals) - MOST_LINES} more: --json lists all")
    if whole.amounts.estimated_calls or whole.amounts.unpriced_calls:
        lines.append(_caveat(whole.amounts))
    return "\n".join(printable(line) for line in lines)


def _rank(part: By, total: Total) -> int:
    return int(total.what) if part == "day" else total.amounts.cost_microusd


def _summary(amounts: SpendAmounts) -> str:
    read = amounts.input_tokens + amounts.cached_input_tokens + amounts.cache_creation_input_tokens
    usd = f"${microusd_text(MicroUsd(amounts.cost_microusd))}"
    return (
        f"{usd:<12} {count_text(amounts.calls, 'call'):<12} {read} in, {amounts.output_tokens} out"
    )


def _caveat(amounts: SpendAmounts) -> str:
    parts = []
    if amounts.estimated_calls:
        parts.append(f"{count_text(amounts.estimated_calls, 'call')} charged by estimate")
    if amounts.unpriced_calls:
        parts.append(f"{count_text(amounts.unpriced_calls, 'call')} without a known price")
    return "note   " + ", ".join(parts)


def _name(part: By, total: Total) -> str:
    return _day(total.what) if part == "day" else total.what or "-"


def _value(part: By, total: Total) -> dict[str, object]:
    name = _day(total.what) if part == "day" else total.what
    return {part: name, **_amounts(total.amounts)}


def _amounts(amounts: SpendAmounts) -> dict[str, object]:
    return {
        **amounts._asdict(),
        "cost_usd": microusd_text(MicroUsd(amounts.cost_microusd)),
    }


def _day(text: str) -> str:
    return instant_text(Instant(int(text) * DAY))[:10]
