"""What is told beside the ledger: logs by allow-list, traces, and counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.conftest import Town
from tests.gateway.house import Running, eventually, running, write_home
from tests.gateway.town import ADMIN

from pointsman.gateway.telemetry import tracing
from pointsman.gateway.telemetry.logs import Log
from pointsman.gateway.telemetry.otel import OtelTracing
from pointsman.kernel.record import read_recorded
from pointsman.testing.upstream_replies import fails

ROOT = Path(__file__).parents[2]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
ALLOWED = {
    "time", "level", "event", "endpoint", "status", "elapsed_ms", "turn_id", "decision_id",
    "trace_id", "requested_model", "model", "policy", "error_class", "input_tokens",
    "output_tokens", "cost_microusd",
}  # fmt: skip
ALLOWED_ELSEWHERE = (
    "time", "level", "event", "endpoint", "status", "elapsed_ms", "error_class"
)  # fmt: skip


class Told(list[bytes]):
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in b"".join(self).splitlines()]


def with_parts(live: Running, **changes: Any) -> None:
    """Put other telemetry in the place of the gateway's own."""
    for name, value in changes.items():
        msgspec.structs.force_setattr(live.parts, name, value)
        if name == "tracing":
            live.parts.calls.listener.tracing = value


@pytest.fixture
def told(live: Running) -> Told:
    found = Told()
    with_parts(live, log=Log(live.parts.pointsman.clock, is_on=True, write=found.append))
    return found


def test_a_request_is_one_line_of_what_is_allowed(live: Running, told: Told) -> None:
    answer = live.chat("a secret sentence", headers={"traceparent": PARENT})
    line = eventually(told.lines)[0]
    assert set(line) == ALLOWED
    assert line["turn_id"] == answer.headers["x-pointsman-turn"]
    assert (line["level"], line["endpoint"], line["status"]) == ("info", "chat", 200)
    assert (line["requested_model"], line["model"]) == ("auto", "open:big")
    assert (line["policy"], line["trace_id"]) == ("global_default", TRACE)
    assert (line["input_tokens"], line["output_tokens"]) == (12, 7)
    assert line["cost_microusd"] > 0


def test_every_line_is_as_the_published_schema_says(live: Running, told: Told) -> None:
    schema = json.loads((ROOT / "docs" / "reference" / "schemas" / "log-line.json").read_text())
    live.chat("one")
    live.chat("two", model="nobody:nothing")
    live.get("/api/cost", **ADMIN)
    eventually(lambda: len(told.lines()) >= 3)
    log = live.parts.log
    log.unforeseen(KeyError("x"))
    log.policy("sha256:ab", 2, [])
    log.policy("sha256:ab", 3, ["it is not signed"])
    log.shared_warning("Redis is away")
    log.worker_ended(1, 4711, "killed by signal 9")
    log._write(msgspec.json.encode(log._loss(3)) + b"\n")
    lines = told.lines()
    assert {each["event"] for each in lines} == {
        "request", "api", "unforeseen", "policy", "policy_refused", "shared", "worker_ended",
        "lines_dropped",
    }  # fmt: skip
    for line in lines:
        jsonschema_rs.validate(schema, line)
        assert not jsonschema_rs.is_valid(schema, line | {"message_text": "never"})
        assert not jsonschema_rs.is_valid(schema, line | {"event": "another"})


def test_neither_text_nor_keys_nor_headers_are_in_the_log(live: Running, told: Told) -> None:
    live.chat("a secret sentence", headers={"authorization": "Bearer my-own-secret"})
    live.post("/v1/chat/completions", b'{"model": "a-name-of-nobody", "messages": []}')
    live.post("/v1/messages", b"not json at all")
    eventually(lambda: len(told.lines()) >= 3)
    text = b"".join(told)
    assert [each["status"] for each in told.lines()] == [200, 404, 400]
    codes = [each["error_class"] for each in told.lines()]
    assert codes == ["", "model_not_found", "input.invalid"]
    for secret in (b"secret sentence", b"my-own-secret", b"a-name-of-nobody", b"not json"):
        assert secret not in text


def test_a_failure_is_told_with_its_class(town: Town, live: Running, told: Told) -> None:
    town.openai.then(*[fails(500)] * 3)
    live.chat("one", "big")
    line = eventually(told.lines)[0]
    assert (line["level"], line["status"], line["error_class"]) == ("error", 502, "server_error")


def test_why_a_key_was_refused_is_told_to_the_operator_alone(live: Running, told: Told) -> None:
    live.post("/api/keys", {"name": "one"}, **ADMIN)
    answers = [live.chat("one", headers={"x-api-key": "pk_nothing"}), live.chat("one")]
    assert {each.status_code for each in answers} == {401}
    assert len({each.text for each in answers}) == 1
    eventually(lambda: len(told.lines()) >= 3)
    codes = [each["error_class"] for each in told.lines() if each["event"] == "request"]
    assert codes == ["access.key_malformed", "access.key_missing"]
    text = live.get("/metrics", **ADMIN).text
    assert 'pointsman_refused_keys_total{reason="access.key_missing"} 1' in text


