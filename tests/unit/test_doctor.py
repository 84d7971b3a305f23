"""What the doctor finds."""

from pathlib import Path

import pytest
from msgspec import UNSET, structs

from pointsman.agents.file.agents_file import NO_AGENTS
from pointsman.operations import doctor
from pointsman.operations.doctor import examine_home
from pointsman.operations.starter import NAMES, starter_text, write_starter
from pointsman.placement.policy import BUILT_IN, read_policy
from pointsman.signals.kinds import KINDS, LET_THROUGH
from pointsman.storage.policies.agents_file import read_agents
from pointsman.storage.policies.settings import AvailabilitySettings, Settings, read_settings
from pointsman.testing import a_home, a_turn
from pointsman.turns.policy import read_policy as read_routing
from pointsman.turns.registry.models import EMBEDDED_MODEL, NO_MODELS, read_models, registry


def _states(path: Path) -> dict[str, str]:
    with a_home(path) as pointsman:
        return {
            each.subject: each.state for each in examine_home(pointsman.home, pointsman.in_force())
        }


def test_a_home_in_order_has_no_fault(tmp_path: Path) -> None:
    with a_home(tmp_path) as pointsman:
        a_turn(pointsman)
    assert set(_states(tmp_path).values()) == {"ok"}


def test_files_that_others_may_read_are_a_warning(tmp_path: Path) -> None:
    with a_home(tmp_path) as pointsman:
        write_starter(pointsman.home)
    (tmp_path / "routing.yaml").chmod(0o644)
    assert _states(tmp_path)["home"] == "warning"


def test_a_key_that_is_gone_is_a_fault(tmp_path: Path) -> None:
    with a_home(tmp_path):
        pass
    (tmp_path / "keys" / "signing").unlink()
    assert _states(tmp_path)["keys"] == "fault"


def test_a_broken_file_is_a_fault_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text("schema_version: 1\nmodles: {}\n")
    with a_home(tmp_path) as pointsman:
        found = examine_home(pointsman.home, pointsman.in_force())
    (fault,) = [each for each in found if each.state == "fault"]
    assert "models.yaml:2:1: config.unknown_key" in fault.detail


def test_a_broken_decision_is_a_fault_with_its_place(tmp_path: Path) -> None:
    folder = tmp_path / "decisions"
    folder.mkdir(parents=True)
    (folder / "gate.yaml").write_text("decision:\n  id: gate\n  type: bnary\n")
    with a_home(tmp_path) as pointsman:
        found = examine_home(pointsman.home, pointsman.in_force())
    faults = [each for each in found if each.state == "fault"]
    assert {each.subject for each in faults} == {"decisions"}
    assert any("decisions/gate.yaml:3:" in each.detail for each in faults)


def test_a_broken_ledger_is_a_fault(tmp_path: Path) -> None:
    with a_home(tmp_path) as pointsman:
        a_turn(pointsman)
        database = pointsman.home.database
    database.write_bytes(b"not a database at all, really not" * 100)
    assert _states(tmp_path)["ledger"] == "fault"


def test_little_space_and_slow_syncs_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LITTLE_SPACE", 1 << 62)
    assert _states(tmp_path)["disk"] == "warning"
    monkeypatch.setattr(doctor, "LITTLE_SPACE", 0)
    monkeypatch.setattr(doctor, "SLOW_SYNC_MS", -1)
    assert _states(tmp_path)["disk"] == "warning"


def test_the_starter_files_are_valid_and_say_what_the_defaults_are() -> None:
    assert NAMES == (
        "pointsman.yaml",
        "models.yaml",
        "routing.yaml",
        "placement.yaml",
        "agents.yaml",
    )
    # A new home tries early what is out; a home that says nothing does as document 002 says.
    early = Settings(availability=AvailabilitySettings(probe_after_s=20))
    assert read_settings(starter_text("pointsman.yaml"), "x") == early
    assert Settings().availability.probe_after_s is None
    assert read_models(starter_text("models.yaml"), "x") == NO_MODELS
    known = registry(NO_MODELS, lambda _name: None)
    routing = read_routing(starter_text("routing.yaml"), "x", known, "/home/me")
    assert routing.global_default == EMBEDDED_MODEL
    # A new home keeps secrets and payment data here; nothing else differs from the table.
    kept = read_policy(starter_text("placement.yaml"), "x", [each.name for each in KINDS])
    assert kept.sensitive.stays_local == ("secret", "payment_card", "iban", "bank_account")
    # A file that says nothing of `auto` leaves it to the local model it names: here none.
    assert kept.auto is UNSET
    table = structs.replace(kept, sensitive=BUILT_IN.sensitive, auto=BUILT_IN.auto)
    assert table == BUILT_IN
    assert read_agents(starter_text("agents.yaml"), "x") == NO_AGENTS


