"""`chat`: talk in the terminal, or take one turn for a script."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from pointsman.app import Pointsman
from pointsman.cli.groups import ExampleCommand
from pointsman.cli.terms import Session, command, read_input
from pointsman.conversations.conversations import Conversation, Conversations, Kit
from pointsman.conversations.equipment import equip_from_home
from pointsman.errors import InputError, NotFound, PointsmanError
from pointsman.kernel.document import printable
from pointsman.kernel.number import microusd_text
from pointsman.providers.messages import Image
from pointsman.sessions.events.calls import SideEffects
from pointsman.sessions.message import MessageUsage
from pointsman.sessions.slash import (
    SlashCommand,
    SlashProblem,
    message_text,
    parse_line,
    rule_words,
)
from pointsman.sessions.tool import ConfirmationAnswer, PendingConfirmation
from pointsman.sessions.update import (
    Notice,
    RouteUpdate,
    TextDelta,
    ToolState,
    TurnOver,
    UsageUpdate,
)
from pointsman.storage.sqlite.database import be_frugal
from pointsman.turns.chain.override import split_override
from pointsman.turns.explain import to_json

LAST = "last"
MOST_KNOWN = 1_000_000
CLASSES: tuple[SideEffects, ...] = ("read", "write", "execute", "network")


class ChatOptions(Struct, frozen=True):
    """The options of one run of the command."""

    workspace: Path | None
    resume: str | None
    images: tuple[Path, ...] = ()
    allowed: frozenset[str] = frozenset()
    theme: str = ""


@click.command(cls=ExampleCommand)
@click.option("--message", metavar="TEXT|-", help="Take one turn with this message, and end.")
@click.option("--image", "images", multiple=True, metavar="FILE", help="A picture for --message.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(CLASSES),
    help="With --message: let tools of this class act unasked.",
)
@click.option(
    "--resume", is_flag=False, flag_value=LAST, metavar="[ID]", help="Go on with a session."
)
@click.option("--list", "lists", is_flag=True, help="List sessions, and end.")
@click.option("--include-workers", is_flag=True, help="With --list: workers too.")
@click.option("--workspace", metavar="DIR", help="Where the session works [this folder].")
@click.option("--theme", type=click.Choice(["dark", "light"]), help="How the app looks.")
@command
def chat(  # noqa: PLR0913, PLR0917 - one for each option
    session: Session,
    message: str | None,
    images: tuple[str, ...],
    allow: tuple[str, ...],
    resume: str | None,
    lists: bool,  # noqa: FBT001 - click passes flags so
    include_workers: bool,  # noqa: FBT001 - click passes flags so
    workspace: str | None,
    theme: str | None,
) -> None:
    """Talk in the terminal; `--message` takes one turn for a script."""
    options = ChatOptions(
        _folder(workspace), resume, tuple(map(Path, images)), frozenset(allow), theme or ""
    )
    with session.open(create=True) as pointsman:
        if lists:
            _list(session, pointsman, include_workers=include_workers)
            return
        if message is not None:
            session.warn(pointsman.in_force().problems)
            text = _message(_text(message), pointsman)
            sys.exit(asyncio.run(_Script(session, pointsman, options).run(text)))
        code = _talk(session, pointsman, options)
    sys.exit(code)


def _folder(given: str | None) -> Path:
    path = Path(given or ".").expanduser().absolute()
    if not path.is_dir():
        raise InputError("is no folder", where=str(path))
    return path


def _text(message: str) -> str:
    if message != "-":
        return message
    data, name = read_input("-")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError("is no UTF-8", where=name) from error


def _message(line: str, pointsman: Pointsman) -> str:
    """Return the message of a line; a command is refused, never sent to a model."""
    read = parse_line(line, rule_words(pointsman.in_force().ready.policy))
    if isinstance(read, SlashProblem):
        raise InputError(read.message, hint=read.hint)
    if isinstance(read, SlashCommand):
        hint = "put a backslash before it to send it as a message"
        raise InputError(f"`/{read.name}` is a command of the terminal app", hint=hint)
    return message_text(line)


def _talk(session: Session, pointsman: Pointsman, options: ChatOptions) -> int:
    if session.as_json:
        raise InputError("the terminal app prints no JSON", hint="give a --message, or --list")
    # Textual reads from standard input and draws on standard error.
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError("the terminal app needs a terminal", hint="give a --message for scripts")
    # Imported here: scripts should not wait for it.
    from pointsman.tui.app import AppOptions, ChatApp  # noqa: PLC0415

    be_frugal()
    for name in ("COLUMNS", "LINES"):
        # The terminal reports its size and every change; the variables of a shell do not change.
        os.environ.pop(name, None)
    resume = _session_to_resume(pointsman.conversations, options.resume)
    visit = AppOptions(options.workspace, resume=resume, theme=options.theme)
    app = ChatApp(pointsman, visit)
    app.run()
    return app.return_code or 0


def _session_to_resume(conversations: Conversations, given: str | None) -> str:
    """Name the session to go on with; checked before anything is drawn."""
    if given is None:
        return ""
    known = conversations.services.store.sessions(MOST_KNOWN)
    if given == LAST:
        begun = (each.id for each in known if conversations.services.store.turns(each.id))
        last = next(begun, None)
        if last is None:
            raise NotFound("there is no session to go on with")
        return last
    found = [each.id for each in known if each.id == given or each.id.endswith(given)]
    if len(found) != 1:
        told = "names more than one session" if found else "names no session"
        raise NotFound(f"`{given}` {told}", hint="see `pointsman chat --list`")
    return found[0]


def _list(session: Session, pointsman: Pointsman, *, include_workers: bool) -> None:
    from pointsman.tui.commands import sessions_text  # noqa: PLC0415 - it draws in the app's style

    listed = pointsman.conversations.list_sessions(include_workers=include_workers)
    session.show(sessions_text(listed), listed)


class _ClassConfirmer:
    """Allows the classes of tools that the command line allowed, and denies the rest."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    async def ask(self, asked: PendingConfirmation) -> ConfirmationAnswer:
        """Answer by the class of the tool."""
        return ConfirmationAnswer("allow" if asked.side_effects in self._allowed else "deny")


