"""The thirty faults of providers: each in both modes and at three positions has its outcome."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.fault_cells import CELLS, KEY, PAGE, Cell, Found, page, run_cells
from tests.gateway.house import (
    PATIENT,
    _at_once,
    model,
    provider,
    running,
    upstream,
    write_home,
)

from pointsman.providers.http.provider import ProviderEnvironment
from pointsman.testing import FAULTS, TestAuthority, fails, says
from pointsman.testing.upstream_replies import Close, SendBytes, does, plain


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[Cell, Found]:
    return run_cells(tmp_path_factory.mktemp("cells"))


def cells_of(fault: str) -> list[Cell]:
    return [each for each in CELLS if each.fault == fault]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_cell_has_one_decision_one_outcome_and_one_end(
    found: dict[Cell, Found], fault: str
) -> None:
    for cell in cells_of(fault):
        seen, ends, decisions, asked = found[cell]
        assert decisions == 1, cell
        assert len(ends) == 1, cell
        assert 1 <= len(asked) <= 3, cell
        assert seen.status in (200, 400, 403, 404, 413, 429, 502, 504), cell
        spent = ends[0]["spent"]
        assert spent is None or spent["cost_microusd"] >= 0, cell
        (error_class, is_whole) = (ends[0]["error_class"], seen.status == 200)
        if not is_whole:
            assert error_class, cell
            assert_error(cell, json.loads(seen.body))
        elif error_class:
            assert cell.mode == "stream", cell
            assert_error(cell, last_event(seen.body))
        assert KEY.encode() not in seen.body, cell


def last_event(body: bytes) -> dict[str, object]:
    lines = [line for line in body.splitlines() if line.startswith(b"data:")]
    value = json.loads(lines[-1].removeprefix(b"data:"))
    assert isinstance(value, dict)
    return value


def assert_error(cell: Cell, value: dict[str, object]) -> None:
    """Assert that it is an error as the caller's vendor words it."""
    error = value["error"]
    assert isinstance(error, dict), cell
    assert error["message"], cell
    if cell.dialect == "messages":
        assert value["type"] == "error", cell
    assert error["type"], cell


@pytest.mark.parametrize("fault", FAULTS)
def test_no_text_comes_twice(found: dict[Cell, Found], fault: str) -> None:
    for cell in cells_of(fault):
        (*_, asked) = found[cell]
        # What the provider itself says again after a pause is its own.
        says_again = cell.position == "after content"
        assert found[cell].seen.body.count(b"one two") <= 1 + says_again, cell
        assert asked, cell


def test_the_page_shows_the_matrix(found: dict[Cell, Found], tmp_path: Path) -> None:
    published = PAGE.read_text("utf-8").splitlines()
    assert len(published) == len(page(found).splitlines()), "python -m tests.gateway.fault_cells"
    missing = {*published} - {*page(found).splitlines()}
    for attempt in range(3):
        if missing:
            # A busy machine may take what is slow for what is silent: look again.
            (tmp_path / str(attempt)).mkdir()
            missing -= {*page(run_cells(tmp_path / str(attempt))).splitlines()}
    assert missing == set(), "python -m tests.gateway.fault_cells"


def test_a_refused_connection_is_a_network_failure(tmp_path: Path) -> None:
    with upstream(listens=False) as nobody:
        assert_fails(tmp_path, nobody.url, "network")


def test_a_name_that_does_not_exist_is_a_network_failure(tmp_path: Path) -> None:
    async def nowhere(_host: str, _port: int) -> Sequence[str]:
        raise OSError("Name or service not known")

    around = ProviderEnvironment(sleep=_at_once, resolve=nowhere)
    assert_fails(tmp_path, "http://gone.example", "network", around)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"])
