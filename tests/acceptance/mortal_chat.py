"""A process that talks until it is killed: a test gives it a home, a message and a session."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.acceptance.parlour import Bench, opened

from pointsman.app import Pointsman
from pointsman.conversations.services import Kit


async def talk(home: Path, text: str, session: str) -> None:
    with Pointsman(home) as pointsman:
        conversations, kit = opened(pointsman), Kit(Bench())
        if session:
            conversation = await conversations.resume(session, kit=kit)
        else:
            conversation = await conversations.start(kit=kit)
        print(conversation.id, flush=True)  # noqa: T201 - the test reads it
        async for update in conversation.send(text):
            print(type(update).__name__, flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    asyncio.run(talk(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
