"""Tools about turns: which model would take one, why one went where it did, is it still so."""

from __future__ import annotations

from typing import Final

from pointsman.access.caps import Owners
from pointsman.audit.replay import ReplayReport
from pointsman.audit.turn_shapes import DifferenceRow, RouteDecided, TurnAnswer, turn_answer
from pointsman.errors import InputError
from pointsman.kernel.document import printable
from pointsman.kernel.instant import EPOCH, read_instant
from pointsman.kernel.replay import Replayed
from pointsman.mcp.shapes import (
    ExplainInput,
    PreviewInput,
    ReplayedDecision,
    ReplayInput,
    ReplayOutput,
)
from pointsman.mcp.tool import Hints, Tool, ToolAnswer, ToolRequest
from pointsman.mcp.visitor import Admitted, Service
from pointsman.mcp.working import in_thread, with_progress
from pointsman.recording.gathering import CallSurroundings
from pointsman.signals.tokens import count_tokens
from pointsman.storage.policies.policies import InForce
from pointsman.turns.explain import to_json, to_screen
from pointsman.turns.facts import TurnFacts
from pointsman.turns.story.turn_story import TurnStory, preview_story

READ_TURN: Final = ("GET", "/api/turns/{id}")
READ_TURNS: Final = ("GET", "/api/turns")
MOST_LISTED: Final = 20
MOST_DIFFERENCES: Final = 20

PREVIEW: Final = (
    "Tell which model would take a message, and why, without calling any. Give `message` to have "
    "it looked at as it would be now, or `facts` to decide on exactly these. Recorded as a preview."
)
EXPLAIN: Final = (
    "Tell what happened in a recorded turn, and why: the why-screen, every slot of the chain with "
    "its candidates and the reason each won or lost, fallbacks, and every call in order with its "
    "outcome and cost. `last` is the newest turn."
)
REPLAY: Final = (
    "Re-run recorded decisions on their recorded facts and policy and compare the bytes. Says how "
    "many are identical, and names every one that is not. Changes nothing."
)


class TurnTools:
    """The tools about turns of one home."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._pointsman = service.pointsman

    def tools(self) -> tuple[Tool[PreviewInput], Tool[ExplainInput], Tool[ReplayInput]]:
        """Return the tools."""
        preview = ("POST", "/api/route/preview")
        replay = ("POST", "/api/replay")
        return (
            Tool(
                "route_preview", "Preview a route", PREVIEW, PreviewInput, RouteDecided,
                preview, Hints(is_read_only=True), self.preview,
            ),
            Tool(
                "route_explain", "Explain a route", EXPLAIN, ExplainInput, TurnAnswer,
                READ_TURN, Hints(is_read_only=True), self.explain,
            ),
            Tool(
                "route_replay", "Replay decisions", REPLAY, ReplayInput, ReplayOutput,
                replay, Hints(is_read_only=True), self.replay,
            ),
        )  # fmt: skip

    async def preview(self, call: ToolRequest[PreviewInput]) -> ToolAnswer:
        """Decide a turn; no model is called."""
        story = await in_thread(lambda: self._preview(call.given, call.by))
        return ToolAnswer(to_json(story.first), to_screen(story))

    async def explain(self, call: ToolRequest[ExplainInput]) -> ToolAnswer:
        """Show a recorded turn."""
        reach = call.by.caller.reach
        story = await in_thread(lambda: self._pointsman.read_turn(call.given.turn, reach))
        return ToolAnswer(turn_answer(story), to_screen(story))

    async def replay(self, call: ToolRequest[ReplayInput]) -> ToolAnswer:
        """Re-run recorded decisions."""
        given, pointsman, reach = call.given, self._pointsman, call.by.caller.reach
        if given.ids and given.since is not None:
            raise InputError("give `ids` or `since`, not both")
        if given.ids:
            report = await in_thread(lambda: pointsman.replay(given.ids, reach))
        else:
            since = EPOCH if given.since is None else read_instant(given.since)
            report = await with_progress(
                lambda progress: pointsman.replay_all(since, progress=progress, tenant=reach),
                call.report,
            )
        return ToolAnswer(_replay(report), _replay_text(report))

    def _preview(self, given: PreviewInput, by: Admitted) -> TurnStory:
        if (given.facts is None) == (not given.message):
            raise InputError("give either a `message` or `facts`")
        in_force = self._pointsman.in_force()
        if given.facts is not None:
            facts = self._pointsman.given_facts(given.facts, in_force=in_force)
        else:
            facts = self._facts(in_force, given.message, by)
        shown = self._pointsman.route(
            facts,
            is_preview=True,
            record=given.record,
            in_force=in_force,
            tenant=by.caller.tenant,
        )
        return preview_story(in_force.ready, facts, shown)

    def _facts(self, in_force: InForce, message: str, by: Admitted) -> TurnFacts:
        """Gather what a call of this caller would be decided on, here and now."""
        pointsman, house = self._pointsman, self._service.house_for(by.caller)
        now = pointsman.clock.now()
        owners = Owners(by.caller.key_id, "", by.workspace or "", by.caller.tenant)
        caps = house.caps(in_force)
        around = CallSurroundings(
            input_tokens=count_tokens(message),
            workspace_path=by.workspace,
            cost_today_microusd=house.budgets.spent_today(now),
            privacy_level=by.privacy,
            availability=house.health.peek(),
            allowed_models=by.caller.allowed_models,
            budgets=house.budgets.remaining(owners, caps, now) if caps else (),
            caller=lambda: by.facts,
        )
        return pointsman.gathering.facts_of_call(in_force, message, around, now, "strict")


def _replay(report: ReplayReport) -> ReplayOutput:
    others = tuple(_row(each) for each in report.others)
    return ReplayOutput(report.total, report.identical, report.diverged, report.unable, others)


def _row(each: Replayed) -> ReplayedDecision:
    differences = tuple(
        DifferenceRow(row.path, row.recorded, row.found)
        for row in each.differences[:MOST_DIFFERENCES]
    )
    return ReplayedDecision(
        each.decision_id, each.kind, each.verdict.value, each.code, each.reason, differences
    )


def _replay_text(report: ReplayReport) -> str:
    lines = [f"{report.identical} of {report.total} decisions are identical"]
    lines += [
        printable(f"{each.decision_id}  {each.code}  {each.reason}".rstrip())
        for each in report.others[:MOST_LISTED]
    ]
    if len(report.others) > MOST_LISTED:
        lines.append(f"and {len(report.others) - MOST_LISTED} more")
    return "\n".join(lines)
