"""A turn that is over is freed at once: garbage in cycles would stop the event loop for long."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tests.gateway.house import Running, eventually

from pointsman.calls.model_call import ModelCall
from pointsman.gateway.turns.turn import LiveTurn


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No cycle is collected meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _alive() -> int:
    return sum(type(each) in {LiveTurn, ModelCall} for each in gc.get_objects())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answered_turn_leaves_nothing_behind(live: Running, *, is_stream: bool) -> None:
    before = _alive()
    for _ in range(5):
        assert live.chat(model="open:big", stream=is_stream).status_code == 200
    live.outcomes(5)
    assert eventually(lambda: _alive() == before)