class _Script:
    """One turn for a script: the answer on standard output, who gave it and why on the other."""

    def __init__(self, session: Session, pointsman: Pointsman, options: ChatOptions) -> None:
        self._session = session
        self._pointsman = pointsman
        self._options = options
        self._routed: RouteUpdate | None = None
        self._usage: list[UsageUpdate] = []
        self._tools: dict[str, ToolState] = {}
        self._banners: list[Notice] = []
        self._over: TurnOver | None = None

    async def run(self, text: str) -> int:
        """Take the turn, and return the exit code."""
        # An unknown `@model` is refused before an empty session is made.
        split_override(text, self._pointsman.in_force().ready.aliases, "strict")
        conversations = self._pointsman.conversations
        try:
            conversation = await self._open_conversation(conversations)
            try:
                await self._follow(conversation, text)
            except PointsmanError:
                await conversation.end("error")
                raise
            await conversation.end()
            return self._finish(conversation)
        finally:
            await conversations.close()

    async def _open_conversation(self, conversations: Conversations) -> Conversation:
        ground, options = conversations.services.opened, self._options
        resume = _session_to_resume(conversations, options.resume)
        place = None if options.workspace is None else str(options.workspace)
        if resume:
            row = conversations.services.store.session(resume)
            place = place if row is None else row.workspace
        kit = replace(
            await equip_from_home(ground, place), confirmer=_ClassConfirmer(options.allowed)
        )
        self._session.warn(kit.problems)
        return await _begin(conversations, options, resume, kit)

    async def _follow(self, conversation: Conversation, text: str) -> None:
        from pointsman.tui.pictures import read_picture  # noqa: PLC0415 - few send pictures

        images: tuple[Image, ...] = tuple(map(read_picture, self._options.images))
        async with aclosing(conversation.send(text, images)) as updates:
            async for update in updates:
                match update:
                    case TextDelta():
                        self._print(update.text)
                    case RouteUpdate():
                        self._routed = update
                    case UsageUpdate():
                        self._usage.append(update)
                    case Notice():
                        self._banners.append(update)
                    case ToolState() if not update.worker_session_id:
                        self._tools[update.tool_use_id] = update
                    case TurnOver():
                        self._over = update
                    case _:
                        pass

    def _print(self, text: str) -> None:
        """Print a piece of the answer, without control characters on a terminal."""
        if self._session.as_json:
            return
        if sys.stdout.isatty():
            text = "\n".join(map(printable, text.split("\n")))
        click.echo(text, nl=False)

    def _finish(self, conversation: Conversation) -> int:
        over = self._over
        if over is None:
            raise InputError("the turn did not end")
        if self._session.as_json:
            self._session.show("", self._value(conversation, over))
        else:
            click.echo("" if over.text.endswith("\n") or not over.text else "\n", nl=False)
            for line in self._lines(conversation, over):
                click.echo(printable(line), err=True)
        return 0 if over.status == "completed" else 1

    def _lines(self, conversation: Conversation, over: TurnOver) -> list[str]:
        lines = [f"note: {each.text}" for each in self._banners]
        lines += [
            f"tool: {each.name} {each.state}{f': {each.detail}' if each.detail else ''}"
            for each in self._tools.values()
        ]
        if self._routed is not None:
            lines.append(f"model: {self._routed.model} · {self._routed.reason}")
        lines.append(f"session: {conversation.id} · ${over.cost_usd} · {over.status}")
        return [*lines, f"error: {over.error}"] if over.error else lines

    def _value(self, conversation: Conversation, over: TurnOver) -> dict[str, object]:
        turn_id = over.turn_id
        return {
            "answer": over.text,
            "status": over.status,
            "error": over.error,
            "model": over.model,
            "decision": to_json(self._pointsman.shown(turn_id)),
            "usage": _total([each.usage for each in self._usage]),
            "cost_usd": over.cost_usd,
            "session_cost_usd": microusd_text(conversation.cost().total_microusd),
            "session_id": conversation.id,
            "turn_id": turn_id,
            "tools": list(self._tools.values()),
        }


async def _begin(
    conversations: Conversations, options: ChatOptions, resume: str, kit: Kit
) -> Conversation:
    if resume:
        return await conversations.resume(resume, kit=kit)
    return await conversations.start(options.workspace, kit=kit)


def _total(usages: list[MessageUsage]) -> dict[str, int]:
    names = (
        "input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens",
        "latency_ms",
    )  # fmt: skip
    return {name: sum(getattr(each, name) for each in usages) for name in names}
