"""A conversation on the local model itself: no key, no server, no network."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.parlour import Bench, opened, over, said

from pointsman.app import Pointsman
from pointsman.conversations.services import Kit
from pointsman.sessions.update import TextDelta
from pointsman.turns.registry.models import EMBEDDED_MODEL

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_a_new_home_can_talk_at_once_even_where_tools_are_laid_out(tmp_path: Path) -> None:
    with Pointsman(tmp_path / "h") as pointsman:
        conversations = opened(pointsman)
        conversation = await conversations.start(tmp_path, kit=Kit(Bench()))
        updates = await said(conversation, "What is the capital of France? Answer in one word.")
        end = over(updates)
        assert (end.status, end.model) == ("completed", EMBEDDED_MODEL)
        shown = "".join(each.text for each in updates if isinstance(each, TextDelta))
        assert shown == end.text
        assert "Paris" in end.text
        assert end.cost_usd == "0"
        second = over(await said(conversation, "And of Italy?"))
        assert second.status == "completed"
        await conversations.close()
        assert pointsman.replay_all().diverged == 0
