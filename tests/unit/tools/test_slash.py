"""Slash commands: what is a command, what is a mistake, and what is just a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.sessions.slash import (
    COMMANDS,
    SlashCommand,
    SlashProblem,
    completions,
    help_lines,
    message_text,
    parse_line,
    rule_words,
)
from pointsman.turns.policy import read_policy, turn_policy
from pointsman.turns.registry.models import NO_MODELS, registry

MODELS = registry(NO_MODELS, lambda _name: None)
OF_THE_DOCUMENT = (
    "/model <id>", "/model -", "/model show", "/route override", "/route ignore", "/rules check",
    "/rules show", "/rules reload", "/cost",
)  # fmt: skip


def test_table_holds_every_command_of_the_document() -> None:
    usages = {form.usage for command in COMMANDS for form in command.forms}
    assert usages >= {*OF_THE_DOCUMENT, "/history --include-workers"}


@pytest.mark.parametrize(
    ("line", "name", "argument"),
    [
        ("/model haiku", "model", "haiku"),
        ("/model anthropic:claude-opus-4-7", "model", "anthropic:claude-opus-4-7"),
        ("/model -", "model", "-"),
        ("  /model   show ", "model", "show"),
        ("/MODEL show", "model", "show"),
        ("/route override", "route", "override"),
        ("/rules check", "rules", "check"),
        ("/cost", "cost", ""),
        ("/history", "history", ""),
        ("/history --include-workers", "history", "--include-workers"),
        ("/help", "help", ""),
        ("/help rules", "help", "rules"),
        ("/quit", "quit", ""),
    ],
)
def test_command_is_read(line: str, name: str, argument: str) -> None:
    assert parse_line(line) == SlashCommand(name, argument)


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "/etc/hosts is strange",
        "//model x",
        r"\/model x",
        "what is /model?",
        "",
        "/1",
    ],
)
def test_message_is_no_command(line: str) -> None:
    assert parse_line(line) is None


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("/modle haiku", "there is no command `/modle`", "did you mean `/model`?"),
        ("/nosuch", "there is no command `/nosuch`", "known are /model, /route, /rules, /cost,"),
        ("/commit fix the auth bug", "there is no command `/commit`", "known are /model"),
        ("/fix2\nall of it", "there is no command `/fix2`", "known are /model"),
        ("/rule check", "there is no command `/rule`", "did you mean `/rules`?"),
        ("/model", "`/model` says not what to do", "write `/model <id>` or `/model -`"),
        ("/rules chek", "`/rules` does not take `chek`", "did you mean `/rules check`?"),
        ("/route sideways", "`/route` does not take `sideways`", "write `/route override`"),
        ("/cost today", "`/cost` does not take `today`", "write `/cost`"),
        ("/model a b", "`/model` takes one argument", "write `/model <id>`"),
        ("/", "`/` alone is no command", "write `/help`"),
    ],
)
def test_mistake_is_told_with_what_was_meant(line: str, message: str, hint: str) -> None:
    problem = parse_line(line)
    assert isinstance(problem, SlashProblem)
    assert problem.message == message
    assert problem.hint.startswith(hint)


def test_word_that_a_rule_asks_for_begins_a_message() -> None:
    routing = """
    schema_version: 1
    rules:
      - {name: commits, when: {message_matches: "^/commit|^/Merge"}, use: "embedded:smollm2-135m"}
      - name: reviews
        when: {any_of: [{message_contains_any: [/review]}, {not: {message_matches: "/ask-2"}}]}
        use: embedded:smollm2-135m
    workspaces:
      /w:
        rules:
          - {name: notes, when: {message_matches: "^/note "}, use: "embedded:smollm2-135m"}
          - {name: here, when: {workspace_path_matches: "^/w/sub"}, use: "embedded:smollm2-135m"}
    """
    words = rule_words(
        turn_policy(read_policy(routing.encode(), "routing.yaml", MODELS, "/h"), MODELS, "/h")
    )
    assert words == {"commit", "merge", "review", "ask-2", "note"}
    for line in ("/commit fix it", "/MERGE", "/review this", "/ask-2", "/note x"):
        assert parse_line(line, words) is None
    problem = parse_line("/comit x", words)
    assert isinstance(problem, SlashProblem)
    assert problem.hint.startswith("did you mean `/commit`?")
    assert isinstance(parse_line("/w", words), SlashProblem)
    assert parse_line("/cost", {"cost"}) == SlashCommand("cost")


def test_backslash_sends_a_command_as_a_message() -> None:
    assert message_text(r"\/model haiku") == "/model haiku"
    assert message_text("a\\/b") == "a\\/b"


@pytest.mark.parametrize(
    ("line", "given_"),
    [
        ("/r", ("/route", "/rules")),
        ("/rules ", ("/rules check", "/rules show", "/rules reload")),
        ("/rules s", ("/rules show",)),
        ("/model h", ("/model haiku",)),
        ("/model ", ("/model haiku", "/model opus", "/model -", "/model show")),
        ("/help c", ("/help cost",)),
        ("hello", ()),
        ("/nonesuch x", ()),
        ("/cost ", ()),
    ],
)
def test_line_is_completed(line: str, given_: tuple[str, ...]) -> None:
    assert completions(line, ["haiku", "opus"]) == given_


def test_every_completion_is_a_command() -> None:
    for command in COMMANDS:
        for line in completions(f"/{command.name} ", ["haiku"]):
            assert isinstance(parse_line(line), SlashCommand), line


def test_help_has_one_line_for_each_form() -> None:
    lines = help_lines()
    assert len(lines) == sum(len(command.forms) for command in COMMANDS)
    assert help_lines(["cost"]) == ("/cost  print what this session cost, by model and by role",)


@given(st.text(max_size=60))
def test_any_line_is_read_without_an_error(line: str) -> None:
    for each in (line, f"/{line}"):
        result = parse_line(each)
        assert result is None or isinstance(result, SlashCommand | SlashProblem)
        if isinstance(result, SlashProblem):
            assert "\n" not in str(result)
        completions(each)
