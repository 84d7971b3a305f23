"""What `make run` installs: the product's own pins, no others."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def pins(file: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the version and the hashes of each pinned package."""
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", "")
    found = re.findall(r"^([\w.-]+)==(\S+)(.*)$", text, re.MULTILINE)
    return {
        f"{name}=={version}": (version, frozenset(re.findall(r"--hash=(\S+)", rest)))
        for name, version, rest in found
    }


def names(file: str) -> set[str]:
    return {pin.partition("==")[0] for pin in pins(file)}


def test_run_environment_has_the_same_pins_and_hashes_as_the_whole_one() -> None:
    ours, whole = pins("constraints-run.txt"), pins("constraints.txt")
    assert ours
    assert {pin: ours[pin] for pin in ours if whole.get(pin) != ours[pin]} == {}


def test_run_environment_holds_every_dependency_of_the_product_and_no_tool_of_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["mcp"],
    ]
    required = {re.split(r"[<>=\[]", line)[0] for line in wanted}
    assert required - names("constraints-run.txt") == set()
    assert {"pytest", "mypy", "ruff", "playwright", "openai"} & names(
        "constraints-run.txt"
    ) == set()


def test_pins_name_no_host() -> None:
    text = (ROOT / "constraints-run.txt").read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text)
