"""The `pointsman` command. Each command is imported when it is asked for: most need little."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from pointsman.cli.terms import GlobalOptions
from pointsman.version import VERSION

COMMANDS: Final[Mapping[str, str]] = {
    "init": "home", "doctor": "home", "serve": "serve", "chat": "chat", "route": "turns",
    "why": "turns", "place": "placement", "taint": "placement", "replay": "records",
    "verify": "records", "audit": "placement", "backtest": "backtest", "rules": "rules",
    "models": "models", "providers": "models", "patterns": "patterns", "keys": "keys",
    "cost": "cost", "local": "local", "decision": "decisions", "workflow": "workflow",
    "sensor": "sensor", "agents": "agents", "brainstate": "brainstate", "jobs": "jobs",
    "actions": "actions", "mcp": "serve", "store": "store", "bulk": "bulk", "export": "records",
}  # fmt: skip
"""Every command and the module of this package that holds it."""


class LazyCommands(click.Group):
    """The commands, loaded one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own
        """Name every command."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's own
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = getattr(
            import_module(f"pointsman.cli.{COMMANDS[cmd_name]}"), cmd_name
        )
        return found


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(VERSION, prog_name="pointsman")
@click.option("--home", metavar="DIR", help="The home folder; may also stand behind the command.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; likewise.")
@click.option("--store", metavar="URL", default="", help="The database [POINTSMAN_STORE].")
@click.pass_context
def main(context: click.Context, home: str | None, as_json: bool, store: str) -> None:  # noqa: FBT001 - click passes flags so
    """Decide where each piece of agent work goes, and prove why."""
    context.obj = GlobalOptions(home, as_json=as_json, store=store)