def test_other_routes_are_told_by_their_route_and_probes_only_when_they_fail(
    live: Running, told: Told
) -> None:
    live.get("/health")
    live.get("/api/turns/a-secret-name", **ADMIN)
    live.get("/v1/models/another-secret", **ADMIN)
    live.get("/metrics", authorization="Bearer my-own-secret")
    live.get("/api/cost", **ADMIN)
    eventually(lambda: len(told.lines()) >= 3)
    found = [(each["event"], each["endpoint"], each["status"]) for each in told.lines()]
    assert ("api", "GET /api/turns/{id}", 404) in found
    assert ("api", "GET /v1/models/{id}", 404) in found
    assert ("api", "GET /api/cost", 200) in found
    assert not [each for each in found if each[1] == "GET /health"]
    assert [*told.lines()[0]] == [*ALLOWED_ELSEWHERE]
    assert b"secret" not in b"".join(told)


def test_logs_can_be_off(town: Town, capfd: pytest.CaptureFixture[str]) -> None:
    write_home(town.home, pointsman={"telemetry": {"logs": "off"}})
    with running(town.home) as live:
        live.chat("one")
    assert '"event":"request"' not in capfd.readouterr().err


def test_logs_go_to_stderr_and_the_last_are_written_at_the_end(
    town: Town, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(town.home) as live:
        live.chat("one")
    assert capfd.readouterr().err.count('"event":"request"') == 1


@pytest.mark.parametrize(
    "given", ["", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", "nonsense", PARENT + "-more"]
)
def test_without_a_good_trace_the_turn_is_its_own(live: Running, given: str) -> None:
    answer = live.chat("one", headers={"traceparent": given})
    row = live.get("/api/decisions?kind=turn").json()["decisions"][0]
    assert row["trace_id"] == answer.headers["x-pointsman-turn"]


def test_the_callers_trace_is_in_the_ledger(live: Running) -> None:
    live.chat("one", headers={"traceparent": PARENT})
    _, _, aside = read_recorded(live.entries("decision.turn")[0].payload)
    assert aside.trace_id == TRACE


@pytest.fixture
def spans(live: Running) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    sent = OtelTracing(SimpleSpanProcessor(exporter))
    with_parts(live, tracing=sent)
    yield exporter
    with_parts(live, tracing=None)
    sent.close()


def test_a_call_is_a_span_in_the_callers_trace(live: Running, spans: InMemorySpanExporter) -> None:
    headers = {"traceparent": PARENT, "x-session-id": "mine"}
    answer = live.chat("a secret sentence", headers=headers)
    decided, span = eventually(lambda: len(found := spans.get_finished_spans()) == 2 and found)
    assert decided.name == "route.decide"
    assert decided.context.trace_id == int(TRACE, 16)
    assert decided.start_time < decided.end_time
    assert decided.end_time <= span.end_time
    assert decided.attributes["route.decision_id"] == answer.headers["x-pointsman-decision"]
    assert decided.attributes["route.model"] == "open:big"
    assert decided.attributes["route.rejected"] == 0
    assert "a secret sentence" not in str(dict(decided.attributes))
    assert span.name == "chat big"
    assert span.context.trace_id == int(TRACE, 16)
    assert span.parent is not None
    assert span.start_time < span.end_time
    found = dict(span.attributes or {})
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "big",
        "gen_ai.response.model": "big",
        "gen_ai.conversation.id": "mine",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.response.finish_reasons": ("stop",),
        "route.turn_id": answer.headers["x-pointsman-turn"],
        "route.decision_id": answer.headers["x-pointsman-decision"],
        "route.policy": "global_default",
        "route.requested_model": "auto",
        "route.model": "open:big",
        "route.placement_rule": found["route.placement_rule"],
    }


def test_a_fallback_is_two_spans_and_the_second_says_from_whom(
    town: Town,
) -> None:
    rule = {"when": {"message_matches": "one"}, "use": "open:big", "name": "big"}
    routing = {"schema_version": 1, "global_default": "house:llama", "rules": [rule]}
    write_home(town.home, routing=routing)
    town.openai.then(*[fails(500)] * 3)
    spans = InMemorySpanExporter()
    with running(town.home) as live:
        with_parts(live, tracing=OtelTracing(SimpleSpanProcessor(spans)))
        live.chat("one")
        live.outcomes(2)
        names = [each.name for each in spans.get_finished_spans()]
        first, second = (e for e in spans.get_finished_spans() if not e.name.startswith("route."))
        again = next(e for e in spans.get_finished_spans() if e.name == "route.fallback")
    assert names.count("route.decide") == names.count("route.fallback") == 1
    assert again.attributes["route.fallback_from"] == ("open:big",)
    assert again.attributes["route.model"] == "house:llama"
    assert first.attributes["error.type"] == "server_error"
    assert first.attributes["route.rule"] == "big"
    assert second.attributes["route.fallback_from"] == ("open:big",)


def test_calls_are_counted_as_the_conventions_name_it(live: Running) -> None:
    reader = InMemoryMetricReader()
    sent = OtelTracing(SimpleSpanProcessor(InMemorySpanExporter()), reader)
    with_parts(live, tracing=sent)
    live.chat("one")
    live.chat("two", stream=True)
    live.outcomes(2)
    found = reader.get_metrics_data()
    points = {
        metric.name: list(metric.data.data_points)
        for metric in found.resource_metrics[0].scope_metrics[0].metrics
    }
    with_parts(live, tracing=None)
    sent.close()
    (duration,) = points["gen_ai.client.operation.duration"]
    assert duration.count == 2
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "big",
    }
    kinds = {
        each.attributes["gen_ai.token.type"]: each.sum
        for each in points["gen_ai.client.token.usage"]
    }
    assert kinds == {"input": 24, "output": 14}
    (first,) = points["gen_ai.client.operation.time_to_first_chunk"]
    assert first.count == 1


