"""Every example of the guide to agents is valid, and its tables are the code's."""

import re
from pathlib import Path
from typing import get_args

import pytest

from pointsman.errors import (
    IntegrityFailure,
    JobCutShort,
    MissingAgentOutput,
    MissingSnapshot,
    ResultMismatch,
)
from pointsman.jobs.log import JobStatus
from pointsman.jobs.reply import read_reply
from pointsman.jobs.request import read_job_request
from pointsman.kernel.json_text import read_json
from pointsman.kernel.replay import Verdict
from pointsman.signals.kinds import LET_THROUGH
from pointsman.storage.policies.agents_file import read_agents

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "agents.md"
FENCE = re.compile(r"^```(\S+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
WORK = {
    "job_id", "job_seed", "attempt", "agent", "query", "intent", "required_action", "depth",
    "token_budget", "goals", "memory", "context",
}  # fmt: skip
EXAMPLES = [match.groups() for match in FENCE.finditer(GUIDE.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("language", "name", "text"), EXAMPLES)
def test_an_example_is_valid(language: str, name: str | None, text: str) -> None:
    if language == "console":
        return
    body = text.encode()
    match name:
        case "agents.yaml":
            assert read_agents(body, "guide", LET_THROUGH).run
        case "job":
            assert read_job_request(read_json(body, "guide")).job_id == "report-7"
        case "reply":
            assert read_reply(read_json(body, "guide").value).confidence is not None
        case _:
            value = read_json(body, "guide").value
            assert isinstance(value, dict)
            assert set(value) == WORK


def test_every_status_and_code_is_told() -> None:
    told = set(CODE.findall(GUIDE.read_text(encoding="utf-8")))
    codes = {
        each.code
        for each in (
            MissingSnapshot,
            IntegrityFailure,
            MissingAgentOutput,
            ResultMismatch,
            JobCutShort,
        )
    }
    codes.add(Verdict.DIVERGED.value)
    assert told >= codes | set(get_args(JobStatus))
