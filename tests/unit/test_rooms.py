"""The four rooms have one shape: the same six files, with the same functions."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import pointsman

SOURCE = Path(pointsman.__file__).parent
ROOMS = ("turns", "placement", "agents", "branches")
SHAPE = {
    "facts": ("read_facts",),
    "policy": ("read_policy",),
    "compiled": ("compile_policy",),
    "decide": ("decide",),
    "trace": ("OUTCOME_FORM", "TRACE_FORM"),
    "explain": ("to_screen", "to_json"),
}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_the_six_files_and_nothing_else_beside_its_folders(room: str) -> None:
    """A room's other modules stand in folders named by a noun; its codes may stand beside."""
    files = {path.stem for path in (SOURCE / room).glob("*.py")}
    assert files - {"__init__", "codes"} == set(SHAPE)


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("name", SHAPE)
def test_the_files_of_the_rooms_have_the_same_functions(room: str, name: str) -> None:
    module = import_module(f"pointsman.{room}.{name}")
    assert [each for each in SHAPE[name] if not hasattr(module, each)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_deciding_takes_a_compiled_policy_and_facts(room: str) -> None:
    decide = import_module(f"pointsman.{room}.decide").decide
    assert list(inspect.signature(decide).parameters) == ["compiled", "facts"]
