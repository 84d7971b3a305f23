"""The `pointsman` command. Each command is imported when it is asked for: most need little."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from typing import Final, NamedTuple

import click

from pointsman.cli.groups import CommandGroup
from pointsman.version import VERSION

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "init": ("home", "Write a commented starter home; files that exist are left alone."),
    "doctor": ("home", "Check everything that can be checked, and say what to fix."),
    "serve": ("serve", "Serve models over the OpenAI and Anthropic wire formats."),
    "chat": ("chat", "Talk in the terminal; `--message` takes one turn for a script."),
    "route": ("turns", "Decide which model would take this turn; call none."),
    "why": ("turns", "Show what happened in a turn, and why."),
    "place": ("placement", "Decide whether a question may leave this machine."),
    "taint": ("placement", "Sessions that stay on this machine because of what they held."),
    "replay": ("records", "Re-run recorded decisions and compare their bytes."),
    "receipt": ("receipt", "Write the signed receipt of an answer, or what verifies it."),
    "verify": ("records", "Check every chain, checkpoint and signature of the ledger."),
    "audit": ("audit", "What the ledger can prove."),
    "backtest": (
        "backtests",
        "Run recorded turns under other policies, prices or outages: changes and costs.",
    ),
    "bisect": (
        "bisect",
        "Find the entry that moved turns to another model: policy, health, learned rows, prices.",
    ),
    "rules": ("rules", "Check, show, reload, test and publish the rules of routing.yaml."),
    "models": (
        "models",
        "List the models there are, what they cost, and whether they can be used.",
    ),
    "providers": (
        "models",
        "List providers and models with their state, and what is missing to use them.",
    ),
    "patterns": ("patterns", "Look at, forget and import what similar turns are remembered for."),
    "keys": ("keys", "Make, list and revoke the keys that callers carry."),
    "cost": ("cost", "Show what was spent, by model, key, session and day."),
    "local": ("local", "Install the weights of local models, or tell how they are."),
    "decision": ("decisions", "Decide which branch a workflow takes, by the files in decisions/."),
    "workflow": ("workflow", "Run stages joined by decisions."),
    "sensor": (
        "sensor",
        "Watch files, commits, schedules and assets; let decisions say what runs.",
    ),
    "agents": ("agents", "Which agent takes a job, and why."),
    "brainstate": ("agents", "What a job has in mind."),
    "jobs": ("agents", "Have agents do a job, and prove how it went."),
    "actions": ("actions", "What agents ask to be done, and the votes on it."),
    "mcp": ("serve", "Serve agents over MCP on standard input and output."),
    "run": ("run", "Run an agent whose models are called through the gateway, and show the bill."),
    "demo": ("demo", "Live through a day of a small team on scripted models, and see the proof."),
    "import": ("imports", "Bring along the configuration of another gateway."),
    "store": ("store", "Look after the database of a home."),
    "witness": ("witness", "Have checkpoints countersigned by others, and countersign theirs."),
    "bulk": ("bulk", "Replay, backtest, verify, export or re-score millions of decisions."),
    "export": (
        "records",
        "Write decisions, calls and verdicts as Parquet files by day; only what is new.",
    ),
    "erase": ("erase", "Erase text for good; decisions, their chain and their proof stay."),
    "stop": (
        "stop",
        "Stop model calls at once, or ask that a stop ends; alone, list the stops in force.",
    ),
    "completion": ("completion", "Print or install the completion of commands for a shell."),
    "manual": ("manual", "Print a page of the manual, or install the pages for `man`."),
}
"""Every command, the module of this package that holds it, and the first line of its help."""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Decide and serve": ("demo", "route", "place", "chat", "serve", "run", "mcp"),
    "Prove": ("why", "receipt", "replay", "verify", "audit", "witness", "export", "erase"),
    "Policy and learning": ("rules", "backtest", "bisect", "patterns", "taint", "import"),
    "Agents": ("agents", "brainstate", "jobs", "actions"),
    "Workflows": ("decision", "workflow", "sensor"),
    "Operate": (
        "stop", "init", "doctor", "models", "providers", "local", "keys", "cost", "store", "bulk",
        "completion", "manual",
    ),
}  # fmt: skip
"""The commands by the question they answer, in the order of the help."""


class GlobalOptions(NamedTuple):
    """The options that stood before the command."""

    home: str | None
    as_json: bool
    store: str = ""


class LazyCommands(CommandGroup):
    """The commands, loaded one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own
        """Name every command."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's own
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        # A command may have a word of Python's own for its name.
        function = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        found: click.Command = getattr(import_module(f"pointsman.cli.{module}"), function)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's own
        """List the commands by question, with their first lines; none is loaded for that."""
        longest = max(map(len, COMMANDS))
        width = formatter.width - 6 - longest
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(longest), _short_summary(COMMANDS[name][1], width))
                        for name in names
                    ]
                )


def _short_summary(summary: str, width: int) -> str:
    return click.Command("", help=summary).get_short_help_str(width)


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
