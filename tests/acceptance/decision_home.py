"""A home with decisions, and commands run on it."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from pointsman.cli.main import main

GATE = """
decision:
  id: quality-gate
  name: "Quality Gate"
  type: binary
  input: "{{ artifact.quality_score }}"
  cases:
    - {condition: "input >= 0.8", target: stage-deploy, label: Pass}
    - {condition: "input < 0.8", target: stage-rework, label: Fail}
  default: {target: stage-rework}
  cache: {enabled: true, ttl: 24h}
"""
CANARY = """
decisions:
  - id: canary
    type: weighted
    input: "{{ request.id }}"
    cases:
      - {target: v1, weight: 66.6, label: Control}
      - {target: v2, weight: 33.4, label: Variant}
    default: {target: v1}
  - id: guarded
    type: switch
    input: "{{ kind }}"
    cases: [{condition: "input == 'a'", target: x}]
    default: {target: y}
    guardrails: [{type: no_disabled_targets, disabled_stages: [x], escalation_target: human}]
"""

GOOD = '{"artifact": {"id": "doc", "quality_score": 0.91}}'


class Home:
    """A home folder and the command that works on it, without a process for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "decisions").mkdir(parents=True)
        (path / "decisions" / "gate.yaml").write_text(GATE)
        (path / "decisions" / "canary.yaml").write_text(CANARY)

    def run(self, *words: str, text: str | None = None) -> Result:
        return CliRunner().invoke(main, [*words, "--home", str(self.path)], input=text)

    def json(self, *words: str, text: str | None = None) -> Any:
        return json.loads(self.run(*words, "--json", text=text).stdout)

    def files(self) -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in self.path.rglob("*") if each.is_file()}
