"""The keys `tools` and `mcp_servers`: every mistake at its place, with what was meant."""

from __future__ import annotations

import pytest

from pointsman.errors import DocumentError
from pointsman.storage.policies.settings import Settings, read_settings
from pointsman.storage.policies.tool_settings import McpServer
from pointsman.turns.registry.login import SecretRef


def problems(text: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        read_settings(text.encode(), "pointsman.yaml")
    return [str(each) for each in caught.value.problems]


def test_without_keys_there_are_defaults() -> None:
    settings = read_settings(b"", "pointsman.yaml")
    assert settings == Settings()
    assert settings.tools.allow == settings.tools.deny == ()
    assert settings.mcp_servers == {}


def test_keys_are_read() -> None:
    text = """\
tools:
  allow: [read, write_file, github__search_*]
  ask: [execute]
  deny: [network, memory_add]
mcp_servers:
  github:
    command: gh-mcp
    args: [--read-only]
    env: {TOKEN: {env: GH_TOKEN}, LEVEL: info}
    allow_tools: [search]
  wiki: {url: "https://wiki.example/mcp", headers: {Authorization: {file: wiki-key}}}
"""
    settings = read_settings(text.encode(), "pointsman.yaml")
    assert settings.tools.allow == ("read", "write_file", "github__search_*")
    assert settings.mcp_servers["github"] == McpServer(
        command="gh-mcp",
        args=("--read-only",),
        env={"TOKEN": SecretRef(env="GH_TOKEN"), "LEVEL": "info"},
        allow_tools=("search",),
    )
    assert settings.mcp_servers["wiki"].headers == {"Authorization": SecretRef(file="wiki-key")}


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (
            "tools: {allow: [read_flie]}",
            "1:17",
            (
                "config.unknown_value: `read_flie` is neither a tool nor a class of side effects "
                "(did you mean `read_file`?)"
            ),
        ),
        (
            "tools: {allow: [read], deny: [read]}",
            "1:31",
            "config.duplicate_key: `read` stands under `allow` already",
        ),
        (
            "tools: {alow: [read]}",
            "1:9",
            "config.unknown_key: unknown key `tools.alow` (did you mean `allow`?)",
        ),
        (
            "tools: {allow: ['a b*']}",
            "1:17",
            "config.pattern: `a b*` is no name of a tool",
        ),
        (
            "mcp_servers: {x: {}}",
            "1:18",
            "config.missing_key: `x` needs either `command` or `url`",
        ),
        (
            "mcp_servers: {x: {command: a, url: 'http://b'}}",
            "1:18",
            "config.missing_key: `x` needs either `command` or `url`",
        ),
        (
            "mcp_servers: {A B: {command: a}}",
            "1:15",
            "config.pattern: `A B` cannot name a server",
        ),
        (
            "mcp_servers: {a__b: {command: a}}",
            "1:15",
            "config.pattern: `a__b` cannot name a server",
        ),
        (
            "mcp_servers: {x: {url: 'ftp://b'}}",
            "1:24",
            "config.invalid_value: `ftp://b` is not an http address",
        ),
        (
            "mcp_servers: {x: {url: 'http://b', env: {A: b}}}",
            "1:41",
            "config.invalid_value: a server with `url` has no `env`",
        ),
        (
            "mcp_servers: {x: {command: a, headers: {A: b}}}",
            "1:40",
            "config.invalid_value: a server with `command` has no `headers`",
        ),
        (
            "mcp_servers: {x: {command: a, env: {A B: b}}}",
            "1:37",
            "config.pattern: `A B` cannot name a variable",
        ),
        (
            "mcp_servers: {x: {command: a, env: {A: {}}}}",
            "1:40",
            "config.invalid_value: a secret is referenced by either `env` or `file`",
        ),
        (
            "mcp_servers: {x: {command: a, timeout_s: 0}}",
            "1:42",
            "config.out_of_range",
        ),
    ],
)
def test_mistake_is_told_at_its_place(text: str, place: str, said: str) -> None:
    wanted = f"pointsman.yaml:{place}: {said}"
    assert any(line.startswith(wanted) for line in problems(text)), problems(text)
