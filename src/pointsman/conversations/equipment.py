"""What a session of a home works with: its tools, skills and memory, as its settings say."""

from __future__ import annotations

from pathlib import Path

from pointsman.conversations.conversation_house import Ground, Kit
from pointsman.kernel.content import sealed
from pointsman.sessions.tools.session import SessionKit


async def home_kit(ground: Ground, workspace: str | None) -> Kit:
    """Equip a session: connect to its servers and lay out its tools."""
    key = ground.home.content_key()

    def digest(data: bytes) -> str:
        return sealed(data.decode("utf-8", "surrogateescape"), key).digest

    settings = ground.files.settings().value
    place = None if workspace is None else Path(workspace)
    kit = SessionKit(ground.home.path, place, settings, digest=digest)
    await kit.start()
    return Kit(
        tools=kit.tools(),
        skills=kit.skills,
        memory=kit.memory,
        problems=kit.problems,
        close=kit.close,
    )
