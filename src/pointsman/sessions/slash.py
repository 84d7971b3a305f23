"""Slash commands as data, and the parser of a line. 002 §9.1.

Nothing is done here. A line that begins with `/` and a word is a command or a problem, never a
message that costs money, unless a routing rule asks for that word (`message_matches: "^/commit"`).
A path such as `/etc/hosts` is a message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from pointsman.kernel.document import escape
from pointsman.kernel.nearest import nearest
from pointsman.turns.policy import TurnPolicy
from pointsman.turns.rules.condition import message_patterns

Candidates = Literal["none", "models", "commands", "files"]
"""The values that complete an argument, beside the words of the table."""


class CommandForm(Struct, frozen=True):
    """One way to use a command: the words that stand for themselves, or an argument."""

    usage: str
    help: str
    word: str = ""
    candidates: Candidates = "none"


class CommandSpec(Struct, frozen=True):
    """A command with all its forms; the one without a word takes any argument, or none at all.

    `takes` says whether that form needs an argument; a text is everything that follows.
    """

    name: str
    forms: tuple[CommandForm, ...]
    takes: Literal["word", "argument", "nothing", "optional", "text", "optional_text"]


COMMANDS: Final = (
    CommandSpec(
        "model",
        (
            CommandForm(
                "/model <id>", "use this model from now on, whatever rules say", "", "models"
            ),
            CommandForm("/model -", "take that back: rules and defaults count again", "-"),
            CommandForm(
                "/model show", "print the active model and the last turn's whole chain", "show"
            ),
        ),
        "argument",
    ),
    CommandSpec(
        "route",
        (
            CommandForm(
                "/route override", "use the model that the pattern store suggests", "override"
            ),
            CommandForm("/route ignore", "dismiss the pattern store's suggestion", "ignore"),
        ),
        "word",
    ),
    CommandSpec(
        "rules",
        (
            CommandForm(
                "/rules check", "check routing.yaml: print what is wrong, or `ok`", "check"
            ),
            CommandForm("/rules show", "print the rules in force, with their names", "show"),
            CommandForm("/rules reload", "read routing.yaml again now", "reload"),
        ),
        "word",
    ),
    CommandSpec(
        "cost",
        (CommandForm("/cost", "print what this session cost, by model and by role"),),
        "nothing",
    ),
    CommandSpec(
        "history",
        (
            CommandForm("/history", "list earlier sessions"),
            CommandForm(
                "/history --include-workers",
                "list them with the workers each has sent out",
                "--include-workers",
            ),
        ),
        "optional",
    ),
    CommandSpec(
        "providers",
        (
            CommandForm(
                "/providers", "print which providers and models are out, why, and until when"
            ),
        ),
        "nothing",
    ),
    CommandSpec(
        "image",
        (CommandForm("/image <path>", "send a picture with the next message", "", "files"),),
        "text",
    ),
    CommandSpec(
        "good", (CommandForm("/good [why]", "say that the last answer was good"),), "optional_text"
    ),
    CommandSpec(
        "bad", (CommandForm("/bad [why]", "say that the last answer was bad"),), "optional_text"
    ),
    CommandSpec(
        "theme",
        (
            CommandForm("/theme dark", "light letters on a dark ground", "dark"),
            CommandForm("/theme light", "dark letters on a light ground", "light"),
        ),
        "word",
    ),
    CommandSpec(
        "help",
        (CommandForm("/help [command]", "print what can be typed here", "", "commands"),),
        "optional",
    ),
    CommandSpec("quit", (CommandForm("/quit", "end the session"),), "nothing"),
)
"""Every command, in the order in which help shows them."""

_BY_NAME: Final = {each.name: each for each in COMMANDS}
_LINE: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_-]*)(?:\s+(.*))?", re.DOTALL)
_RULE_WORD: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_-]*)")


class SlashCommand(Struct, frozen=True):
    """A command that was read: its name, and its word or argument."""

    name: str
    argument: str = ""


class SlashProblem(Struct, frozen=True):
    """A line that was meant as a command and is none."""

    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


def rule_words(policy: TurnPolicy) -> frozenset[str]:
    """Return the words after a `/` that rules ask for in a message, in lower case."""
    rules = (*policy.rules, *(rule for place in policy.workspaces for rule in place.rules))
    patterns = (pattern for rule in rules for pattern in message_patterns(rule.when))
    return frozenset(word.lower() for each in patterns for word in _RULE_WORD.findall(each))


def parse_line(line: str, words: Collection[str] = ()) -> SlashCommand | SlashProblem | None:
    """Read a line; None when it is a message. `words` begin messages: see `rule_words`."""
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return _alone() if line.strip() == "/" else None
    name, argument = match[1].lower(), (match[2] or "").strip()
    command = _BY_NAME.get(name)
    if command is not None:
        return _read(command, argument)
    if name in words:
        return None
    names = (*_BY_NAME, *sorted(words))
    meant = nearest(name, names)
    hint = f"did you mean `/{meant}`?" if meant else f"known are /{', /'.join(names)}."
    hint += " Put a backslash before it to send it as a message"
    return SlashProblem(f"there is no command `/{escape(name)}`", hint)


def message_text(line: str) -> str:
    """Return a line as a message: a backslash before its `/` is removed."""
    return line[1:] if line.startswith("\\/") else line


def completions(
    line: str, models: Sequence[str] = (), files: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the completions of a begun line, in the order of the table."""
    if not line.startswith("/") or "\n" in line:
        return ()
    name, space, begun = line[1:].partition(" ")
    if not space:
        return tuple(f"/{each.name}" for each in COMMANDS if each.name.startswith(name.lower()))
    command = _BY_NAME.get(name.lower())
    if command is None:
        return ()
    known = {"none": (), "models": models, "commands": tuple(_BY_NAME), "files": files}
    options: list[str] = []
    for form in command.forms:
        options += [form.word] if form.word else known[form.candidates]
    return tuple(f"/{command.name} {each}" for each in options if each.startswith(begun.lstrip()))


def help_lines(names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the help, one line for each form; of all commands unless some are named."""
    wanted = frozenset(names) or frozenset(_BY_NAME)
    forms = [form for each in COMMANDS if each.name in wanted for form in each.forms]
    width = max((len(form.usage) for form in forms), default=0)
    return tuple(f"{form.usage:<{width}}  {form.help}" for form in forms)


def _read(command: CommandSpec, argument: str) -> SlashCommand | SlashProblem:
    words = [form.word for form in command.forms if form.word]
    if not argument:
        if command.takes in ("nothing", "optional", "optional_text"):
            return SlashCommand(command.name)
        return SlashProblem(f"`/{command.name}` says not what to do", _usage(command))
    if command.takes in ("text", "optional_text"):
        return SlashCommand(command.name, argument)
    if len(argument.split()) > 1:
        return SlashProblem(f"`/{command.name}` takes one argument", _usage(command))
    if argument in words or (command.takes != "nothing" and _takes_any(command)):
        return SlashCommand(command.name, argument)
    meant = nearest(argument, words)
    hint = f"did you mean `/{command.name} {meant}`?" if meant else _usage(command)
    return SlashProblem(f"`/{command.name}` does not take `{escape(argument)}`", hint)


def _takes_any(command: CommandSpec) -> bool:
    return any(not form.word and form.candidates != "none" for form in command.forms)


def _usage(command: CommandSpec) -> str:
    return "write " + " or ".join(f"`{form.usage}`" for form in command.forms)


def _alone() -> SlashProblem:
    return SlashProblem("`/` alone is no command", "write `/help` for what can be typed")
