"""The guide to MCP: its snippets can be read, and it names what the server offers."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.gateway.route_table import ROUTES
from pointsman.mcp.resources import FILES, PROMPTS, TEMPLATES
from pointsman.mcp.server import ToolServer
from pointsman.mcp.visitor import HomeOwner, Service

GUIDE = (Path(__file__).parents[2] / "docs" / "guide" / "mcp.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def servers() -> list[dict[str, Any]]:
    found = [json.loads(each) for each in blocks("json")]
    tables = [tomllib.loads(each)["mcp_servers"] for each in blocks("toml")]
    tables += [each.get("mcpServers") or each["servers"] for each in found]
    return [server for table in tables for server in table.values()]


def test_four_agents_have_a_snippet_for_each_way() -> None:
    assert len([each for each in servers() if "command" in each]) == 4
    assert len([each for each in servers() if "url" in each]) == 4


@pytest.mark.parametrize("server", servers(), ids=str)
def test_a_snippet_starts_the_command_or_names_the_address(server: dict[str, Any]) -> None:
    if "url" in server:
        assert ("POST", re.sub(r"http://127\.0\.0\.1:8484", "", server["url"])) in ROUTES
        return
    assert server["command"] == "pointsman"
    told = CliRunner().invoke(main, [*server["args"], "--help"])
    assert told.exit_code == 0
    assert "MCP" in told.output


def test_the_key_of_the_guide_can_be_made(tmp_path: Path) -> None:
    (line,) = [
        each for block in blocks("sh") for each in block.splitlines() if "keys create" in each
    ]
    told = CliRunner().invoke(main, [*shlex.split(line)[1:], "--home", str(tmp_path / "home")])
    assert told.exit_code == 0, told.output


def test_every_tool_stands_there_with_its_scope(tmp_path: Path) -> None:
    with Pointsman(tmp_path / "home") as pointsman:
        service = Service(pointsman, lambda: pointsman.conversations.services)
        owner = HomeOwner()
        tools = ToolServer(service, lambda _request: owner)._tools.values()
        for each in tools:
            assert f"\n| `{each.name}` | {ROUTES[each.route].scope} | " in GUIDE


def test_every_resource_and_prompt_stands_there() -> None:
    for each in TEMPLATES:
        assert f"`{each.uri}`" in GUIDE
    for name in FILES:
        assert re.search(rf"`(pointsman://policy/)?{name}`", GUIDE)
    for prompt in PROMPTS:
        assert f"`{prompt.name}`" in GUIDE
