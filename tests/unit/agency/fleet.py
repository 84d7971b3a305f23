"""What the tests of agents at work share: a home, a fleet, and agents that do as they are told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from tests.models.brainstate_start import read_start

from pointsman.agents.facts import GivenJob
from pointsman.app import Pointsman
from pointsman.brainstate.events import ActionWished, TickInputs
from pointsman.governance.action import Actor
from pointsman.jobs.agency import Agency
from pointsman.jobs.entries import Caller
from pointsman.jobs.jobs import JobResult, Jobs
from pointsman.jobs.request import JobRequest, read_job_request
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.document import Json
from pointsman.kernel.entry import Entry
from pointsman.kernel.json_text import read_json
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.semantic import SemanticMemory
from pointsman.testing import CountedIds, FrozenClock

OPERATOR = Actor("key-op", "op", "operator")
COUNCIL = tuple(Actor(f"key-c{n}", f"member {n}", "council") for n in range(3))
FLEET = {
    "modules": {
        "agent:a": {"apt": "0.9", "status": "healthy", "capabilities": ["plan"]},
        "agent:b": {"apt": "0.7", "status": "healthy", "capabilities": ["answer"]},
        "agent:c": {"apt": "0.6", "status": "healthy"},
        "generic_agent": {"apt": "0.5", "status": "healthy"},
    },
    "intents": [{"intent": "save", "patterns": ["^keep"], "required_action": "SEM_write"}],
}
NOTE: Json = {"namespace": "facts", "key": "sky", "value": "blue"}
ANSWER = {"text": "the sky is blue", "confidence": 0.9}
WISH = {**ANSWER, "actions": [{"action_type": "sem_write", "payload": NOTE}]}


def a_caller(trace_id: str = "trace-1", actor: Actor = OPERATOR) -> Caller:
    return Caller(actor, trace_id)


class Fleet:
    """A home whose time stands still, with agents in this process."""

    def __init__(self, path: Path, fleet: Mapping[str, object] = FLEET) -> None:
        self.path = path
        self.clock, self.ids = FrozenClock(), CountedIds()
        self.pointsman = Pointsman(path, clock=self.clock, ids=self.ids)
        self.write(fleet)
        self.agency: Agency = self.pointsman.agency

    @property
    def jobs(self) -> Jobs:
        return self.pointsman.jobs

    def close(self) -> None:
        self.pointsman.close()

    def write(self, fleet: Mapping[str, object]) -> None:
        """Write `agents.yaml`: JSON is YAML too."""
        (self.path / "agents.yaml").write_text(json.dumps(fleet))

    def answers(self, *, failing: Mapping[str, Exception] | None = None, **agents: object) -> None:
        """Have agents answer this, or raise that; each by its letter."""
        for letter in ("a", "b", "c"):
            self._answer(f"agent:{letter}", agents.get(letter, ANSWER), failing or {}, letter)
        self._answer("generic_agent", agents.get("generic", ANSWER), failing or {}, "generic")

    def _answer(
        self, name: str, answer: object, failing: Mapping[str, Exception], key: str
    ) -> None:
        def call(work: Mapping[str, Json]) -> object:
            self.called.append((name, work))
            if key in failing:
                raise failing[key]
            return answer

        self.jobs.here[name] = call

    @property
    def called(self) -> list[tuple[str, Mapping[str, Json]]]:
        """Who was called, and with what."""
        if not hasattr(self, "_called"):
            self._called: list[tuple[str, Mapping[str, Json]]] = []
        return self._called

    def state(self, seed: str = "seed-1", gain: str = "0.8", **more: object) -> ContentId:
        given = {
            "job_seed": seed,
            "attention": {"attention_gain": gain, "explore_bias": "0"},
            "resource_budget": {"token_budget": 1000, "max_depth_allowed": 3},
            **more,
        }
        start = read_start(read_json(json.dumps(given).encode(), "start"))
        return self.agency.record_brainstate(start).id

    def job(self, query: str = "what is it", **more: object) -> GivenJob:
        names = {
            "selfrep_snapshot_id": self.agency.record_selfrep().id,
            "brainstate_snapshot_id": self.state(),
        }
        return GivenJob(
            **{"job_id": "job-1", "job_seed": "seed-1", "query_text": query, **names, **more}
        )  # type: ignore[arg-type] # a test's own keywords

    def request(self, query: str = "what colour is the sky", **more: object) -> JobRequest:
        given = {"query_text": query, "job_id": "job-1", "job_seed": "seed-1", **more}
        return read_job_request(read_json(json.dumps(given).encode(), "request"))

    def run(self, query: str = "what colour is the sky", **more: object) -> JobResult:
        return self.jobs.run(self.request(query, **more))

    def entries(self, prefix: str = "") -> list[Entry]:
        with closing(LedgerReader(self.pointsman.home.database)) as ledger:
            return [each.entry for each in ledger.of_kind(prefix)]

    def approve(self, request_id: str) -> str:
        """Have the council say yes; gives what became of the request."""
        state = self.pointsman.approvals.state(request_id)
        for member in COUNCIL:
            name, bound = state.request.request_id, state.request.action_hash
            state = self.pointsman.approvals.vote(name, "approve", bound, member)
        return state.status

    def written(self) -> int:
        """How many versions semantic memory holds."""
        if not (self.path / "semantic.db").exists():
            return 0
        with closing(SemanticMemory(self.path / "semantic.db")) as memory:
            return len(memory.every_version())


def wish(payload: str = '{"key":"sky","namespace":"facts","value":1}') -> TickInputs:
    return TickInputs(events=(ActionWished("sem_write", "agent:a", payload),))


@contextmanager
def opened(path: Path, fleet: Mapping[str, object] = FLEET) -> Iterator[Fleet]:
    found = Fleet(path, fleet)
    with closing(found):
        yield found