def test_without_an_endpoint_nothing_of_opentelemetry_is_asked_for() -> None:
    assert tracing.open_tracing({}) is None


def test_without_the_extra_an_endpoint_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pointsman.gateway.telemetry.otel", None)
    assert tracing.open_tracing({tracing.ENDPOINT: "http://127.0.0.1:4318"}) is None


def test_with_an_endpoint_spans_are_sent_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tracing.ENDPOINT, "http://127.0.0.1:9")
    found = tracing.open_tracing({tracing.ENDPOINT: "http://127.0.0.1:9"})
    assert isinstance(found, OtelTracing)
    found.close()


def test_every_count_is_read_by_a_strict_parser(town: Town, live: Running) -> None:
    live.post("/api/budgets", {"name": 'a "day"', "limit_usd": "1"}, **ADMIN)
    live.chat("one")
    live.chat("two", stream=True)
    town.openai.then(*[fails(401, "authentication_error", "no")] * 2)
    live.chat("three", "big")
    live.outcomes(3)
    text = live.get("/metrics").text
    found = {each.name: each for each in text_string_to_metric_families(text)}
    samples = {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for family in found.values()
        for each in family.samples
    }
    assert samples["pointsman_overhead_seconds_count", ()] == 2
    assert samples["pointsman_ledger_commit_seconds_count", ()] >= 3
    assert samples["pointsman_first_byte_seconds_count", (("model", "open:big"),)] == 1
    assert samples["pointsman_provider_state", (("provider", "open"),)] == 2
    assert samples["pointsman_provider_state", (("provider", "house"),)] == 0
    budget = samples["pointsman_budget_remaining_usd", (("budget", 'a "day"'), ("key", ""))]
    assert 0 < budget < 1
    assert samples["pointsman_ledger_writable", ()] == 1
    assert all(each.documentation for each in found.values())


def test_every_rejected_candidate_is_counted_also_where_a_later_rule_wins(
    town: Town, serve: Callable[[Path], Running]
) -> None:
    rules = [
        {"name": "first", "when": {"message_matches": "hello"}, "use": "open:big"},
        {"name": "second", "when": {"message_matches": "hello"}, "use": "claude:opus"},
        {"name": "third", "when": {"message_matches": "hello"}, "use": "house:llama"},
    ]
    routing = {"schema_version": 1, "global_default": "open:big", "rules": rules}
    write_home(town.home, routing=routing)
    live = serve(town.home)
    headers = {"x_pointsman_privacy": "local"}
    assert live.chat("hello", headers=headers).headers["x-pointsman-rule"] == "third"
    # No rule matches: the default is rejected, and the local model takes the turn.
    assert live.chat("something else", headers=headers).status_code == 200
    told = 'pointsman_rejections_total{reason="privacy_blocked"} 3'
    assert told in live.get("/metrics").text


def test_the_overhead_leaves_the_providers_time_out(live: Running) -> None:
    live.chat("one")
    live.outcomes(1)
    text = live.get("/metrics").text
    sums = {
        line.split()[0].partition("{")[0]: float(line.split()[1])
        for line in text.splitlines()
        if "_seconds_sum" in line
    }
    assert 0 < sums["pointsman_overhead_seconds_sum"] <= sums["pointsman_request_seconds_sum"]
