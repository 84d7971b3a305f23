"""Which policy a home decides by: edits, invalid files, files that do not fit, missing secrets."""

from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import a_home, a_turn


@pytest.mark.req(106)
def test_an_edited_policy_takes_effect_on_the_next_turn_and_has_another_id(tmp_path: Path) -> None:
    with a_home(tmp_path / "home") as pointsman:
        first = a_turn(pointsman)
        (pointsman.home.path / "models.yaml").write_text(
            "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
            "models: {'acme:a': {location: cloud}}\n"
        )
        assert a_turn(pointsman).policy_id != first.policy_id


@pytest.mark.req(158)
def test_an_invalid_policy_leaves_the_last_good_one_in_force_also_after_a_restart(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    with a_home(home) as pointsman:
        (home / "routing.yaml").write_text("schema_version: 1\n")
        good = a_turn(pointsman).policy_id
        (home / "routing.yaml").write_text("schema_version: 1\nglobal_default: no:such\n")
        assert a_turn(pointsman).policy_id == good
        problems = pointsman.in_force().problems
    assert [problem.code for problem in problems] == ["config.unknown_value"]
    with a_home(home) as again:
        assert again.in_force().problems == problems


@pytest.mark.req(158)
def test_an_invalid_policy_is_recorded_once_as_an_event(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with a_home(home) as pointsman:
        (home / "routing.yaml").write_text("schema_version: 1\nglobal_default: no:such\n")
        a_turn(pointsman)
        a_turn(pointsman)
    reader = LedgerReader(pointsman.home.database)
    (event,) = reader.of_kind("event.routing.policy_invalid")
    reader.close()
    told = msgspec.json.decode(event.entry.payload)
    assert told["policy_path"].endswith("routing.yaml")
    assert told["using_last_known_good"] is False
    assert "config.unknown_value" in told["errors"][0]


WRITTEN = "sk-written-by-mistake-5f0e8a1c"
AMAZON = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.parametrize(
    "given",
    [
        f"api_key: {WRITTEN}",
        f"api_key: [{WRITTEN}]",
        f"api_key: {{{WRITTEN}: 1}}",
        f"api_key: {{env: [{WRITTEN}]}}",
        f"api_key: {{weight: {WRITTEN}}}",
        f"headers: {{x-key: [{WRITTEN}]}}",
        f"query: {WRITTEN}",
    ],
)
def test_a_key_that_is_written_into_a_file_is_not_repeated(tmp_path: Path, given: str) -> None:
    home = tmp_path / "home"
    with a_home(home) as pointsman:
        (home / "models.yaml").write_text(
            "schema_version: 1\nproviders: {p: {kind: openai, base_url: 'http://127.0.0.1:9',"
            f" {given}}}}}\nmodels: {{}}\n"
        )
        a_turn(pointsman)
        problems = pointsman.in_force().problems
    assert problems
    assert WRITTEN not in str([str(problem) for problem in problems])
    for path in home.glob("*.db*"):
        assert WRITTEN.encode() not in path.read_bytes(), path.name


def test_a_key_of_a_known_form_is_not_recorded_with_a_problem(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with a_home(home) as pointsman:
        (home / "routing.yaml").write_text(f"schema_version: 1\nglobal_default: [{AMAZON}, 5]\n")
        a_turn(pointsman)
    with closing(LedgerReader(pointsman.home.database)) as reader:
        (event,) = reader.of_kind("event.routing.policy_invalid")
    assert AMAZON.encode() not in event.entry.payload
    assert b"[aws_access_key]" in event.entry.payload


def test_a_budget_of_the_policy_is_among_the_facts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "routing.yaml").write_text(
        "schema_version: 1\nbudgets: [{name: day, limit_usd: 2.50}]\n"
    )
    with a_home(home) as pointsman:
        (left,) = pointsman.facts("hello").budgets
    assert (left.name, left.left_microusd) == ("day", 2_500_000)


def test_a_model_whose_secret_is_missing_is_not_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "models.yaml").write_text(
        "schema_version: 1\n"
        "providers:\n"
        "  acme: {kind: openai, api_key: {env: ACME_KEY}}\n"
        "  b: {kind: openai, api_key: {file: k}}\n"
        "models: {'acme:a': {location: cloud}, 'b:b': {location: cloud}}\n"
    )
    monkeypatch.delenv("ACME_KEY", raising=False)
    with a_home(home) as pointsman:
        assert pointsman.facts("hi").configured == ("embedded:smollm2-135m",)
        monkeypatch.setenv("ACME_KEY", "x")
        (home / "k").write_text("secret")
        assert pointsman.facts("hi").configured == ("embedded:smollm2-135m", "acme:a", "b:b")


@pytest.mark.req(158)
def test_files_that_no_longer_fit_each_other_leave_the_last_policy_that_did(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with a_home(home) as pointsman:
        (home / "models.yaml").write_text(
            "schema_version: 1\nproviders: {acme: {kind: openai}}\n"
            "models: {'acme:a': {location: cloud}}\n"
        )
        (home / "routing.yaml").write_text("schema_version: 1\nglobal_default: acme:a\n")
        assert a_turn(pointsman).outcome.chosen_model == "acme:a"
        good = pointsman.in_force().policy_id
        (home / "models.yaml").write_text("schema_version: 1\n")
        found = pointsman.in_force()
        assert found.problems
        assert found.policy_id == good
        assert [file.using_last_known_good for file in found.invalid] == [True]
    with a_home(home) as again:
        assert again.in_force().policy_id == good
    kept = home / "last-good" / "turn-policy"
    kept.write_bytes(kept.read_bytes()[:-9])
    with a_home(home) as anew:
        assert anew.in_force().policy_id != good


def _write_models(home: Path, *providers: str) -> None:
    text = "schema_version: 1\nproviders:\n"
    text += "".join(f"  {name}: {{kind: openai, api_key: {{env: NO_KEY}}}}\n" for name in providers)
    text += "models:\n"
    text += "".join(f"  '{name}:m': {{location: cloud, tier: deep}}\n" for name in providers)
    (home / "models.yaml").write_text(text)


def test_a_policy_that_stands_in_keeps_its_providers_and_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    tmp_path.mkdir(exist_ok=True)
    good = b"schema_version: 1\nglobal_default: z:m\n"
    _write_models(tmp_path, "z", "a")
    (tmp_path / "routing.yaml").write_bytes(good)
    with a_home(tmp_path) as pointsman:
        before = pointsman.candidate_policy((good, "x"))
        assert before.tiers["deep"] == "z:m"
    _write_models(tmp_path, "newco")
    with a_home(tmp_path) as pointsman:
        assert pointsman.in_force().problems
        assert pointsman.facts("hi").configured == ("embedded:smollm2-135m",)
        assert pointsman.candidate_policy((good, "x")) == before
