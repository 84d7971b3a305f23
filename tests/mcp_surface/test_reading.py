"""Resources and prompts: what may be read, and what is left out of it."""

from __future__ import annotations

import json

import mcp_types as types
import pytest
from mcp import MCPError
from tests.mcp_surface.depot import Depot, done, inside, read

pytestmark = pytest.mark.anyio

SECRET = "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fL" * 2


async def test_a_policy_is_read_as_written(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        text = await read(client, "pointsman://policy/routing")
        assert json.loads(text)["global_default"] == "open:big"
        assert "not there" in await read(client, "pointsman://policy/agents")


async def test_what_looks_like_a_secret_is_left_out_of_a_policy(depot: Depot) -> None:
    path = depot.home / "routing.yaml"
    path.write_text(path.read_text() + f"\n# the key was {SECRET}\n")
    async with inside(depot.home) as (client, _):
        text = await read(client, "pointsman://policy/routing")
    assert SECRET not in text
    assert "the key was [" in text


async def test_models_come_without_addresses_headers_and_keys(
    depot: Depot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_TEST_KEY", SECRET)
    path = depot.home / "models.yaml"
    given = json.loads(path.read_text())
    given["providers"]["open"]["headers"] = {"x-team": "a-header-of-ours"}
    given["providers"]["open"]["api_key"] = {"env": "MCP_TEST_KEY"}
    path.write_text(json.dumps(given))
    async with inside(depot.home) as (client, _):
        text = await read(client, "pointsman://policy/models")
    models = {each["id"]: each for each in json.loads(text)["models"]}
    assert models["open:big"]["tier"] == "deep"
    for hidden in ("a-header-of-ours", SECRET, "MCP_TEST_KEY", depot.provider.url):
        assert hidden not in text


async def test_a_decision_of_a_workflow_is_read_as_it_is_in_force(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        listed = {each.uri for each in (await client.list_resources()).resources}
        assert "pointsman://policy/decisions/size" in listed
        value = json.loads(await read(client, "pointsman://policy/decisions/size"))
    assert [each["target"] for each in value["cases"]] == ["big", "small"]


async def test_templates_name_turns_and_decisions(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        found = (await client.list_resource_templates()).resource_templates
    assert {each.uri_template for each in found} == {
        "pointsman://turn/{id}",
        "pointsman://policy/decisions/{id}",
    }


async def test_turns_are_listed_the_newest_first(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        made = [await done(client, "route_preview", message=f"m{n}") for n in range(3)]
        rows = json.loads(await read(client, "pointsman://turns"))["turns"]
        last = json.loads(await read(client, "pointsman://turn/last"))
    assert [each["turn_id"] for each in rows] == [each["turn_id"] for each in reversed(made)]
    assert last["turn_id"] == made[-1]["turn_id"]


@pytest.mark.parametrize(
    "uri",
    [
        "pointsman://policy/../models.yaml",
        "pointsman://policy/..%2Faccess.db",
        "pointsman://policy/pointsman",
        "pointsman://policy/decisions/nobody",
        "pointsman://policy/",
        "pointsman://turn/",
        "pointsman://turn/nobody",
        "pointsman://turn/%00",
        "pointsman://nothing",
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "x" * 50_000,
    ],
)
async def test_an_address_that_leads_nowhere_is_refused_in_one_line(depot: Depot, uri: str) -> None:
    async with inside(depot.home) as (client, _):
        await done(client, "route_preview", message="hi")
        with pytest.raises(MCPError) as told:
            await client.read_resource(uri)
    line = told.value.message
    assert line.isprintable()
    assert len(line) < 600
    assert "input." in line or "branch" in line


async def test_prompts_are_filled_or_say_what_is_missing(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        listed = {each.name for each in (await client.list_prompts()).prompts}
        assert listed == {"why_this_model", "write_a_rule"}
        made = await done(client, "route_preview", message="hi")
        why = await client.get_prompt("why_this_model", {"turn": made["turn_id"]})
        assert made["decision_id"] in str(why.messages[1].content)
        rule = await client.get_prompt("write_a_rule", {"wish": "commits go to llama"})
        texts = [str(each.content) for each in rule.messages]
        assert "commits go to llama" in texts[0]
        assert "open:big" in texts[2]
        for name, given in (
            ("write_a_rule", {}),
            ("write_a_rule", {"wish": "x" * 5000}),
            ("why_this_model", {"turn": "nobody"}),
            ("sing", {}),
        ):
            with pytest.raises(MCPError, match=r"^input\."):
                await client.get_prompt(name, given)


async def test_names_of_turns_and_decisions_are_completed(depot: Depot) -> None:
    template = types.ResourceTemplateReference(uri="pointsman://turn/{id}")
    decision = types.ResourceTemplateReference(uri="pointsman://policy/decisions/{id}")
    prompt = types.PromptReference(name="why_this_model")
    async with inside(depot.home) as (client, _):
        turn = str((await done(client, "route_preview", message="hello"))["turn_id"])
        for ref, name, begun, want in (
            (template, "id", turn[:20], [turn]),
            (prompt, "turn", "la", ["last"]),
            (prompt, "turn", "", ["last", turn]),
            (decision, "id", "si", ["size"]),
            (decision, "id", "none", []),
            (prompt, "wish", "", []),
        ):
            told = await client.complete(ref, {"name": name, "value": begun})
            assert told.completion.values == want, (name, begun)
            assert told.completion.has_more is False