def test_a_name_that_leads_into_a_private_network_is_not_connected_to(
    tmp_path: Path, address: str
) -> None:
    async def private(_host: str, _port: int) -> Sequence[str]:
        return [address]

    with upstream() as inside:
        around = ProviderEnvironment(sleep=_at_once, resolve=private)
        assert_fails(tmp_path, f"http://rebound.example:{inside.scripted.port}", None, around)
        assert inside.scripted.connections_made == 0


@pytest.mark.parametrize("is_expired", [False, True])
def test_a_certificate_nobody_vouches_for_gets_no_request(tmp_path: Path, is_expired: bool) -> None:
    tls = TestAuthority(tmp_path).server(is_expired=is_expired)
    with upstream(tls=tls) as stranger:
        assert_fails(tmp_path, stranger.url, "network")
        assert not stranger.requests


def assert_fails(
    folder: Path, url: str, error_class: str | None, around: ProviderEnvironment = PATIENT
) -> None:
    models = {
        "schema_version": 1,
        "providers": {"p": provider("openai", url)},
        "models": {"p:m": model()},
    }
    home = write_home(folder / "home", models=models)
    with running(home, around) as live:
        for is_stream in (False, True):
            told = live.chat("hello", model="p:m", stream=is_stream)
            assert told.status_code in (502, 503)
        ends = live.outcomes(1)
        assert ends[0]["error_class"] == (error_class or ends[0]["error_class"])
        assert live.kinds().count("decision.turn") == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_takes_no_key_along(town: Town, status: int) -> None:
    with upstream() as elsewhere:
        target = {"location": f"{elsewhere.url}/v1/chat/completions"}
        town.openai.then(does(SendBytes(plain(b"", status, target)), Close()))
        with running(town.home) as live:
            assert live.chat("hello", model="open:big").status_code == 502
        assert elsewhere.scripted.connections_made == 0


def test_each_key_goes_to_its_own_provider_only(town: Town) -> None:
    with running(town.home) as live:
        for name in ("open:big", "claude:opus", "house:llama"):
            live.chat("hello", model=name, headers={"authorization": "Bearer caller-key"})
    own = {"sk-openai-upstream-key": town.openai, "sk-ant-upstream-key": town.anthropic}
    for side in (town.openai, town.anthropic, town.local):
        shown = str(side.requests)
        assert "caller-key" not in shown
        assert {key for key in own if key in shown} == {k for k, v in own.items() if v is side}


def test_a_burst_of_failures_is_ridden_out_or_passed_over_and_then_over(town: Town) -> None:
    """F12: five failures, then recovery: the first call takes three of them."""
    town.openai.then(*[fails(503, headers={"retry-after": "0"})] * 5, says("back"))
    with running(town.home) as live:
        statuses = [live.chat("hello", model="open:big").status_code for _ in range(3)]
    assert statuses == [502, 200, 200]


def test_one_bad_key_of_two_costs_no_answer(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """F14: the next key is tried within the same call."""
    monkeypatch.setenv("OTHER_TEST_KEY", "sk-other")
    keys = [{"env": "OPENAI_TEST_KEY"}, {"env": "OTHER_TEST_KEY"}]
    town.models["providers"]["open"]["api_key"] = keys
    write_home(town.home, models=town.models)
    town.openai.then(fails(401, "authentication_error"), says("with the other"))
    with running(town.home) as live:
        assert live.chat("hello", model="open:big").status_code == 200
        assert live.chat("again", model="open:big").status_code == 200
    used = [each.header("authorization") for each in town.openai.requests]
    # The session says which key is asked first; the refused one is not asked again.
    assert used[1:] == [used[1]] * 2
    assert {*used[:2]} == {"Bearer sk-openai-upstream-key", "Bearer sk-other"}


def test_everything_down_is_told_and_everything_back_is_served(town: Town) -> None:
    """F29: all out, then all back."""
    town.openai.then(*[fails(500)] * 3)
    with running(town.home) as live:
        told = live.chat("hello")
        assert told.status_code == 502
        assert live.chat("hello").status_code == 200
    assert os.environ["OPENAI_TEST_KEY"] not in told.text
