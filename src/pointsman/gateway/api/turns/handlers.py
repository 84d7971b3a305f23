"""Turns over HTTP as people look for them: filtered, paged by key, and one with all its record."""

from __future__ import annotations

from typing import Final, cast, get_args

from msgspec import Raw
from msgspec.structs import asdict, replace

from pointsman.app import Pointsman
from pointsman.audit.receipts.shapes import Disclosure
from pointsman.audit.turn_shapes import turn_answer, turn_row
from pointsman.audit.turn_story import recent_stories
from pointsman.errors import InputError
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.turns.record import record_of, replay_turn
from pointsman.gateway.api.turns.shapes import (
    CallerTold,
    FilterRow,
    FiltersAnswer,
    ListedTurn,
    RecordAnswer,
    ReplayedAnswer,
    TurnsAnswer,
)
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.failures import caller_error, status_of
from pointsman.kernel.content import seal_text
from pointsman.kernel.instant import LATEST, Instant, instant_text
from pointsman.kernel.number import microusd
from pointsman.placement.trace import Gate, Placed
from pointsman.storage.stores.turn_index import Listed, Wanted
from pointsman.turns.story.turn_story import TurnState, TurnStory

_FILTERS: Final = ("session", "rule", "workspace", "model", "policy")


class TurnApi:
    """Serves turns."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._catalog = parts.catalog

    async def list_turns(self, request: ApiRequest) -> TurnsAnswer:
        """List the latest turns."""
        pointsman = self._parts.pointsman
        most, wanted = request.limit(), _read_filters(request, pointsman)
        return await in_thread(lambda: self._list(wanted, most))

    def _list(self, wanted: Wanted, most: int) -> TurnsAnswer:
        index, behind = self._catalog.look()
        if behind and wanted == Wanted(tenant=wanted.tenant):
            # The rows are still being made: the newest are read from the ledger itself.
            found = recent_stories(self._parts.pointsman.home.seen_by(wanted.tenant), most)
            return TurnsAnswer(tuple(map(_story_row, found)), None, behind)
        rows = index.turns(wanted, most + 1)
        page = rows[:most]
        more = f"{page[-1].at}.{page[-1].decision_id}" if len(rows) > most else None
        return TurnsAnswer(tuple(_row(each) for each in page), more, behind)

    async def list_filters(self, request: ApiRequest) -> FiltersAnswer:
        """Tell which values turns have."""
        reach = request.caller.reach

        def read_filters() -> FiltersAnswer:
            values = self._catalog.look()[0].values(reach)
            rows = [FilterRow(each.what, each.value, each.turns) for each in values]  # type: ignore[arg-type] # as the query names them
            return FiltersAnswer(tuple(rows))

        return await in_thread(read_filters)

    async def show_turn(self, request: ApiRequest) -> dict[str, object]:
        """Tell what happened in a turn, and why."""
        name, pointsman, reach = request.part("id"), self._parts.pointsman, request.caller.reach
        return await in_thread(lambda: turn_answer(pointsman.read_turn(name, reach)))

    async def show_record(self, request: ApiRequest) -> RecordAnswer:
        """Tell all that is recorded about a turn."""
        caller = request.caller
        name, pointsman = request.part("id"), self._parts.pointsman
        is_open = caller.is_admin
        home = pointsman.home.seen_by(caller.reach)

        def read_record() -> RecordAnswer:
            found = record_of(home, name, is_open=is_open)
            error = caller_error(pointsman.read_turn(name, caller.reach))
            if error is None:
                return found
            return replace(
                found, caller_told=CallerTold(status_of(error), error.code, error.message)
            )

        return await in_thread(read_record)

    async def show_receipt(self, request: ApiRequest) -> Raw:
        """Send the signed receipt of a turn."""
        asked = request.parameter("disclose") or "full"
        if asked not in get_args(Disclosure):
            raise InputError("`disclose` is none there is", hint=", ".join(get_args(Disclosure)))
        name, pointsman, reach = request.part("id"), self._parts.pointsman, request.caller.reach
        disclosure = cast(Disclosure, asked)
        return Raw(await in_thread(lambda: pointsman.receipt(name, disclosure, reach)))

    async def replay_turn(self, request: ApiRequest) -> ReplayedAnswer:
        """Re-run the decisions of a turn, and compare their bytes."""
        home = self._parts.pointsman.home.seen_by(request.caller.reach)
        name = request.part("id")
        return await in_thread(lambda: replay_turn(home, name))


def _read_filters(request: ApiRequest, pointsman: Pointsman) -> Wanted:
    given = {name: request.parameter(name) or None for name in _FILTERS}
    digest, text = request.parameter("digest"), request.parameter("text")
    if text:
        digest = seal_text(text, pointsman.home.content_key()).digest
    state = request.parameter("state") or None
    if state is not None and state not in get_args(TurnState):
        raise InputError("`state` is none that turns have", hint=", ".join(get_args(TurnState)))
    at, before = _cursor(request)
    return Wanted(
        digest=digest or None,
        **given,
        least=_least(request),
        state=cast(TurnState | None, state),
        tenant=request.caller.reach,
        at=at,
        before=before,
    )


def _least(request: ApiRequest) -> int | None:
    value = request.parameter("min_cost_usd")
    return microusd(value) if value else None


def _cursor(request: ApiRequest) -> tuple[Instant, str]:
    """Return where the last page ended; `before` alone is an instant."""
    cursor = request.parameter("cursor")
    if not cursor:
        return request.instant("before", LATEST), ""
    at, _, decision_id = cursor.partition(".")
    if not (at.isascii() and at.isdigit() and len(at) < 17 and decision_id):
        raise InputError("`cursor` is none that was given")
    return Instant(int(at)), decision_id


def _row(row: Listed) -> ListedTurn:
    placed = Placed("", row.placement_rule, cast("Gate", row.gate), "") if row.gate else None
    return ListedTurn(
        turn_id=row.turn_id,
        decision_id=row.decision_id,
        session_id=row.session_id,
        at=instant_text(row.at),
        chosen_model=row.model,
        policy=row.policy,
        rule_name=row.rule or None,
        is_preview=bool(row.is_preview),
        placement=placed,
        workspace=row.workspace,
        digest=row.digest,
        rejected=row.rejected,
        is_worker=bool(row.is_worker),
        served_model=row.served if row.calls > row.failed else "",
        state=row.state,
        fallbacks=row.fallbacks,
        calls=row.calls,
        error_class=row.error_class,
        cost_microusd=row.cost_microusd,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        elapsed_ms=row.elapsed_us / 1000,
    )


def _story_row(story: TurnStory) -> ListedTurn:
    shown, calls = story.first, story.calls
    return ListedTurn(
        **asdict(turn_row(shown)),
        placement=shown.placed,
        rejected=sum(each.verdict == "rejected" for each in shown.trace.chain),
        served_model=story.served_model,
        state=story.state,
        fallbacks=sum(each.kind == "fallback" for each in story.later),
        calls=len(calls),
        error_class=next((each.error_class for each in reversed(calls) if each.error_class), ""),
        cost_microusd=story.cost_microusd,
        input_tokens=sum(each.input_tokens for each in calls),
        output_tokens=sum(each.output_tokens for each in calls),
        elapsed_ms=sum(each.elapsed_us for each in calls) / 1000,
    )
