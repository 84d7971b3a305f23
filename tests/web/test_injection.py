"""Texts of others never become anything but text: in no field, on no page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running, model, provider, running, upstream, write_home
from tests.web.conftest import has_count, turns
from tests.web.payloads import payloads
from tests.web.scene import in_memory

from pointsman.testing import fails, says

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
PAYLOADS = payloads(300)
SHOWN_ALONE = PAYLOADS[::10]
RAN = "window.__ran === undefined"


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A home whose every name is a payload, and where each was said once."""
    with ExitStack() as stack:
        others = stack.enter_context(upstream(otherwise=says(PAYLOADS[0])))
        local = stack.enter_context(upstream())
        folder = stack.enter_context(in_memory())
        home = _written(folder / "home", others.url, local.url)
        serving = stack.enter_context(running(home))
        _said(serving, others)
        yield serving


def _model_name(text: str) -> str:
    """Give a payload as the id of a model, which holds no blanks; a slash does the same."""
    return f"bad:{text.replace(' ', '/')}"


def _written(home: Path, url: str, local: str) -> Path:
    names = [_model_name(text) for text in PAYLOADS]
    models = {name: model("local", "0", aliases=[f"m{n}"]) for n, name in enumerate(names)}
    rules = [
        {"name": text, "when": {"message_matches": f"rule-{n}$"}, "use": names[n]}
        for n, text in enumerate(PAYLOADS)
    ]
    routing = {"schema_version": 1, "global_default": names[0], "rules": rules}
    routing["budgets"] = [{"name": text, "limit_usd": 5} for text in PAYLOADS[:8]]
    write_home(
        home,
        pointsman={"telemetry": {"logs": "off"}},
        models={
            "schema_version": 1,
            "providers": {"bad": provider("openai", url), "other": provider("openai", local)},
            "models": models,
        },
        routing=routing,
    )
    cases = [
        {"condition": f"input == {n}", "label": text, "target": text}
        for n, text in enumerate(PAYLOADS)
    ]
    decision = {"id": "bad", "name": PAYLOADS[1], "type": "switch", "input": "{{ a.b }}",
                "cases": cases, "default": {"target": PAYLOADS[2]}}  # fmt: skip
    (home / "decisions").mkdir()
    (home / "decisions" / "bad.yaml").write_text(json.dumps({"decision": decision}))
    return home


def _said(live: Running, others: Any) -> None:
    for number, text in enumerate(PAYLOADS):
        tool = {"name": f"t{number}", "description": text, "parameters": {"type": "object"}}
        call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": text}}
        if number % 30 == 0:
            others.then(*[fails(400, message=text)])
        body = {
            "model": "auto",
            "messages": [
                {"role": "assistant", "content": text, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": text},
                {"role": "user", "content": f"{text} rule-{number}"},
            ],
            "tools": [{"type": "function", "function": tool}],
        }
        ascii_text = text.encode("ascii", "replace").decode()
        live.post(
            "/v1/chat/completions", body, x_session_id=ascii_text, x_pointsman_workspace=ascii_text
        )
    live.post("/api/route/preview", {"message": "\n".join(PAYLOADS)})
    for number in range(0, 300, 10):
        context = {"a": {"b": number}}
        body = {"input": context, "workflow_id": f"w-{number}", "stage_id": "s"}
        assert live.post("/api/decisions/bad/evaluate", body).status_code == 200


def test_all_payloads_were_recorded_where_they_can_be_shown(live: Running) -> None:
    found = turns(live)
    assert {each["rule_name"] for each in found if each["rule_name"]} == {*PAYLOADS}
    assert {each["chosen_model"] for each in found} >= {*map(_model_name, PAYLOADS)}
    assert {each["workspace"] for each in found} >= {*SHOWN_ALONE}


def test_lists_of_payloads_run_nothing(open_page: Open, live: Running) -> None:
    page = open_page("#/turns")
    for _ in range(3):
        has_count(page.locator("tr[data-row]"), 100)
        assert page.evaluate(RAN)
        page.get_by_role("button", name="Older").click()
    page.goto(f"{live.url}/#/policies")
    has_count(page.locator(".rules li"), 300)
    assert page.locator(".rules strong").first.inner_text() == PAYLOADS[0]
    page.locator(".editor .line").first.wait_for()
    for path in ("", "sessions", "workflows", "workflows/bad", "ledger"):
        page.goto(f"{live.url}/#/{path}")
        page.locator("main .card").first.wait_for()
        page.locator("main .card").last.wait_for()
        assert page.evaluate(RAN), path


def test_why_views_of_payloads_show_them_as_text(open_page: Open, live: Running) -> None:
    found = turns(live)
    every = next(each for each in found if each["is_preview"])
    page = open_page(f"#/turns/{every['turn_id']}")
    page.locator("pre.message").wait_for()
    assert page.locator("pre.message").inner_text() == "\n".join(PAYLOADS)
    alone = {each["rule_name"]: each["turn_id"] for each in found}
    for text in SHOWN_ALONE:
        page.goto(f"{live.url}/#/turns/{alone[text]}")
        page.locator("pre.message").filter(has_text="rule-").wait_for()
        assert page.locator("pre.message").inner_text().startswith(text)
        assert page.evaluate(RAN), text


def test_addresses_and_answers_that_are_payloads_run_nothing(
    open_page: Open, live: Running
) -> None:
    page = open_page("#/", may_miss=True)
    for text in SHOWN_ALONE[:10]:
        page.goto(f"{live.url}/#/turns?text={text}&model={text}")
        page.locator("main .card, main .trouble").first.wait_for()
        page.goto(f"{live.url}/#/sessions/{text.replace('/', '%2F')}")
        page.locator("main .card, main .trouble").first.wait_for()
        assert page.evaluate(RAN), text


def test_a_payload_in_the_live_feed_runs_nothing(open_page: Open, live: Running) -> None:
    page = open_page("#/")
    page.get_by_text("live", exact=True).wait_for()
    live.chat(f"{PAYLOADS[3]} rule-3")
    page.locator(".feed-lines .fresh").first.wait_for()
    assert page.evaluate(RAN)
