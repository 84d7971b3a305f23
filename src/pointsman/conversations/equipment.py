"""The equipment of a home's sessions: tools, skills and memory, as its settings say."""

from __future__ import annotations

from pathlib import Path

from pointsman.conversations.services import Kit, OpenHome
from pointsman.kernel.content import seal_text
from pointsman.sessions.tools.session import SessionKit


async def equip_from_home(opened: OpenHome, workspace: str | None) -> Kit:
    """Equip a session: connect to its servers and load its tools."""
    key = opened.home.content_key()

    def digest(data: bytes) -> str:
        return seal_text(data.decode("utf-8", "surrogateescape"), key).digest

    settings = opened.files.settings().value
    place = None if workspace is None else Path(workspace)
    kit = SessionKit(opened.home.path, place, settings, digest=digest)
    await kit.start()
    return Kit(
        tools=kit.tools(),
        skills=kit.skills,
        memory=kit.memory,
        problems=kit.problems,
        close=kit.close,
    )
