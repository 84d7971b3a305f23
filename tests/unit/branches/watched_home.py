"""A home with sensors, whose clock a test sets."""

from contextlib import closing
from pathlib import Path
from typing import Any

from pointsman.app import Pointsman
from pointsman.sensors.event import Observation
from pointsman.sensors.sensors import SensorService, TargetReport
from pointsman.storage.policies.settings import WorkflowSettings
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import CountedIds, FrozenClock

ALL = WorkflowSettings(commands=("sh", "cat"), python=("acts",))
DECISION = """
decision:
  id: by-type
  type: switch
  input: "{{ event.data.extension }}"
  cases:
    - {condition: "input == '.yaml'", target: check-schema, label: Schema}
    - {condition: "input == '.md'", target: check-text, label: Text}
  default: {target: leave}
"""


class House:
    """A home with sensors, and time that stands still."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("decisions", "sensors", "in"):
            (path / name).mkdir(parents=True)
        (path / "decisions" / "d.yaml").write_text(DECISION)
        self.clock = FrozenClock()
        self.pointsman = Pointsman(path, clock=self.clock, ids=CountedIds())
        one = self.pointsman
        sources = (self.clock, one.ids)
        self.service = SensorService(
            one.home, one.decision_recorder, one.branching, sources, lambda: ALL
        )
        self.heard: list[TargetReport] = []
        self.service.on_report = self.heard.append

    def sensor(self, text: str) -> None:
        (self.path / "sensors" / "s.yaml").write_text(text)

    def manual(self, **data: Any) -> Any:
        sensor = self.service.files.current().sensors[0]
        return self.service.offer(sensor, Observation("manual", data))

    def said(self) -> list[tuple[str, str, str]]:
        return [(each.event, each.target, each.status) for each in self.heard]

    def kinds(self) -> list[str]:
        with closing(LedgerReader(self.path / "ledger.db")) as ledger:
            return [each.entry.kind for each in ledger.of_kind("event.sensor")]
