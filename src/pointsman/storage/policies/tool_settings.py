"""`tools` and `mcp_servers` of `pointsman.yaml`: the tools of a session and who may use them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path, escape
from pointsman.kernel.nearest import nearest
from pointsman.turns.registry.login import SecretRef

Permission = Literal["allow", "ask", "deny"]

CLASSES: Final = ("none", "read", "write", "execute", "network")
"""The classes of side effects, from harmless to far-reaching."""

OWN_TOOLS: Final = (
    "read_file", "write_file", "list_dir", "search", "run_shell", "memory_add", "memory_replace",
    "load_skill",
)  # fmt: skip
"""The tools that every session has; those of MCP servers are called `server__tool`."""

_SERVER_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", re.ASCII)
_WRITTEN: Final = re.compile(r"[a-zA-Z0-9_-]+\*?", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LONGEST_NAME = 32

Timeout = Annotated[int, Meta(ge=1, le=3600)]


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls are made at once, which are asked about, and which tools are not there at all.

    Each list holds classes of side effects and names of tools; a name may end with `*`. A name
    counts before one with `*`, that before a class; among equals, `deny` before `ask` before
    `allow`. Without a word here, what writes, executes or uses the network is asked about.
    """

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    confirm_s: Timeout = 300
    shell_timeout_s: Annotated[int, Meta(ge=1, le=600)] = 120


class McpServer(Struct, frozen=True, forbid_unknown_fields=True):
    """One MCP server: a program on this machine, or an address.

    Values of `env` and `headers` may be secrets by reference. `allow_tools` are the tools that are
    offered, all without it; `side_effects` is the class of all of them: `execute` for a program
    and `network` for an address unless it says otherwise.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str | SecretRef] = {}
    url: str = ""
    headers: dict[str, str | SecretRef] = {}
    allow_tools: tuple[str, ...] | None = None
    side_effects: Literal["read", "write", "execute", "network"] | None = None
    start_timeout_s: Timeout = 30
    timeout_s: Timeout = 120
    enabled: bool = True


def tool_problems(settings: ToolSettings, document: Document) -> Iterator[Problem]:
    """Return the problems with `tools` beyond its form."""
    seen: dict[str, str] = {}
    lists = (("allow", settings.allow), ("ask", settings.ask), ("deny", settings.deny))
    for key, names in lists:
        for index, name in enumerate(names):
            at: Path = ("tools", key, index)
            if name in seen:
                message = f"`{escape(name)}` stands under `{seen[name]}` already"
                yield document.problem(at, Code.DUPLICATE_KEY, message)
            seen[name] = key
            yield from _name_problems(name, document, at)


def _name_problems(name: str, document: Document, at: Path) -> Iterator[Problem]:
    if name in CLASSES or name in OWN_TOOLS or "__" in name or name.endswith("*"):
        if not _WRITTEN.fullmatch(name):
            yield document.problem(at, Code.PATTERN, f"`{escape(name)}` is no name of a tool")
        return
    meant = nearest(name, (*OWN_TOOLS, *CLASSES))
    hint = f"did you mean `{meant}`?" if meant else "tools of MCP servers are `server__tool`"
    message = f"`{escape(name)}` is neither a tool nor a class of side effects"
    yield document.problem(at, Code.UNKNOWN_VALUE, message, hint)


def server_problems(servers: dict[str, McpServer], document: Document) -> Iterator[Problem]:
    """Return the problems with `mcp_servers` beyond its form."""
    for name, server in servers.items():
        at: Path = ("mcp_servers", name)
        if not _SERVER_NAME.fullmatch(name) or len(name) > _LONGEST_NAME or "__" in name:
            message = f"`{escape(name)}` cannot name a server"
            hint = f"lower-case letters, digits and single `_` or `-`, at most {_LONGEST_NAME}"
            yield document.problem(at, Code.PATTERN, message, hint, key=True)
        if bool(server.command) == bool(server.url):
            message = f"`{escape(name)}` needs either `command` or `url`"
            yield document.problem(at, Code.MISSING_KEY, message)
        yield from _own_keys(server, document, at)
        yield from _value_problems(server, document, at)


def _own_keys(server: McpServer, document: Document, at: Path) -> Iterator[Problem]:
    """Refuse what belongs to the other kind of server, and an address that is none."""
    if server.url:
        if not server.url.startswith(("http://", "https://")):
            message = f"`{escape(server.url)}` is not an http address"
            yield document.problem((*at, "url"), Code.INVALID_VALUE, message)
        others: tuple[tuple[str, object], ...] = (("args", server.args), ("env", server.env))
    else:
        others = (("headers", server.headers),)
    for key, value in others:
        if value:
            kind = "a server with `url`" if server.url else "a server with `command`"
            yield document.problem((*at, key), Code.INVALID_VALUE, f"{kind} has no `{key}`")


def _value_problems(server: McpServer, document: Document, at: Path) -> Iterator[Problem]:
    for name in server.env:
        if not _VARIABLE.fullmatch(name):
            message = f"`{escape(name)}` cannot name a variable"
            yield document.problem((*at, "env", name), Code.PATTERN, message, key=True)
    for key, values in (("env", server.env), ("headers", server.headers)):
        for name, value in values.items():
            if isinstance(value, SecretRef) and bool(value.env) == bool(value.file):
                message = "a secret is referenced by either `env` or `file`"
                yield document.problem((*at, key, name), Code.INVALID_VALUE, message)
