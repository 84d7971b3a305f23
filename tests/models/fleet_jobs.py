"""Random fleets and jobs, run for real over a ledger; and all of them replayed, elsewhere too."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random

from pointsman.app import Pointsman
from pointsman.jobs.replay import replay_job
from pointsman.jobs.request import JobRequest, read_job_request
from pointsman.kernel.document import Json
from pointsman.kernel.json_text import read_json
from pointsman.storage.home import open_home
from pointsman.testing import CountedIds, FrozenClock

NAMES = [f"agent:{letter}" for letter in "abcdef"]
GOALS = ["answer", "clarify", "save", "verify", "plan"]
STATUSES = ["healthy", "healthy", "healthy", "degraded", "offline", "quarantined"]
ROOT = Path(__file__).parents[2]

Agent = Callable[[Mapping[str, Json]], object]


def a_fleet(random: Random) -> dict[str, object]:
    """Give an `agents.yaml` as JSON, which is YAML too."""
    modules: dict[str, object] = {
        name: {
            "apt": str(random.randint(20, 100) / 100),
            "status": random.choice(STATUSES),
            "capabilities": random.sample(GOALS, random.randint(0, 3)),
            "policy": {"forbidden_actions": random.choice([[], [], ["sem_write"], ["publish"]])},
        }
        for name in random.sample(NAMES, random.randint(1, len(NAMES)))
    }
    if random.random() < 0.7:
        modules["generic_agent"] = {"apt": "0.5", "status": "healthy"}
    names = list(modules)
    edges = [{"from": names[0], "to": names[-1]}] if len(names) > 1 else []
    config = {"max_attempts": random.randint(1, 4), "min_score": random.choice(["0.2", "0.5"])}
    voters = random.choice([[{"id": "rules"}], [{"id": "rules"}, {"id": "second"}], []])
    intents = [{"intent": "save", "patterns": ["^keep"], "required_action": "sem_write"}]
    return {
        "modules": modules,
        "edges": edges,
        "router_config": config,
        "intents": intents,
        "council": {"voters": voters},
    }


def a_share(random: Random) -> str:
    """Give a number from 0 to 1; one with an exponent would not be cut to what it is."""
    return f"{random.random():.9f}"[:5]


def a_request(random: Random, number: int, fleet: dict[str, object]) -> JobRequest:
    """Give a job; some of them hold what must not be routed, some need an action.

    Most bring their modules along; the others are for the live ones, whose trust goes up and down.
    """
    words = ["what is it", "plan the day", "keep this", "ask jane@example.com", "check it"]
    goals = [
        {"goal_id": f"g{n}", "type": random.choice(GOALS), "priority": a_share(random)}
        for n in range(random.randint(0, 3))
    ]
    request: dict[str, object] = {
        "job_id": f"job-{number}",
        "job_seed": f"seed-{number % 7}",
        "query_text": random.choice(words),
        "brainstate": {
            "goals": goals,
            "attention": {"attention_gain": a_share(random)},
            "resource_budget": {"token_budget": random.randint(50, 4000), "max_depth_allowed": 3},
        },
    }
    if random.random() < 0.7:
        request["selfrep"] = {"modules": fleet["modules"], "edges": fleet["edges"]}
    if random.random() < 0.3:
        request["candidate_list"] = random.sample(NAMES, random.randint(1, 4))
    if random.random() < 0.5:
        request["action_payload"] = {"namespace": "n", "key": "k", "value": number}
    return read_job_request(read_json(json.dumps(request).encode(), "request"))


def an_agent(random: Random) -> Agent:
    """Give an agent that answers in one of many ways, or fails in one."""
    way, confidence = random.randint(0, 8), random.randint(0, 100) / 100
    tokens = random.randint(0, 500)

    def agent(work: Mapping[str, Json]) -> object:
        if way == 0:
            raise TimeoutError
        if way == 1:
            raise ValueError("it broke: call +49 30 901820")
        if way == 2:
            return {"unknown": 1}
        if way == 3:
            return "only words"
        answer: dict[str, object] = {
            "text": f"about {work['query']}",
            "confidence": confidence,
            "tokens_used": tokens,
            "wm": [{"type": "fact", "value": {"n": way}}, {"type": "context", "value": "x"}],
        }
        if way == 4:
            answer["text"] = "mail me: bob@example.com"
        if way in {5, 6}:
            payload = {"namespace": "n", "key": f"k{way}", "value": str(work["job_id"])}
            answer["actions"] = [{"action_type": "sem_write", "payload": payload}]
        if way == 7:
            answer["actions"] = [{"action_type": "sem_write", "payload": {"wrong": True}}]
        return answer

    return agent


def run_jobs(home: Path, seeds: range) -> Counter[str]:
    """Run a job a seed in one home, each under a fleet of its own; count what happened."""
    seen: Counter[str] = Counter()
    with Pointsman(home, clock=FrozenClock(), ids=CountedIds()) as pointsman:
        for seed in seeds:
            random = Random(seed)
            fleet = a_fleet(random)
            if seed % 5 == 0 or not (home / "agents.yaml").exists():
                (home / "agents.yaml").write_text(json.dumps(fleet))
            for name in (*NAMES, "generic_agent"):
                pointsman.jobs.here[name] = an_agent(random)
            log = pointsman.jobs.run(a_request(random, seed, fleet)).log
            seen[log.status] += 1
            seen["iterations"] += log.sequence
            seen.update(each.status for each in log.iteration_trace)
            seen["asked_for"] += bool(log.action_requests)
            seen["warned"] += bool(log.warnings)
            seen["voted"] += len(log.council_votes)
            seen["deadlock"] += any(each.code == "COUNCIL_DEADLOCK" for each in log.errors)
    return seen


def differing(home: Path, names: Iterator[str]) -> list[str]:
    """Replay jobs by their ids, and give what did not come out the same."""
    opened = open_home(home, create=False)
    verdicts = [replay_job(opened, name) for name in names]
    return [f"{v.job_id}: {v.code}: {v.reason}" for v in verdicts if not v.is_identical]


if __name__ == "__main__":
    _, where, first, last = sys.argv
    found = differing(Path(where), (f"job-{n}" for n in range(int(first), int(last))))
    sys.stdout.write("\n".join(found))
