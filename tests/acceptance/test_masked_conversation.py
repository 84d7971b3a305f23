"""A conversation whose texts leave under placeholders: its tools and its user see the values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.parlour import Bench, a_parlour, over, replays, said
from tests.gateway.house import keeps

from pointsman.conversations.services import Kit
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.tool import ToolOutcome
from pointsman.sessions.update import TextDelta
from pointsman.testing import calls, says
from pointsman.testing.upstream_replies import Received, Step

pytestmark = pytest.mark.anyio

MAIL, OTHER = "ann.lee@example.com", "bob@example.org"
WORD = re.compile(r"EMAIL_[A-Z2-7]{10}")
MASKS = keeps("secret", mask=["pii"])


def uses_tool(request: Received) -> Sequence[Step]:
    word = WORD.findall(request.body.decode())[-1]
    return calls(("read_file", {"path": f"{word}.txt"}))(request)


def echoes(request: Received) -> Sequence[Step]:
    words = dict.fromkeys(WORD.findall(request.body.decode()))
    return says(f"Sent to {' and '.join(words)}.")(request)


async def test_words_tools_and_history_hold_the_values(tmp_path: Path) -> None:
    found = ToolOutcome((Text(f"the file names {OTHER}"),))
    bench = Bench({"read_file": found})
    script: tuple[Any, ...] = (uses_tool, echoes, echoes)
    async with a_parlour(tmp_path / "h", *script, placement=MASKS) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))
        updates = await said(conversation, f"read the file of {MAIL}")
        text = f"Sent to {MAIL} and {OTHER}."
        assert "".join(each.text for each in updates if isinstance(each, TextDelta)) == text
        assert over(updates).text == text
        kept = parlour.conversations.messages(conversation.id)
        (use,) = [part for each in kept for part in each.content if isinstance(part, ToolUse)]
        assert bytes(use.input) == b'{"path":"ann.lee@example.com.txt"}'
        assert over(await said(conversation, "once more")).text == text
        sent = b"".join(each.body for each in parlour.anthropic.requests).decode()
        assert MAIL not in sent
        assert OTHER not in sent
        assert len(set(WORD.findall(sent))) == 2
        replays(parlour)
