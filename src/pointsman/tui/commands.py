"""The slash commands of a session. 002 §9.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from pointsman.app import Pointsman
from pointsman.conversations.conversation import Conversation
from pointsman.conversations.conversations import Conversations, SessionSummary
from pointsman.errors import InputError
from pointsman.kernel.columns import table
from pointsman.kernel.document import escape
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import MicroUsd
from pointsman.operations.providers import (
    ALL_MODELS,
    ProviderRow,
    clears_text,
    provider_rows,
)
from pointsman.operations.rules.check import (
    check_files,
    check_text,
    files_to_check,
    last_good_files,
    origin_lines,
    other_files,
    reload_text,
    reloaded_files,
    rules_text,
)
from pointsman.sessions.feedback import Rating
from pointsman.sessions.rollup import Rollup, rollup_text
from pointsman.sessions.slash import SlashCommand, help_lines
from pointsman.sessions.update import Notice
from pointsman.tui.plain import usd_text
from pointsman.turns.explain import to_screen

_HEADINGS = ("SESSION", "STARTED", "TURNS", "COST", "OPENING")


def sessions_text(sessions: Iterable[SessionSummary]) -> str:
    """List sessions, their workers nested below them."""
    rows = [row for each in sessions for row in (_row(each), *_workers(each))]
    return table([_HEADINGS, *rows]) if rows else "no sessions yet"


def _workers(session: SessionSummary) -> list[tuple[str, ...]]:
    return [_row(each, "└ ") for each in session.workers]


def _row(session: SessionSummary, mark: str = "") -> tuple[str, ...]:
    return (
        f"{mark}{session.id}",
        instant_text(session.started_at)[:16].replace("T", " "),
        str(session.turns),
        usd_text(session.cost_usd),
        escape(" ".join(session.opening.split()), 40),
    )


def cost_text(found: Rollup) -> str:
    """Draw the cost of a session as a tree, then by model and role."""
    rows = [(each.model, "planner", each.cost_microusd, each.turns) for each in found.planner]
    for model in dict.fromkeys(each.model for each in found.workers):
        shares = [each for each in found.workers if each.model == model]
        cost = MicroUsd(sum(each.cost_microusd for each in shares))
        rows.append((model or "no model", "worker", cost, sum(each.turns for each in shares)))
    lines = [rollup_text(found)]
    if rows:
        heads = ("MODEL", "ROLE", "COST", "TURNS")
        cells = [(model, role, usd_text(cost), str(turns)) for model, role, cost, turns in rows]
        lines += ["", table([heads, *cells])]
    return "\n".join(lines)


def providers_text(conversations: Conversations) -> str:
    """List providers and models with their state, its cause, and when it clears."""
    services = conversations.services
    models = services.opened.files.in_force().ready.models
    rows = provider_rows(services.health.reports(models), services.opened.clock.now())
    cells = [(_scope(row), row.state, row.why, clears_text(row)) for row in rows]
    return table([("PROVIDER OR MODEL", "STATE", "CAUSE", "CLEARS"), *cells])


def _scope(row: ProviderRow) -> str:
    return row.provider if row.model == ALL_MODELS else row.model


class CommandOutput(Struct, frozen=True):
    """The output of a command; `notice` is a banner to show."""

    text: str
    kind: Literal["report", "done"] = "report"
    notice: Notice | None = None


class ChatCommands:
    """Runs commands; the app runs those that change only the screen."""

    def __init__(
        self,
        pointsman: Pointsman,
        conversations: Conversations,
        conversation: Conversation,
        width: Callable[[], int],
    ) -> None:
        self._pointsman = pointsman
        self._width = width
        self._conversations = conversations
        self._conversation = conversation
        self.last_turn_id = ""
        """The turn that `/model show` explains, where it never began."""

    async def carry_out(self, command: SlashCommand) -> CommandOutput:  # noqa: PLR0911 - one for each command
        """Run a command; raises where it fails."""
        match command.name:
            case "model":
                return await self._model(command.argument)
            case "route":
                return self._route(command.argument)
            case "rules":
                return self._rules(command.argument)
            case "cost":
                return CommandOutput(cost_text(self._conversation.cost()))
            case "history":
                listed = self._conversations.list_sessions(include_workers=bool(command.argument))
                return CommandOutput(sessions_text(listed))
            case "providers":
                return CommandOutput(providers_text(self._conversations))
            case "good":
                return await self._judge("thumbs_up", command.argument)
            case "bad":
                return await self._judge("thumbs_down", command.argument)
            case _:
                return CommandOutput(
                    "\n".join(help_lines([command.argument] if command.argument else ()))
                )

    def why(self, turn_id: str) -> str:
        """Return the why-screen of a turn, as `pointsman why` prints it."""
        return to_screen(self._pointsman.read_turn(turn_id), self._width())

    def active_text(self) -> str:
        """Return the model the session is bound to, or that rules choose."""
        sticky = self._conversation.sticky_model
        return (
            f"active model: {sticky} (sticky)" if sticky else "active model: by rules and defaults"
        )

    async def _model(self, argument: str) -> CommandOutput:
        if argument == "show":
            return self._show()
        name = None if argument == "-" else argument
        notice = await self._conversation.swap_model(name)
        if notice is not None:
            return CommandOutput(notice.text, "done", notice)
        if name is None:
            return CommandOutput("rules and defaults choose the model again", "done")
        return CommandOutput(
            f"{self._conversation.sticky_model} takes every turn from now on", "done"
        )

    def _show(self) -> CommandOutput:
        last = self._conversation.last_turn
        turn_id = self.last_turn_id or ("" if last is None else last.id)
        if not turn_id:
            return CommandOutput(f"{self.active_text()}\nno turn yet")
        return CommandOutput(f"{self.active_text()}\n\n{self.why(turn_id)}")

    def _route(self, argument: str) -> CommandOutput:
        if argument == "override":
            self._conversation.choose_route("override")
            return CommandOutput("the pattern store's choice takes this turn", "done")
        self._conversation.choose_route("ignore")
        return CommandOutput("the suggestion is dismissed", "done")

    def _rules(self, argument: str) -> CommandOutput:
        pointsman = self._pointsman
        if argument == "show":
            in_force = pointsman.in_force()
            text = rules_text(in_force.ready.policy)
            return CommandOutput("\n".join([text, *origin_lines(in_force)]))
        if argument == "check":
            others = other_files(pointsman.home.path)
            return CommandOutput(check_text(check_files(files_to_check(pointsman.files), others)))
        before = last_good_files(pointsman.home)
        in_force = pointsman.reload()
        files = reloaded_files(pointsman.home, before, in_force)
        return CommandOutput(reload_text(files, in_force))

    async def _judge(self, rating: Rating, comment: str) -> CommandOutput:
        if self._conversation.is_busy:
            raise InputError("a turn is under way", hint="judge it once it is over")
        await self._conversation.feedback(rating, comment)
        said = "good" if rating == "thumbs_up" else "bad"
        return CommandOutput(f"noted: the last answer was {said}", "done")
