"""Scripts outside the package name only what the package has."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SCRIPTS = sorted(
    script
    for folder in ("bench", "campaigns", "examples", "scripts")
    for script in (PROJECT / folder).rglob("*.py")
)


def imported(script: Path) -> Iterator[tuple[str, str]]:
    """Each (module, name) of ours that a script imports, wherever it stands in the file."""
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pointsman"):
            yield from ((node.module or "", alias.name) for alias in node.names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.relative_to(PROJECT)))
def test_what_a_script_imports_exists(script: Path) -> None:
    missing = []
    for module, name in imported(script):
        try:
            found = hasattr(importlib.import_module(module), name)
            if not found:
                importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError as error:
            missing.append(f"{module}.{name}: {error}")
    assert missing == []
