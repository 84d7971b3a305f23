"""`cost`: the money spent, by model, session, key and day."""

from __future__ import annotations

from contextlib import closing
from typing import Final, Literal

from pointsman.app import Pointsman
from pointsman.kernel.document import printable
from pointsman.kernel.instant import DAY, Instant, instant_text, read_instant
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.mcp.shapes import Amounts, CostInput, CostOutput, CostRow
from pointsman.mcp.tool import Hints, Tool, ToolAnswer, ToolRequest
from pointsman.mcp.working import in_thread
from pointsman.storage.stores.spend import SPEND, SpendAmounts, SpendQuery, SpendReader, Total

MOST_ROWS: Final = 50
MOST_LINES: Final = 10
NOTHING: Final = SpendAmounts(0, 0, 0, 0, 0, 0, 0, 0)
TOLD: Final = (
    "Tell what model calls cost, in all and by model, session, key and day; optionally of one "
    "session or key, or since a day."
)

Part = Literal["model", "session", "key", "day"]


def cost_tool(pointsman: Pointsman) -> Tool[CostInput]:
    """Return the tool."""

    async def cost(call: ToolRequest[CostInput]) -> ToolAnswer:
        reach = call.by.caller.reach
        found = await in_thread(lambda: _read_cost(pointsman, call.given, reach))
        return ToolAnswer(found, _text(found))

    return Tool(
        "cost",
        "Tell what was spent",
        TOLD,
        CostInput,
        CostOutput,
        ("GET", "/api/cost"),
        Hints(is_read_only=True),
        cost,
    )


def _read_cost(pointsman: Pointsman, given: CostInput, reach: str | None) -> CostOutput:
    place = pointsman.home.place(SPEND)
    first_day = 0 if given.since is None else read_instant(given.since) // DAY
    asked = SpendQuery(given.session_id, given.key_id, first_day, tenant=reach)
    if not place.exists():
        return CostOutput(_amounts(NOTHING), (), (), (), ())
    with closing(SpendReader(place)) as reader:
        whole = next(iter(reader.totals("all", asked)), Total("", NOTHING))
        return CostOutput(
            total=_amounts(whole.amounts),
            by_model=_rows(reader, "model", asked),
            by_session=_rows(reader, "session", asked),
            by_key=_rows(reader, "key", asked),
            by_day=_rows(reader, "day", asked),
        )


def _rows(reader: SpendReader, part: Part, asked: SpendQuery) -> tuple[CostRow, ...]:
    totals = sorted(reader.totals(part, asked), key=lambda each: _rank(part, each), reverse=True)
    return tuple(_row(part, each) for each in totals[:MOST_ROWS])


def _rank(part: Part, total: Total) -> int:
    return int(total.what) if part == "day" else total.amounts.cost_microusd


def _row(part: Part, total: Total) -> CostRow:
    name = instant_text(Instant(int(total.what) * DAY))[:10] if part == "day" else total.what
    return CostRow(*total.amounts, _usd(total.amounts), name=name)


def _amounts(amounts: SpendAmounts) -> Amounts:
    return Amounts(*amounts, _usd(amounts))


def _usd(amounts: SpendAmounts) -> str:
    return microusd_text(MicroUsd(amounts.cost_microusd))


def _text(found: CostOutput) -> str:
    if not found.total.calls:
        return "nothing was spent"
    lines = [f"total ${found.total.cost_usd} in {found.total.calls} calls"]
    for part, rows in (("model", found.by_model), ("day", found.by_day)):
        lines += [f"{part} {row.name}: ${row.cost_usd}" for row in rows[:MOST_LINES]]
    return "\n".join(printable(line) for line in lines)
