"""Each query of the Parquet page, run on an export of a real run, says what the API says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.house import Running, eventually
from tests.web.scene import command, in_memory, scene

from pointsman.bulk.parquet.tables import TABLES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "parquet.md").read_text()
QUERIES = dict(re.findall(r"^```sql (\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
TYPES = {"timestamp": "timestamp, UTC", "score": "decimal(10, 9)", "rejections": "list of structs"}

Rows = list[dict[str, Any]]
Ask = Callable[[str], Rows]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    with in_memory() as folder, scene(folder / "home") as running:
        admin = {"authorization": f"Bearer {running.admin}"}
        budget = {"name": "tight", "limit_usd": "0.000001", "each": "session"}
        assert running.post("/api/budgets", budget, **admin).status_code == 200
        refused = running.chat("a long question", headers={"x-session-id": "too-dear"})
        assert refused.status_code == 402
        eventually(lambda: _settled(running))
        yield running


def _settled(running: Running) -> bool:
    ended = {each.ref for each in running.entries("outcome")}
    return len(ended) >= 26


@pytest.fixture(scope="module")
def ask(live: Running) -> Iterator[Ask]:
    with in_memory() as folder:
        target = str(folder / "export")
        assert command("export", "--parquet", target, "--home", str(live.home)) == 0
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(QUERIES["views"].replace("DIR/", f"{target}/"))
            yield lambda name: _rows(connection, QUERIES[name])


def _rows(connection: Any, query: str) -> Rows:
    # Through Arrow: DuckDB's own way to times with a zone needs one more package.
    found: Rows = connection.sql(query.strip().rstrip(";")).to_arrow_table().to_pylist()
    return found


def counts(rows: Rows, key: str, *values: str) -> dict[Any, Any]:
    return {row[key]: tuple(row[each] for each in values) for row in rows}


def spent(live: Running, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `pointsman cost` says."""
    capsys.readouterr()
    assert command("cost", "--json", "--home", str(live.home)) == 0
    found: dict[str, Any] = msgspec.json.decode(capsys.readouterr().out)
    return found


def overview(live: Running) -> list[dict[str, Any]]:
    told = live.get("/api/overview").json()
    assert told["behind"] == 0
    found: list[dict[str, Any]] = told["buckets"]
    return found


