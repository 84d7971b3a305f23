"""A real run for the dashboard to show: turns through the gateway, commands, workflow decisions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.gateway.house import Running, Upstream, eventually, model, provider, running, upstream

from pointsman.agents.modules.trust import TrustEvent, event_id
from pointsman.cli.main import main
from pointsman.jobs.entries import trust_draft
from pointsman.kernel.record import Names
from pointsman.providers.messages import Usage
from pointsman.testing import fails, says
from pointsman.testing.upstream_replies import Received, Step

ROUTING = """\
# Which model takes a turn.
schema_version: 1
global_default: anthropic:claude-haiku-4-5

rules:
  - name: budget breaker
    when: {cost_today_exceeds_usd: 5.00}
    use: house:llama-3.2
  - name: deep for architecture
    when: {message_matches: "(?i)architecture|design review"}
    use: anthropic:claude-opus-4-7
  - name: fast for commits
    when: {message_matches: "^/commit"}
    use: openai:gpt-5-mini
  - name: pictures
    when: {has_images: true}
    use: openai:gpt-5-mini
  - name: architecture at night
    when:
      message_matches: "(?i)architecture|design review"
      time_of_day_between: ["22:00", "06:00"]
    use: anthropic:claude-haiku-4-5

pattern:
  mode: apply

budgets:
  - {name: whole day, limit_usd: 2.00}
  - {name: each session, limit_usd: 0.50, each: session}
"""

DECISIONS = """\
decisions:
  - id: quality_gate
    name: Is the draft good enough?
    type: binary
    input: "{{ artifact.score }}"
    cases:
      - {condition: "input >= 0.8", label: good, target: publish}
      - {condition: "input < 0.8", label: poor, target: rework}
    default: {target: rework}
    cache: {enabled: true, ttl: 10m}
  - id: reviewer
    name: Who reviews it?
    type: weighted
    input: "{{ artifact.id }}"
    cases:
      - {weight: 70, label: model, target: model_review}
      - {weight: 30, label: human, target: human_review}
    default: {target: human_review}
"""

AGENTS = """\
modules:
  agent:researcher: {display_name: Researcher, apt: 0.82, status: healthy, capabilities: [research]}
  agent:writer: {display_name: Writer, apt: 0.71, status: healthy, capabilities: [write]}
  agent:critic: {display_name: Critic, apt: 0.64, status: degraded, capabilities: [review]}
  agent:generalist: {display_name: Generalist, apt: 0.5, status: healthy, is_fallback: true}
  service:index: {display_name: Search index, type: service, apt: 0.9, status: healthy}
edges:
  - {from: "agent:researcher", to: "service:index", required: true}
  - {from: "agent:writer", to: "agent:researcher", required: false}
  - {from: "agent:critic", to: "agent:writer", required: true}
