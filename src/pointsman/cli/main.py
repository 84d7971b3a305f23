"""The `pointsman` command."""

from __future__ import annotations

import click

from pointsman.cli.agents import agents
from pointsman.cli.backtest import backtest
from pointsman.cli.brainstate import brainstate
from pointsman.cli.chat import chat
from pointsman.cli.cost import cost
from pointsman.cli.decisions import decision
from pointsman.cli.home import doctor, init
from pointsman.cli.jobs import jobs
from pointsman.cli.keys import keys
from pointsman.cli.local import local
from pointsman.cli.mcp import mcp
from pointsman.cli.models import models, providers
from pointsman.cli.patterns import patterns
from pointsman.cli.placement import audit, place, taint
from pointsman.cli.records import replay, verify
from pointsman.cli.rules import rules
from pointsman.cli.sensor import sensor
from pointsman.cli.serve import serve
from pointsman.cli.terms import Shared
from pointsman.cli.turns import route, why
from pointsman.cli.workflow import workflow
from pointsman.version import VERSION


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(VERSION, prog_name="pointsman")
@click.option("--home", metavar="DIR", help="The home folder; may also stand behind the command.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; likewise.")
@click.pass_context
def main(context: click.Context, home: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    """Decide where each piece of agent work goes, and prove why."""
    context.obj = Shared(home, as_json=as_json)


for _command in (
    init, doctor, serve, chat, route, why, place, taint, replay, verify, audit, backtest, rules,
    models, providers, patterns, keys, cost, local, decision, workflow, sensor,
    agents, brainstate, jobs, mcp,
):  # fmt: skip
    main.add_command(_command)
