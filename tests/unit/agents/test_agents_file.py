"""`agents.yaml` in a home: read once a change, with its last good content kept."""

from pathlib import Path

import pytest

from pointsman.agents.file.agents_file import AgentsFile
from pointsman.agents.policy import POLICY_FORM
from pointsman.kernel.number import billionths
from pointsman.kernel.schema import json_schema
from pointsman.storage.policies.agents_file import AgentsFiles

GOOD = "modules: {agent:a: {apt: 0.9, status: healthy}}\nrouter_config: {MIN_SCORE: 0.3}\n"


def test_without_a_file_there_are_no_modules_and_the_documents_constants(tmp_path: Path) -> None:
    found = AgentsFiles(tmp_path).current()
    assert found.selfrep.modules == ()
    assert found.problems == ()
    assert found.policy.router_config.min_score == billionths("0.2")
    assert found.policy_id == POLICY_FORM.id(found.policy)


@pytest.mark.req(68)
def test_an_edited_file_counts_from_the_next_call_on_under_another_id(tmp_path: Path) -> None:
    files = AgentsFiles(tmp_path)
    (tmp_path / "agents.yaml").write_text(GOOD)
    first = files.current()
    assert files.current() is first
    (tmp_path / "agents.yaml").write_text(GOOD.replace("0.3", "0.35"))
    second = files.current()
    assert second.policy_id != first.policy_id
    assert second.policy.router_config.min_score == billionths("0.35")
    assert second.selfrep.config_hash == second.policy_id


def test_a_broken_file_leaves_the_last_good_one_in_force(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(GOOD)
    first = AgentsFiles(tmp_path).current()
    (tmp_path / "agents.yaml").write_text(GOOD.replace("apt: 0.9", "apt: 9"))
    found = AgentsFiles(tmp_path).current()
    assert found.using_last_known_good
    assert [each.code for each in found.problems] == ["config.out_of_range"]
    assert found.policy_id == first.policy_id
    assert found.selfrep == first.selfrep


def test_the_published_schema_closes_every_object() -> None:
    schema = json_schema(AgentsFile)
    objects = [each for each in schema["$defs"].values() if "properties" in each]
    assert objects
    assert all(each["additionalProperties"] is False for each in objects)