"""

MESSAGES = [
    "Summarise the release notes for me",
    "Architecture of the billing service: where should retries live?",
    "/commit fix the flaky reconnect test",
    "Design review of the ledger's checkpoint format",
    "Translate this paragraph into Dutch",
    "@opus Why does this deadlock only under load?",
    "Write a regular expression for ISO dates",
    "/commit bump the price table",
]


@contextmanager
def scene(home: Path) -> Iterator[Running]:
    """Serve a home in which a small team has worked for a while."""
    with ExitStack() as stack:
        openai, anthropic, local = (
            stack.enter_context(upstream(otherwise=_answers)) for _ in range(3)
        )
        _write(home, openai, anthropic, local)
        live = stack.enter_context(running(home))
        live.providers = {"openai": openai, "anthropic": anthropic, "house": local}
        _worked(live, anthropic)
        yield live


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder in memory where there is one: each gateway syncs its databases as it opens."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def command(*words: str) -> int:
    """Run a command as a user does."""
    try:
        main([*words])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _answers(request: Received) -> Sequence[Step]:
    size = len(request.body)
    usage = Usage(input_tokens=40 + size % 900, output_tokens=120 + size % 331)
    return says("Done, and checked.", usage=usage)(request)


def _write(home: Path, openai: Upstream, anthropic: Upstream, local: Upstream) -> None:
    os.environ.setdefault("SCENE_OPENAI_KEY", "sk-scene-openai")
    os.environ.setdefault("SCENE_ANTHROPIC_KEY", "sk-scene-anthropic")
    home.mkdir(mode=0o700, exist_ok=True)
    models: dict[str, Any] = {
        "schema_version": 1,
        "providers": {
            "openai": provider("openai", openai.url, api_key={"env": "SCENE_OPENAI_KEY"}),
            "anthropic": provider(
                "anthropic", anthropic.url, api_key={"env": "SCENE_ANTHROPIC_KEY"}, rpm=600
            ),
            "house": provider("openai", local.url),
        },
        "models": {
            "anthropic:claude-opus-4-7": model(price="15", aliases=["opus"], tier="deep"),
            "anthropic:claude-haiku-4-5": model(price="1", aliases=["haiku"], tier="fast"),
            "openai:gpt-5-mini": model(price="0.4", aliases=["mini"], tier="balanced"),
            "house:llama-3.2": model("local", "0", aliases=["llama"], tier="fast"),
        },
    }
    _put(home / "models.yaml", json.dumps(models))
    _put(home / "routing.yaml", ROUTING)
    _put(home / "pointsman.yaml", "telemetry: {logs: off}\n")
    _put(home / "agents.yaml", AGENTS)
    (home / "decisions").mkdir(exist_ok=True)
    _put(home / "decisions" / "review.yaml", DECISIONS)


def _put(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o600)


def _worked(live: Running, anthropic: Upstream) -> None:
    sessions = ["checkout-refactor", "docs-team", "nightly-agent"]
    for number in range(24):
        text = MESSAGES[number % len(MESSAGES)]
        headers = {"x-session-id": sessions[number % 3], "x-pointsman-workspace": "/code/shop"}
        live.chat(text, headers=headers)
    live.chat("@llama What is in this contract?", headers={"x-session-id": "support-desk"})
    live.chat(
        "My card is 4111 1111 1111 1111, what went wrong?",
        model="openai:gpt-5-mini",
        headers={"x-session-id": "support-desk", "x-pointsman-privacy": "local"},
    )
    anthropic.then(*[fails(500)] * 3)
    fell = live.chat("Architecture of the search index", headers={"x-session-id": sessions[0]})
    live.post("/api/feedback", {"turn_id": fell.headers["x-pointsman-turn"], "thumbs": "up"})
    live.post("/api/route/preview", {"message": "Design review", "availability": _OPUS_OUT})
    live.post("/api/route/preview", PATTERN)
    for number in range(40):
        context = {"artifact": {"id": f"draft-{number}", "score": (number * 37 % 100) / 100}}
        body = {"input": context, "workflow_id": f"run-{number // 8}", "stage_id": "draft"}
        live.post("/api/decisions/quality_gate/evaluate", body)
        live.post("/api/decisions/reviewer/evaluate", {**body, "stage_id": "review"})
    _agents_worked(live)
    assert command("route", "Which port does it listen on?", "--home", str(live.home)) == 0
    eventually(lambda: len(live.entries("outcome")) >= 26)


def _agents_worked(live: Running) -> None:
    admin = {"authorization": f"Bearer {live.admin}"}
    pointsman = live.parts.pointsman
    for number in range(12):
        event = TrustEvent(
            event_id=event_id("seed", number, "COUNCIL_APPROVAL"),
            job_seed="seed",
            event_sequence_index=number,
            event_type="COUNCIL_APPROVAL",
            node_id=("agent:researcher", "agent:writer")[number % 2],
            origin="council",
            timestamp_seeded=pointsman.clock.now(),
            is_correct=number % 5 != 0,
        )
        names = Names(pointsman.ids.new_id(), f"job-{number}", pointsman.clock.now())
        pointsman.decision_recorder.recorder().record(trust_draft(names, event))
    selfrep = live.post("/selfrep/create_snapshot", {}, **admin).json()["selfrep_snapshot_id"]
    mind = live.post("/brainstate/create_snapshot", MIND, **admin).json()["brainstate_snapshot_id"]
    for number in range(3):
        job = {
            "job_id": f"job-{number}",
            "job_seed": "seed",
            "query_text": "what is a checkpoint",
            "selfrep_snapshot_id": selfrep,
            "brainstate_snapshot_id": mind,
            "candidate_list": [],
        }
        assert live.post("/router/decide", job, **admin).status_code == 200
    note = {"namespace": "facts", "key": "checkpoint", "value": {"every": 256}}
    wanted = {"action_type": "sem_write", "payload": note, "justification": "asked for often"}
    assert live.post("/actions", wanted, **admin).status_code == 200


MIND = {
    "job_seed": "seed",
    "goals": [],
    "attention": {"attention_gain": 0.8, "explore_bias": 0, "reward_signal": 0},
    "resource_budget": {"token_budget": 2048, "max_depth_allowed": 2},
}
_OPUS_OUT = {"anthropic:claude-opus-4-7": "unavailable"}

PATTERN = {
    "message": "Explain this stack trace",
    "pattern_rows": [
        {
            "fingerprint_id": f"turn-{number}",
            "model": "openai:gpt-5-mini" if number % 3 else "anthropic:claude-haiku-4-5",
            "success": f"0.{90 - number}",
            "cost_usd": "0.002",
            "sample_size": 8 + number,
            "similarity": f"0.{95 - number}",
        }
        for number in range(8)
    ],
}
