"""Any request that the schema allows, and many that it forbids, is answered as the schema says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.gateway.house import Running, model, provider, running, upstream, write_home
from tests.gateway.test_stops import agree, lift
from tests.gateway.town import ADMIN, anything

from pointsman.gateway.api.status.openapi import openapi
from pointsman.gateway.route_table import ROUTES

PARTS = 4
ENOUGH = 5_000 // PARTS
WITH_A_WHOLE_LEDGER = 20
MOST_ROUNDS = 10
"""An operation that takes nothing has few different cases: the others make up for it."""

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
]
WITHOUT_AN_END = {("GET", "/api/events")}
WHOLE_LEDGER = ("/api/replay", "/api/verify", "/api/export", "/api/audit/egress", "/api/backtest")
"""These read all that was recorded: they come first, while that is little, and seldom."""

OPERATIONS = sorted(
    {*ROUTES} - WITHOUT_AN_END, key=lambda each: (each[1] not in WHOLE_LEDGER, each[1], each[0])
)
SCHEMA = schemathesis.openapi.from_dict(openapi(ROUTES.values()))


class Count:
    def __init__(self) -> None:
        self.cases = 0
        self.session = requests.Session()
        self.began = time.monotonic()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("schema") / "home"
    with upstream(otherwise=anything) as openai, upstream() as anthropic:
        models = {
            "schema_version": 1,
            "providers": {
                "open": provider("openai", openai.url),
                "claude": provider("anthropic", anthropic.url),
            },
            "models": {
                "open:big": model("local", "0", aliases=["big"]),
                "claude:opus": model("local", "0", aliases=["opus"]),
            },
        }
        routing = {"schema_version": 1, "global_default": "open:big"}
        settings = {"telemetry": {"logs": "off"}}
        write_home(Path(home), models=models, routing=routing, pointsman=settings)
        with running(home) as live:
            live.chat("the first turn")
            yield live


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_case_of_the_schema_is_answered_with_what_it_does_not_say(
    house: Running, part: int, record_property: Callable[[str, object], None]
) -> None:
    count, mine = Count(), OPERATIONS[part::PARTS]
    each = -(-ENOUGH // len(mine))
    for round_ in range(MOST_ROUNDS):
        for method, path in mine:
            if count.cases < ENOUGH and not (round_ and path in WHOLE_LEDGER):
                share = WITH_A_WHOLE_LEDGER if path in WHOLE_LEDGER else each
                _fuzz(house, count, SCHEMA[path][method], share, round_)
    count.session.close()
    record_property("cases", count.cases)
    record_property("seconds", round(time.monotonic() - count.began))
    assert count.cases >= ENOUGH


def _fuzz(house: Running, count: Count, operation: Any, most: int, round_: int) -> None:
    good = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    bad = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @seed(round_)
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of(good, bad))
    def one(case: Any) -> None:
        count.cases += 1
        response = case.call(base_url=house.url, headers=ADMIN, timeout=30, session=count.session)
        case.validate_response(response, checks=CHECKS)

    one()
    if operation.path == "/api/stops" and operation.method.upper() == "POST":
        _lift_every_stop(house)


def _lift_every_stop(house: Running) -> None:
    """Lift what was ordered: the calls of other cases must reach a model again."""
    for row in house.get("/api/stops", **ADMIN).json()["stops"]:
        agree(house.parts.pointsman, lift(house.parts.pointsman, row["id"]))
    assert house.get("/api/stops", **ADMIN).json()["stops"] == []