def metric(live: Running, name: str, label: str) -> dict[str, float]:
    text = live.get("/metrics").text
    return {
        sample.labels[label]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def test_turns_over_time_are_those_of_the_overview(live: Running, ask: Ask) -> None:
    told = {(each["at"][:19], each["model"]): each["turns"] for each in overview(live)}
    found = {
        (row["start"].strftime("%Y-%m-%dT%H:%M:%S"), row["model"]): row["turns"]
        for row in ask("turns_over_time")
    }
    assert found == {key: turns for key, turns in told.items() if turns}
    assert sum(found.values()) >= 27


@pytest.mark.parametrize(
    ("part", "key"),
    [("model", "model"), ("key", "key_id"), ("session", "session_id"), ("day", "spent_on")],
)
def test_costs_are_those_of_the_command(
    live: Running, ask: Ask, capsys: pytest.CaptureFixture[str], part: str, key: str
) -> None:
    told = counts(spent(live, capsys)[f"by_{part}"], part, "calls", "cost_microusd")
    found = counts(ask(f"cost_by_{part}"), key, "calls", "microusd")
    assert {str(name): amounts for name, amounts in found.items()} == told
    assert sum(microusd for _, microusd in found.values()) > 0


def test_costs_by_workspace_add_up_to_the_whole(
    live: Running, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    found = counts(ask("cost_by_workspace"), "workspace", "calls", "microusd")
    whole = spent(live, capsys)
    assert "/code/shop" in found
    sums = tuple(map(sum, zip(*found.values(), strict=True)))
    assert sums == (whole["calls"], whole["cost_microusd"])


def test_fallbacks_are_those_of_the_overview(live: Running, ask: Ask) -> None:
    told: Counter[str] = Counter()
    for each in overview(live):
        told[each["model"]] += each["fallbacks"]
    found: Counter[str] = Counter()
    for row in ask("fallbacks"):
        found[row["took_over"]] += row["turns"]
    assert found == +told
    assert found.total() >= 1


def test_rule_hits_are_those_of_the_api(live: Running, ask: Ask) -> None:
    told = {
        each["name"]: (each["hits"], each["rejected"])
        for scope in live.get("/api/rules").json()["scopes"]
        for each in scope["rules"]
    }
    found = counts(ask("rule_hits"), "rule", "hits", "in_vain")
    assert found == {rule: hits for rule, hits in told.items() if any(hits)}
    assert found["fast for commits"][0] == 6


def test_what_stood_in_the_way_is_what_was_counted(live: Running, ask: Ask) -> None:
    told = metric(live, "pointsman_rejections_total", "reason")
    found = counts(ask("rejections"), "failure", "candidates")
    assert {name: float(count) for name, (count,) in found.items()} == told
    assert found["over_budget"][0] >= 1


def test_turns_that_a_budget_refused_are_listed_as_refused(live: Running, ask: Ask) -> None:
    told = {each["turn_id"] for each in live.get("/api/turns?state=refused").json()["turns"]}
    found = {row["turn_id"] for row in ask("budget_refusals")}
    assert len(found) == 1
    # Others were refused for other reasons: a text that must stay, and no model here to take it.
    assert found <= told


def test_latencies_are_those_of_the_calls(live: Running, ask: Ask) -> None:
    told: dict[str, list[int]] = {}
    for each in live.outcomes(26):
        if not each["error_class"]:
            told.setdefault(each["model"], []).append(each["elapsed_us"])
    found = counts(ask("latency"), "model", "calls", "p50_us", "p99_us")
    assert found == {
        model: (len(times), sorted(times)[-(-len(times) // 2) - 1], max(times))
        for model, times in told.items()
    }


def test_what_left_this_machine_is_what_the_audit_says(live: Running, ask: Ask) -> None:
    told = live.get("/api/audit/egress").json()
    found = counts(ask("egress"), "location", "departures", "turns")
    assert found["cloud"] == (told["departures"], told["left"])
    assert told["departures"] > told["left"]
    assert found["local"][1] >= 1


def test_placements_are_those_of_the_list_of_turns(live: Running, ask: Ask) -> None:
    found = {(row["gate"], row["placement_rule"]): row["turns"] for row in ask("placements")}
    told: Counter[tuple[str, str]] = Counter()
    for each in live.get("/api/turns?limit=200").json()["turns"]:
        if not each["is_preview"]:
            placed = each["placement"] or {"gate": "", "rule_id": ""}
            told[placed["gate"], placed["rule_id"]] += 1
    assert found == told


def test_sessions_are_those_of_the_api(live: Running, ask: Ask) -> None:
    told = {each["session_id"]: each for each in live.get("/api/sessions").json()["sessions"]}
    found = {row["session_id"]: row for row in ask("sessions")}
    assert found.keys() <= told.keys()
    assert found["docs-team"]["turns"] == told["docs-team"]["turns"] == 8


def test_failures_are_those_of_the_calls(live: Running, ask: Ask) -> None:
    told = Counter(
        (each["model"], each["error_class"]) for each in live.outcomes(26) if each["error_class"]
    )
    found = {(row["model"], row["error_class"]): row["calls"] for row in ask("failures")}
    assert found == told
    assert found


def test_a_verdict_is_that_of_the_feedback(live: Running, ask: Ask) -> None:
    (row,) = ask("verdicts")
    assert (row["source"], row["verdicts"], float(row["mean_score"])) == ("given", 1, 1.0)


def test_choices_of_workflows_are_those_of_the_api(live: Running, ask: Ask) -> None:
    found = {(row["kind"], row["choice"]): row["decisions"] for row in ask("choices")}
    told = live.get("/api/workflow-decisions/quality_gate").json()["distribution"]
    assert {label: found["branch", label] for label in told} == told
    assert sum(count for (kind, _), count in found.items() if kind == "agent") == 3


def test_the_export_goes_as_far_as_the_ledger(live: Running, ask: Ask) -> None:
    told = {each["name"]: each["entries"] for each in live.get("/api/ledger").json()["chains"]}
    found = counts(ask("exported"), "chain", "last_seq")
    assert found.keys() == told.keys()
    assert all(0 < last < told[chain] for chain, (last,) in found.items())


def test_every_query_of_the_page_is_tried() -> None:
    text = Path(__file__).read_text()
    for name in QUERIES:
        assert f'"{name}"' in text or name.startswith("cost_by_"), name


@pytest.mark.parametrize("table", TABLES)
def test_the_page_tells_every_column(table: str) -> None:
    section = PAGE.split(f"## `{table}`\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    columns = TABLES[table]  # type: ignore[index]
    assert told == [(each.name, TYPES.get(each.type, each.type), each.told) for each in columns]
