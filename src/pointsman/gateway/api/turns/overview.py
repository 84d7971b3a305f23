"""The last day at a glance."""

from __future__ import annotations

from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.shapes import LedgerState
from pointsman.gateway.api.turns.shapes import (
    BucketRow,
    OverviewAnswer,
)
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.instant import DAY, SECOND, Instant, instant_text
from pointsman.storage.stores.turn_rows import BUCKET
from pointsman.turns.chain.validation import stop_text


class OverviewApi:
    """Serves the overview that the dashboard opens with."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._catalog = parts.catalog

    async def show_overview(self, request: ApiRequest) -> OverviewAnswer:
        """Tell how the last day went."""
        reach = request.caller.reach
        return await in_thread(lambda: self._overview(reach))

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
