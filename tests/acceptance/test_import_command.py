"""`import litellm`, as a user runs it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pointsman.cli.main import main

CONFIG = (
    "model_list:\n"
    "  - {model_name: smart, litellm_params:"
    " {model: anthropic/claude-opus-4-7, api_key: os.environ/MY_KEY}}\n"
    "litellm_settings: {cache: true}\n"
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return path


def run(home: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--home", str(home), *words])


def test_check_reports_every_setting_and_writes_nothing(tmp_path: Path, config: Path) -> None:
    done = run(tmp_path / "h", "import", "litellm", str(config), "--check")
    assert done.exit_code == 0
    assert "litellm_settings.cache" in done.stdout
    assert "1 taken, 0 differs, 1 missing" in done.stdout
    assert "set      MY_KEY" in done.stdout
    assert not (tmp_path / "h").exists()


def test_an_imported_home_decides_at_once(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tmp_path / "h", "import", "litellm", str(config)).exit_code == 0
    assert run(tmp_path / "h", "rules", "check").exit_code == 0
    monkeypatch.setenv("MY_KEY", "k")
    routed = run(tmp_path / "h", "route", "@smart hello")
    assert "Chose: anthropic:claude-opus-4-7" in routed.stdout


def test_a_starter_file_is_replaced_and_an_edited_one_never(tmp_path: Path, config: Path) -> None:
    home = tmp_path / "h"
    assert run(home, "init").exit_code == 0
    assert run(home, "import", "litellm", str(config)).exit_code == 0
    imported = (home / "models.yaml").read_bytes()
    config.write_text(CONFIG.replace("smart", "other"))
    again = run(home, "import", "litellm", str(config))
    assert again.exit_code == 2
    assert "models.yaml" in again.stderr
    assert (home / "models.yaml").read_bytes() == imported


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n", "no LiteLLM configuration"),
        ("model_list: [\n", "config."),
        ("a: !x 1\n", "config."),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    done = run(tmp_path / "h", "import", "litellm", str(path), "--check")
    assert done.exit_code == 2
    assert said in done.stderr


def test_anchors_that_stand_for_too_much_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    path = tmp_path / "config.yaml"
    path.write_text("\n".join(lines))
    done = run(tmp_path / "h", "import", "litellm", str(path), "--check")
    assert done.exit_code == 2
    assert "anchors stand for too much" in done.stderr
