"""Snapshots and choices of agents, asked for over HTTP."""

from __future__ import annotations

from typing import Any

import httpx2 as httpx
from tests.gateway.house import Running


def agent(apt: float, status: str = "healthy", **more: Any) -> dict[str, Any]:
    return {"type": "agent", "version": "1", "status": status, "apt": apt, **more}


def kept(live: Running, modules: dict[str, Any], *edges: dict[str, Any]) -> str:
    told = live.post("/selfrep/create_snapshot", {"modules": modules, "edges": edges})
    assert told.status_code == 200, told.text
    return str(told.json()["selfrep_snapshot_id"])


def minded(live: Running, gain: float, depth: int = 2, tokens: int = 2048, goals: Any = ()) -> str:
    body = {
        "job_seed": "seed-1",
        "goals": goals,
        "attention": {"attention_gain": gain, "explore_bias": 0, "reward_signal": 0},
        "resource_budget": {"token_budget": tokens, "max_depth_allowed": depth},
    }
    told = live.post("/brainstate/create_snapshot", body)
    assert told.status_code == 200, told.text
    return str(told.json()["brainstate_snapshot_id"])


def decide(live: Running, selfrep: str, mind: str, **more: Any) -> httpx.Response:
    body = {
        "job_id": "job-1",
        "job_seed": "seed-1",
        "query_text": "what is a qubit",
        "selfrep_snapshot_id": selfrep,
        "brainstate_snapshot_id": mind,
        "candidate_list": [],
        "trace_id": "trace-1",
        **more,
    }
    return live.post("/router/decide", body)


A, B = "agent:a", "agent:b"