def _uncommented(name: str) -> bytes:
    """Give a starter file with its examples switched on: comment lines that look like YAML."""
    lines = starter_text(name).decode().splitlines()
    keys = ("rules:", "workspaces:", "budgets:", "providers:", "models:", "sensitive:", "policy_",
            "modules:", "intents:", "run:", "council:", "privacy:")  # fmt: skip
    shown, is_example = ["schema_version: 1"], False
    if name == "placement.yaml":
        shown = [line for line in lines if not line.startswith("#")]
    for line in lines:
        text = line.removeprefix("#").removeprefix(" ")
        is_example = line.startswith("#") and (
            text.startswith(keys) or (is_example and (not text or text[0] in " -"))
        )
        shown += [text] if is_example else []
    return "\n".join(shown).encode()


def test_the_examples_in_the_starter_comments_are_valid_too() -> None:
    models = read_models(_uncommented("models.yaml"), "models.yaml")
    assert list(models.models) == ["anthropic:claude-haiku-4-5", "anthropic:claude-sonnet-4-6"]
    known = registry(models, lambda _name: None)
    routing = read_routing(_uncommented("routing.yaml"), "routing.yaml", known, "/home/me")
    assert [rule.name for rule in routing.rules] == ["fast for commits", "budget breaker"]
    assert list(routing.workspaces) == ["~/code/myproject"]
    assert routing.budgets[0].name == "day"
    kinds = [each.name for each in KINDS]
    placement = read_policy(_uncommented("placement.yaml"), "placement.yaml", kinds)
    assert placement.sensitive.stays_local[:2] == ("secret", "payment_card")
    assert [rule.id for rule in placement.policy_rules] == ["project-alba", "large"]
    agents = read_agents(_uncommented("agents.yaml"), "agents.yaml", LET_THROUGH)
    assert list(agents.run) == list(agents.modules)
    assert agents.privacy.let_through == ("private_ip_address",)


def test_agents_are_looked_at(tmp_path: Path) -> None:
    with a_home(tmp_path):
        pass
    file = tmp_path / "agents.yaml"
    file.write_text("modules: {agent:a: {apt: 0.9}}\n")
    file.chmod(0o600)
    assert _states(tmp_path)["agents"] == "warning"
    file.write_text("modules: {agent:a: {apt: 0.9}}\nrun: {agent:a: {model: {}}}\n")
    assert _states(tmp_path)["agents"] == "ok"
    file.write_text("modules: {agent:a: {apt: 9}}\n")
    assert _states(tmp_path)["agents"] == "fault"


def test_an_empty_settings_file_means_the_defaults() -> None:
    assert read_settings(b"", "x") == Settings()
    assert read_settings(b"retain: digest\n", "x").retain == "digest"


def test_the_network_in_force_is_told_without_passwords(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def found() -> doctor.DoctorFinding:
        with a_home(tmp_path) as pointsman:
            findings = examine_home(pointsman.home, pointsman.in_force())
        return next(each for each in findings if each.subject == "network")

    assert found().detail.startswith("proxy none; authorities ")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pw-1@proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", ".example.org")
    told = found()
    assert "HTTPS_PROXY: proxy.example.org:3128, not for .example.org" in told.detail
    assert "pw-1" not in repr(told)
    (tmp_path / "pointsman.yaml").write_text("upstream: {ca_file: missing.pem}\n")
    assert (found().state, found().hint) == ("fault", "`upstream.ca_file` is missing")
    monkeypatch.setenv("HTTPS_PROXY", "socks5://x:1")
    assert "names no proxy" in found().detail
