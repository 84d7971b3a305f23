"""A turn that must stay within a zone reaches no model outside of it, whatever is tried."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import Town
from tests.gateway.house import ADMIN_TOKEN, keeps, write_home
from tests.gateway.outcome_cells import PATHS, request_body

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.testing import calls, fails, says

RULE = {
    "id": "gdpr",
    "action": "stay_within",
    "zone": "eu",
    "message": "customers stay",
    "conditions": [{"field": "content", "operator": "contains", "value": "customer"}],
}
ZONES = {"eu": "cloud", "vendor_dpa": "eu", "us": "cloud"}
SENT = "write to the customer"


def placed(*rules: Any, taint: str = "session", **more: Any) -> dict[str, Any]:
    return {**keeps(taint=taint), "zones": ZONES, "policy_rules": rules, **more}


@pytest.fixture
def zoned(town: Town) -> Town:
    """`open:` stands in the us, `claude:opus` with a vendor of the eu."""
    zones = {"open:big": "us", "open:small": "us", "claude:opus": "vendor_dpa"}
    models = {name: {**each, **({"zone": zones[name]} if name in zones else {})}
              for name, each in town.models["models"].items()}  # fmt: skip
    write_home(
        town.home,
        models={**town.models, "models": models},
        placement=placed(RULE),
        routing={"schema_version": 1, "global_default": ["open:big", "claude:opus"]},
    )
    return town


def assert_clean(town: Town) -> None:
    """Assert that no provider of the us saw the text, and that the audit says the same."""
    assert SENT not in town.openai.texts()
    with Pointsman(town.home, writer="audit") as pointsman:
        assert pointsman.egress().is_clean
        report = pointsman.replay_all()
        assert report.identical == report.total > 0


@pytest.mark.parametrize("path", PATHS)
def test_a_turn_goes_to_a_model_within_its_zone(zoned: Town, serve: Any, path: str) -> None:
    live = serve(zoned.home)
    told = live.post(path, request_body(path, "auto", SENT, ()), x_session_id="a")
    assert told.headers["x-pointsman-model"] == "claude:opus"
    why = live.get(f"/api/turns/{told.headers['x-pointsman-turn']}").json()
    assert "stays within eu" in " ".join(why["why"].split())
    assert why["placement"]["zones"] == ["eu"]
    # The session carries the text along.
    told = live.post(path, request_body(path, "auto", "hello", ()), x_session_id="a")
    assert told.headers["x-pointsman-model"] == "claude:opus"
    told = live.post(path, request_body(path, "auto", "hello", ()), x_session_id="b")
    assert told.headers["x-pointsman-model"] == "open:big"
    live.outcomes(3)
    assert_clean(zoned)


@pytest.mark.parametrize("named", ["open:big", "@big"])
def test_no_choice_by_hand_leads_out_of_a_zone(zoned: Town, serve: Any, named: str) -> None:
    live = serve(zoned.home)
    sent = f"@big {SENT}" if named == "@big" else SENT
    told = live.chat(sent, model="auto" if named == "@big" else named)
    if named == "@big":
        assert told.headers["x-pointsman-model"] == "claude:opus"
    else:
        assert told.status_code >= 400
        assert "this turn stays within eu" in told.text
    assert_clean(zoned)


def test_a_fallback_stays_within_the_zone_and_ends_on_this_machine(zoned: Town, serve: Any) -> None:
    zoned.anthropic.then(*[fails(500)] * 4)
    live = serve(zoned.home)
    told = live.chat(SENT)
    assert told.headers["x-pointsman-model"] == "house:llama"
    live.outcomes(2)
    assert_clean(zoned)


def test_a_tool_result_that_must_stay_within_a_zone_ends_a_turn_outside_of_it(
    zoned: Town, serve: Any
) -> None:
    live = serve(zoned.home)
    zoned.openai.then(calls(("look", {})))
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    asked = [{"role": "user", "content": "what is next?"}]
    first = live.chat(messages=asked, tools=tools, headers={"x-session-id": "t"})
    assert first.headers["x-pointsman-model"] == "open:big"
    call = first.json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": SENT}
    more = [*asked, call, result]
    told = live.chat(messages=more, tools=tools, headers={"x-session-id": "t"})
    assert told.status_code >= 400
    assert SENT not in zoned.openai.texts()


def test_nothing_within_a_zone_is_run_again_elsewhere(zoned: Town, serve: Any) -> None:
    routing = {"global_default": ["open:big", "claude:opus"], "pattern": {"shadow": 1}}
    write_home(zoned.home, routing={"schema_version": 1, **routing})
    live = serve(zoned.home)
    assert live.chat(SENT).headers["x-pointsman-model"] == "claude:opus"
    live.outcomes(1)
    assert not zoned.openai.requests
    assert_clean(zoned)


def test_the_rows_of_the_table_may_name_a_zone(zoned: Town, serve: Any) -> None:
    table = placed(taint="session")
    rows = [{**row, "action": {**row["action"], "zone": "eu"}} if row["id"] == "AUTO_CLOUD" else row
            for row in table["rules"]]  # fmt: skip
    write_home(
        zoned.home,
        placement={
            **table,
            "rules": rows,
            "local_model": "house:llama",
            "defaults": {"token_threshold": 1, "fallback_allowed": False},
        },
    )
    live = serve(zoned.home)
    told = live.chat("hello there, how are you?", headers={"x-session-id": "r"})
    assert told.headers["x-pointsman-model"] == "claude:opus"
    with Pointsman(zoned.home, writer="look") as pointsman:
        assert pointsman.tainted() == []


def test_a_preview_and_the_checks_tell_of_zones(zoned: Town) -> None:
    home = ["--home", str(zoned.home)]
    shown = CliRunner().invoke(main, ["route", *home, SENT]).stdout
    assert "stays within eu" in shown
    assert "claude:opus" in shown
    checked = CliRunner().invoke(main, ["rules", "check", *home]).stdout
    assert "ways out of eu are blocked" in checked
    proved = CliRunner().invoke(main, ["rules", "prove", *home])
    assert "what must stay within vendor_dpa reaches no model outside of it" in proved.stdout
    assert "REFUTED" not in proved.stdout.split("can fire")[0]
    listed = CliRunner().invoke(main, ["models", *home]).stdout
    assert "vendor_dpa" in listed


def test_a_session_is_let_go_of_its_zone_with_a_reason(zoned: Town, serve: Any) -> None:
    zoned.anthropic.then(says("one"), says("two"))
    live = serve(zoned.home)
    headers = {"x-session-id": "s"}
    live.chat(SENT, headers=headers)
    cleared = live.post(
        "/api/sessions/s/clear-taint",
        {"reason": "a test name"},
        authorization=f"Bearer {ADMIN_TOKEN}",
    )
    assert cleared.status_code == 200
    assert live.chat("hello", headers=headers).headers["x-pointsman-model"] == "open:big"
