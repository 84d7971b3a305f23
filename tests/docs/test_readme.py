"""What the README and the test kit's page show is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")

BETWEEN = "\x1e"

# What differs from run to run, on both sides: see the comment in the README.
MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "<time>"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "<hex>"),
)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def masked(text: str) -> str:
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def transcript() -> list[tuple[str, str]]:
    text = "".join(blocks(README, "console"))
    _, *parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    return list(zip(parts[::2], parts[1::2], strict=True))


def surroundings() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("POINTSMAN_", "PYTEST_"))
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def ran(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout


def test_the_transcript_prints_what_the_readme_shows(tmp_path: Path) -> None:
    commands = [command for command, _ in transcript()]
    script = "".join(f"{command}\nprintf '{BETWEEN}'\n" for command in commands)
    printed = ran(["bash", "-c", script], tmp_path).replace(str(tmp_path), "/path/to")
    found = list(zip(commands, printed.split(BETWEEN), strict=False))
    assert [(name, masked(text)) for name, text in found] == [
        (name, masked(text)) for name, text in transcript()
    ]


def test_the_transcript_shows_a_turn_its_proofs_and_a_fault() -> None:
    text = "\n".join(command for command, _ in transcript())
    for name in ("init", "route", "why", "replay --all", "receipt", "rules prove", "verify"):
        assert f"pointsman {name}" in text
    assert "FAULT" in transcript()[-1][1]


def test_masks_leave_words_and_short_numbers_alone() -> None:
    assert masked("3 entries, version 1, ledger.entry_changed") == (
        "3 entries, version 1, ledger.entry_changed"
    )
    assert masked("head 5b0b293954ced175") == "head <hex>"


def test_the_library_example_prints_what_its_comments_say(tmp_path: Path) -> None:
    (example,) = blocks(README, "python")
    wanted = re.findall(r"print\(.*\)  # (.*)$", example, re.MULTILINE)
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    printed = ran([sys.executable, "example.py"], tmp_path)
    assert printed.splitlines() == wanted
    assert wanted


def test_the_examples_of_the_test_kit_pass(tmp_path: Path) -> None:
    for number, example in enumerate(blocks(TESTING, "python")):
        (tmp_path / f"test_example_{number}.py").write_text(example, encoding="utf-8")
    printed = ran([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], tmp_path)
    assert re.search(r"^4 passed", printed, re.MULTILINE), printed


def test_the_readme_stays_short() -> None:
    assert len(README.splitlines()) < 120
