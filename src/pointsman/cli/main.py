"""The `pointsman` command."""

from __future__ import annotations

import click

from pointsman.cli.home import doctor, init
from pointsman.cli.records import replay, verify
from pointsman.cli.turns import route, why


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(package_name="pointsman")
def main() -> None:
    """Decide where each piece of agent work goes, and prove why."""


for _command in (init, doctor, route, why, replay, verify):
    main.add_command(_command)
