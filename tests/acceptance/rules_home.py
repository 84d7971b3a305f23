"""A home with models and rules, and commands run on it."""

import json
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from pointsman.cli.main import main
from pointsman.cli.rules import rules

MODELS = """
schema_version: 1
providers:
  acme: {kind: openai, api_key: {env: POINTSMAN_TEST_KEY}}
  disk: {kind: openai, api_key: [{file: keys/one}, {env: POINTSMAN_TEST_KEY}]}
models:
  acme:big: {location: cloud, tier: deep, aliases: [big], price: {input: 3, output: 15}}
  acme:odd: {location: cloud}
  disk:model: {location: cloud, price: {input: "0.5", output: 1}}
"""
GOOD = """
schema_version: 1
global_default: embedded:smollm2-135m
rules:
  - {name: commits, when: {message_matches: commit}, use: acme:big}
  - {when: {has_tool_calls_in_history: true}, use: acme:big}
workspaces:
  /w: {default: acme:odd, rules: [{when: {file_extensions_in_context: .sql}, use: acme:big}]}
"""


class Home:
    """A home folder and the commands that work on it, without a process for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write("models.yaml", MODELS)
        self.write("routing.yaml", GOOD)

    def write(self, name: str, text: str | bytes) -> Path:
        file = self.path / name
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        file.chmod(0o600)
        return file

    def run(self, command: click.Command, *words: str, text: str | None = None) -> Result:
        return CliRunner().invoke(
            main, [command.name or "", *words, "--home", str(self.path)], input=text
        )

    def json(self, command: click.Command, *words: str) -> Any:
        return json.loads(self.run(command, *words, "--json").stdout)

    def lines(self, *words: str) -> list[str]:
        """Give the lines of `rules check` that name a place in a file."""
        return [line for line in self.run(rules, *words).stdout.splitlines() if ".yaml:" in line]
