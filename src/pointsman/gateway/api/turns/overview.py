"""The last day at a glance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.shapes import LedgerState
from pointsman.gateway.api.turns.shapes import (
    BucketRow,
    LearnedRow,
    LearningAnswer,
    OverviewAnswer,
    Percentiles,
    PerformanceAnswer,
    PerformanceRow,
)
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import DAY, SECOND, Instant, instant_text
from pointsman.storage.stores.turn_index import EndedTurn, LearnedTurns
from pointsman.storage.stores.turn_rows import BUCKET
from pointsman.turns.chain.validation import stop_text
from pointsman.turns.registry.models import provider_of
from pointsman.turns.registry.prices import Price, cost

MOST_TURNS: Final = 100_000
"""How many turns are looked at; of more, the newest. So many take a fifth of a second."""
_ANSWERED: Final = frozenset({"done", "fallback"})


class OverviewApi:
    """Serves the overview that the dashboard opens with."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._catalog = parts.catalog

    async def show_overview(self, request: ApiRequest) -> OverviewAnswer:
        """Tell how the last day went."""
        reach = request.caller.reach
        return await in_thread(lambda: self._overview(reach))

    async def show_performance(self, request: ApiRequest) -> PerformanceAnswer:
        """Tell how the turns of a span of time went, by model and provider."""
        now = self._parts.pointsman.clock.now()
        since = request.instant("since", Instant(now - DAY))
        end, reach = request.instant("before", Instant(now + 1)), request.caller.reach

        def read() -> PerformanceAnswer:
            index, behind = self._catalog.look()
            rows = index.ended_turns(since, end, reach, MOST_TURNS + 1)
            return performance(rows, since, end, behind)

        return await in_thread(read)

    async def show_learning(self, request: ApiRequest) -> LearningAnswer:
        """Tell what learning did in a span of time, and about how much it saved."""
        pointsman = self._parts.pointsman
        now = pointsman.clock.now()
        since = request.instant("since", Instant(now - 30 * DAY))
        end, reach = request.instant("before", Instant(now + 1)), request.caller.reach
        ready = pointsman.in_force().ready
        default = ready.defaults[0] if ready.defaults else ""
        known = ready.models.get(default)

        def read() -> LearningAnswer:
            index, behind = self._catalog.look()
            rows = tuple(
                _learned_row(each, None if known is None else known.price)
                for each in index.learned_turns(since, end, reach)
            )
            saved = [
                each.default_microusd - each.cost_microusd
                for each in rows
                if each.default_microusd is not None
            ]
            return LearningAnswer(
                since=instant_text(since),
                before=instant_text(end),
                mode=ready.policy.pattern.mode,
                default_model=default,
                turns=sum(each.turns for each in rows),
                all_turns=len(index.ended_turns(since, end, reach, MOST_TURNS)),
                saved_microusd=sum(saved) if saved else None,
                by_model=rows,
                behind=behind,
            )

        return await in_thread(read)

    def _overview(self, reach: str | None) -> OverviewAnswer:
        pointsman = self._parts.pointsman
        index, behind = self._catalog.look()
        now = pointsman.clock.now()
        since, midnight = Instant(now - DAY), Instant(now - now % DAY)
        buckets = index.buckets(since, reach)
        today = [each for each in buckets if each.start >= midnight]
        ledger, in_force = pointsman.decision_recorder.recorder().health, pointsman.in_force()
        return OverviewAnswer(
            at=instant_text(now),
            since=instant_text(since),
            bucket_s=BUCKET // SECOND,
            buckets=tuple(
                BucketRow(
                    instant_text(each.start),
                    each.model,
                    each.turns,
                    each.fallbacks,
                    each.cost_microusd,
                )
                for each in buckets
            ),
            cost_today_microusd=sum(each.cost_microusd for each in today),
            turns_today=sum(each.turns for each in today),
            tainted_sessions=sum(
                reach is None or self._parts.keyring.session_tenant(each.session_id, now) == reach
                for each in pointsman.tainted()
            ),
            ledger=LedgerState(writable=ledger.is_writable, cause=ledger.cause),
            stops=tuple(stop_text(each.fact) for each in pointsman.stops.seen_by(reach)),
            configuration=tuple(str(each) for each in in_force.problems),
            default_model=", ".join(in_force.ready.defaults),
            behind=behind,
        )


def _learned_row(turns: LearnedTurns, price: Price | None) -> LearnedRow:
    elsewhere = None if price is None else cost(price, turns.input_tokens, turns.output_tokens)
    return LearnedRow(turns.model, turns.turns, turns.failed, turns.cost_microusd, elsewhere)


def performance(
    rows: Sequence[EndedTurn], since: Instant, end: Instant, behind: int
) -> PerformanceAnswer:
    """Add up turns, the newest first; turns beyond the most that are looked at are left out."""
    looked = rows[:MOST_TURNS]
    return PerformanceAnswer(
        since=instant_text(since),
        before=instant_text(end),
        total=_performance_row("", looked),
        by_model=_group_rows(looked, lambda each: each.model),
        by_provider=_group_rows(looked, lambda each: provider_of(each.model)),
        is_cut=len(rows) > len(looked),
        behind=behind,
    )


def _group_rows(
    rows: Sequence[EndedTurn], name: Callable[[EndedTurn], str]
) -> tuple[PerformanceRow, ...]:
    groups: dict[str, list[EndedTurn]] = defaultdict(list)
    for each in rows:
        if each.model:
            groups[name(each)].append(each)
    found = [_performance_row(group, members) for group, members in groups.items()]
    return tuple(sorted(found, key=lambda each: (-each.turns, each.name)))


def _performance_row(name: str, rows: Sequence[EndedTurn]) -> PerformanceRow:
    answered = [each for each in rows if each.state in _ANSWERED]
    return PerformanceRow(
        name=name,
        turns=len(rows),
        failed=sum(each.state == "failed" for each in rows),
        refused=sum(each.state == "refused" for each in rows),
        fallbacks=sum(each.fallbacks for each in rows),
        cost_microusd=sum(each.cost_microusd for each in rows),
        took=_percentiles([each.elapsed_us for each in answered if each.elapsed_us]),
        first_byte=_percentiles([each.first_byte_us for each in answered if each.first_byte_us]),
    )


def _percentiles(values: list[int]) -> Percentiles | None:
    """Return values that exist, not ones between them: the nearest rank."""
    if not values:
        return None
    ranked = sorted(values)
    p50, p95, p99 = (ranked[(len(ranked) * part + 99) // 100 - 1] / 1000 for part in (50, 95, 99))
    return Percentiles(len(ranked), p50, p95, p99)
