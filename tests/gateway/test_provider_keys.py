"""Several keys of one provider: shared by weight, kept by a session, passed over while out."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.house import entries, model, provider, running, upstream, write_home

from pointsman.kernel.record import OUTCOME, OUTCOME_FORM
from pointsman.providers.credentials import credential_id
from pointsman.providers.key_choice import KeyChoice, KeyOption, choose_keys, with_used_key
from pointsman.testing import fails, says
from pointsman.turns.registry.login import ProviderKey

A, B, C = (ProviderKey(env=f"POINTSMAN_TEST_{name}") for name in "ABC")


def key_of(request: Any) -> str:
    return str(dict(request.headers)["authorization"])


def options(*weights: int, out: tuple[int, ...] = ()) -> list[KeyOption]:
    return [KeyOption(f"k{n}", weight, n not in out) for n, weight in enumerate(weights)]


def test_sessions_are_shared_by_weight() -> None:
    first = Counter(choose_keys(f"s{n}", options(3, 1))[0] for n in range(4000))
    assert 2850 < first[0] < 3150


def test_vectors_of_the_choice_stay_as_they_were_recorded() -> None:
    assert [choose_keys(unit, options(1, 1, 2)) for unit in ("a", "b", "c", "d")] == VECTORS


VECTORS = [(0, 2, 1), (2, 1, 0), (2, 1, 0), (2, 0, 1)]


@given(
    st.text(min_size=1, max_size=20), st.lists(st.integers(1, 9), min_size=2, max_size=6), st.data()
)
def test_a_key_that_is_out_moves_no_session_of_another(
    unit: str, weights: list[int], data: st.DataObject
) -> None:
    out = data.draw(st.integers(0, len(weights) - 1))
    before = choose_keys(unit, options(*weights))
    after = choose_keys(unit, options(*weights, out=(out,)))
    assert sorted(after) == list(range(len(weights)))
    assert after[-1] == out
    assert [each for each in before if each != out] == list(after[:-1])


def test_a_call_of_no_session_goes_by_the_order_of_the_file() -> None:
    assert choose_keys("", options(1, 9, 1)) == (0, 1, 2)
    assert choose_keys("", options(1, 9, 1, out=(0,))) == (1, 2, 0)


def home_with(path: Path, url: str, keys: list[Any]) -> Path:
    return write_home(
        path,
        models={
            "schema_version": 1,
            "providers": {"open": provider("openai", url, api_key=keys)},
            "models": {"open:big": model()},
        },
        routing={"schema_version": 1, "global_default": "open:big"},
    )


def key_choices(home: Path) -> list[KeyChoice]:
    ends = (OUTCOME_FORM.read(each.payload) for each in entries(home, OUTCOME))
    details = (msgspec.json.decode(bytes(each.detail)) for each in ends)
    return [msgspec.convert(each["key_choice"], KeyChoice) for each in details]


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    for each in (A, B, C):
        monkeypatch.setenv(each.env, f"secret-{each.env[-1]}")
    return [{"env": A.env}, {"env": B.env, "weight": 2}, {"env": C.env}]


def test_a_session_keeps_its_key_and_the_choice_can_be_made_again_from_its_record(
    tmp_path: Path, keys: list[dict[str, Any]]
) -> None:
    with upstream(otherwise=says("hi")) as side:
        home = home_with(tmp_path / "home", side.url, keys)
        with running(home) as live:
            for session in ("s1", "s2", "s3", "s4", "s5", "s6"):
                for text in ("one", "two"):
                    live.chat(text, headers={"x_session_id": session})
        sent = [key_of(each) for each in side.requests]
    assert sent[0::2] == sent[1::2]
    assert len(set(sent)) > 1
    choices = key_choices(home)
    ids = {credential_id(each): f"Bearer secret-{each.env[-1]}" for each in (A, B, C)}
    assert [ids[each.used] for each in choices] == sent
    for each in choices:
        assert each.keys[choose_keys(each.unit, each.keys)[0]].id == each.chosen == each.used
        assert [key.weight for key in each.keys] == [1, 2, 1]


def test_a_key_at_its_limit_is_passed_over_and_takes_no_other_with_it(
    tmp_path: Path, keys: list[dict[str, Any]]
) -> None:
    with upstream(otherwise=says("hi")) as side:
        home = home_with(tmp_path / "home", side.url, keys)
        with running(home) as live:
            live.chat("one", headers={"x_session_id": "s1"})
            used = key_of(side.requests[0])
            side.then(fails(429, "rate_limit_error", headers={"retry-after": "60"}))
            assert live.chat("two", headers={"x_session_id": "s1"}).status_code == 200
            assert live.chat("three", headers={"x_session_id": "s1"}).status_code == 200
            sent = [key_of(each) for each in side.requests]
    assert sent[1] == used
    assert used not in sent[2:]
    assert sent[2] == sent[3]
    second, third = key_choices(home)[1:]
    assert second.chosen != second.used
    assert [key.is_open for key in third.keys].count(False) == 1


def test_a_key_that_is_missing_is_passed_over(
    tmp_path: Path, keys: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(A.env)
    monkeypatch.delenv(B.env)
    with upstream(otherwise=says("hi")) as side:
        home = home_with(tmp_path / "home", side.url, keys)
        with running(home) as live:
            for session in ("s1", "s2", "s3"):
                assert live.chat("one", headers={"x_session_id": session}).status_code == 200
        assert {key_of(each) for each in side.requests} == {"Bearer secret-C"}


def test_one_key_leaves_no_choice_on_record(tmp_path: Path, keys: list[dict[str, Any]]) -> None:
    with upstream(otherwise=says("hi")) as side:
        home = home_with(tmp_path / "home", side.url, keys[:1])
        with running(home) as live:
            live.chat("one")
    (outcome,) = entries(home, OUTCOME)
    assert b"key_choice" not in outcome.payload
    assert with_used_key(None, "x") is None
