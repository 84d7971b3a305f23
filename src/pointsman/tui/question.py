"""A question to the user, with its answers as keys and buttons: may a tool act, which model."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from pointsman.conversations.conversation import Conversation
from pointsman.errors import PointsmanError
from pointsman.sessions.tool import ConfirmationAnswer
from pointsman.sessions.update import ChooseRoute, Confirm, ConfirmEgress
from pointsman.tui.plain import plain


class AnswerChoice(Struct, frozen=True):
    """One answer: its key, its label, and its action."""

    key: str
    label: str
    take: Callable[[], None]
    is_safe: bool = False
    """Whether it changes nothing, as if no answer were given."""


class UserQuestion(Struct, frozen=True):
    """A question to the user; `name` identifies it."""

    name: str
    title: str
    body: str
    choices: tuple[AnswerChoice, ...]


def tool_question(update: Confirm, conversation: Conversation) -> UserQuestion:
    """Ask whether a tool may act."""
    asked = update.asked
    request = asked.request

    def answer(answered: ConfirmationAnswer) -> Callable[[], None]:
        return lambda: conversation.answer(asked.id, answered)

    who = "a worker's " if asked.is_worker else ""
    parts = [request.command_summary or request.input_summary, *request.projected_modifications]
    choices = [
        AnswerChoice("a", "Allow once", answer(ConfirmationAnswer("allow"))),
        AnswerChoice("s", "For this session", answer(ConfirmationAnswer("allow", "session"))),
        AnswerChoice("d", "Deny", answer(ConfirmationAnswer("deny")), is_safe=True),
    ]
    if not request.scope_key:
        del choices[1]
    title = f"{who}{asked.use.name} wants to {_VERBS[asked.side_effects]}"
    return UserQuestion(asked.id, title, "\n".join(parts), tuple(choices))


_VERBS = {
    "none": "run",
    "read": "read",
    "write": "write",
    "execute": "execute",
    "network": "reach the network",
}


def route_question(update: ChooseRoute, conversation: Conversation) -> UserQuestion:
    """Ask which of two models takes the turn. 002 §5.6."""
    return UserQuestion(
        "route",
        "the pattern store disagrees",
        update.text,
        (
            AnswerChoice("o", "Override", lambda: conversation.choose_route("override")),
            AnswerChoice("i", "Ignore", lambda: conversation.choose_route("ignore"), is_safe=True),
        ),
    )


def egress_question(update: ConfirmEgress, conversation: Conversation) -> UserQuestion:
    """Ask whether a turn may leave this machine."""

    def refuse() -> None:
        conversation.allow_egress(is_allowed=False)

    return UserQuestion(
        "egress",
        "this turn wants to leave this machine",
        update.text,
        (
            AnswerChoice("y", "Let it go", lambda: conversation.allow_egress(is_allowed=True)),
            AnswerChoice("n", "Keep it here", refuse, is_safe=True),
        ),
    )


class QuestionPanel(Vertical):
    """Shows one question at a time, in the order they came; others wait behind it."""

    def __init__(self, problem: Callable[[PointsmanError], None], grace_s: float = 0.4) -> None:
        super().__init__(id="question")
        self.display = False
        self._problem = problem
        self._grace_s = grace_s
        self._waiting: list[UserQuestion] = []
        self._shown_at = 0.0

    def compose(self) -> ComposeResult:
        """Lay it out."""
        yield VerticalScroll(Static("", id="question-body", markup=False), can_focus=False)
        yield Horizontal(id="question-choices")

    @property
    def current(self) -> UserQuestion | None:
        """The question that is shown."""
        return self._waiting[0] if self._waiting else None

    async def ask(self, question: UserQuestion) -> None:
        """Show a question, or let it wait for its turn."""
        self._waiting.append(question)
        if len(self._waiting) == 1:
            await self._show()
        else:
            self._title()

    async def withdraw(self, name: str = "") -> None:
        """Withdraw a question that was answered elsewhere or timed out; all without a name."""
        before = self.current
        self._waiting = [each for each in self._waiting if name and each.name != name]
        if self.current is not before:
            await self._show()

    def seize(self) -> None:
        """Take the focus, on the answer that changes nothing."""
        buttons = [*self.query(Button)]
        if self.current is not None and buttons:
            safe = [n for n, each in enumerate(self.current.choices) if each.is_safe]
            buttons[safe[0] if safe else 0].focus()

    async def _show(self) -> None:
        question = self.current
        self.display = question is not None
        choices = self.query_one("#question-choices", Horizontal)
        if self.has_focus_within:
            # The next question does not inherit the focus: typing is text again.
            self.screen.focus_next("#composer")
        await choices.remove_children()
        if question is None:
            return
        self._title()
        self.query_one("#question-body", Static).update(Content(plain(question.body)))
        await choices.mount_all(
            Button(Content(f"{each.label} ({each.key})"), compact=True, name=each.key)
            for each in question.choices
        )
        self._shown_at = time.monotonic()

    def _title(self) -> None:
        if self.current is not None:
            more = len(self._waiting) - 1
            self.border_title = Content(plain(self.current.title))
            self.border_subtitle = f"F5 answers · {more} more" if more else "F5 answers"

    async def on_button_pressed(self, event: Button.Pressed) -> None:
        """Take the pressed answer."""
        event.stop()
        await self._take(event.button.name or "")

    async def on_key(self, event: events.Key) -> None:
        """Take an answer by its key; arrows move between them."""
        if event.key in ("left", "right"):
            (self.screen.focus_previous if event.key == "left" else self.screen.focus_next)()
            event.stop()
        elif self.current and any(each.key == event.key for each in self.current.choices):
            event.stop()
            await self._take(event.key)

    async def _take(self, key: str) -> None:
        """Answer; keys typed before the question could be read do not count."""
        question = self.current
        if question is None or time.monotonic() - self._shown_at < self._grace_s:
            return
        choice = next(each for each in question.choices if each.key == key)
        try:
            choice.take()
        except PointsmanError as error:
            self._problem(error)
        await self.withdraw(question.name)
