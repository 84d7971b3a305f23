"""Whether the MCP SDK is there: it is an extra, and slow to import, so nothing else imports it."""

from __future__ import annotations

from importlib.util import find_spec

from pointsman.errors import McpNotInstalled

COMMAND = "pip install 'pointsman[mcp]'"


def check_sdk() -> None:
    """Raise where the SDK is missing, with the command that installs it."""
    if find_spec("mcp") is None:
        raise McpNotInstalled(hint=COMMAND)
