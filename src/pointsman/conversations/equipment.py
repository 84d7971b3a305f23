"""The equipment of a home's sessions: tools, skills and memory, as its settings say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pointsman.conversations.services import Kit, OpenHome
from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import seal_text
from pointsman.sessions.tools.box import SessionTool, ToolBox
from pointsman.sessions.tools.files import ShellTool, WriteTool, reading_tools
from pointsman.sessions.tools.mcp_tools import McpServers
from pointsman.sessions.tools.memory_files import MemoryFiles, memory_tools
from pointsman.sessions.tools.process import Timeouts
from pointsman.sessions.tools.skills import SessionSkills, read_skills
from pointsman.sessions.tools.workspace import WorkspaceFolder
from pointsman.storage.policies.settings import Settings


async def equip_from_home(opened: OpenHome, workspace: str | None) -> Kit:
    """Equip a session: connect to its servers and load its tools."""
    key = opened.home.content_key()

    def digest(data: bytes) -> str:
        return seal_text(data.decode("utf-8", "surrogateescape"), key).digest

    settings = opened.files.settings().value
    place = None if workspace is None else Path(workspace)
    kit = SessionTools(opened.home.path, place, settings, digest=digest)
    await kit.start()
    return Kit(
        tools=kit.tools(),
        skills=kit.skills,
        memory=kit.memory,
        problems=kit.problems,
        close=kit.close,
    )


PROTECTED = ("MEMORY.md", "USER.md")
"""Files that workers may read, but not write around the tools they do not have. 002 §6.2.1."""


class SessionTools:
    """The tools of one session and their shared state; `close` when the session ends."""

    def __init__(
        self,
        home: Path,
        workspace: Path | None,
        settings: Settings,
        *,
        digest: Callable[[bytes], str] = content_id,
    ) -> None:
        self._settings = settings
        # The home holds keys and other conversations: its files are closed to tools.
        self.workspace = None if workspace is None else WorkspaceFolder(workspace, closed=(home,))
        self.memory = MemoryFiles(home, self.workspace, digest=digest)
        self.skills = SessionSkills(read_skills(home / "skills"))
        folder = home if self.workspace is None else self.workspace.root
        self.servers = McpServers(settings.mcp_servers, home, folder)

    async def start(self) -> None:
        """Connect to the MCP servers; those that cannot be used are `problems`."""
        await self.servers.start()

    async def close(self) -> None:
        """End the MCP servers."""
        await self.servers.close()

    @property
    def problems(self) -> tuple[str, ...]:
        """The skills and servers that cannot be used, one line each."""
        return (*(str(each) for each in self.skills.index.problems), *self.servers.problems)

    def tools(self) -> ToolBox:
        """Return the tools of the session; calls of its workers are known by their context."""
        return ToolBox(self._tools(), self._settings.tools)

    def _tools(self) -> list[SessionTool]:
        tools: list[SessionTool] = []
        if self.workspace is not None:
            timeouts = Timeouts(self._settings.tools.shell_timeout_s)
            tools += reading_tools(self.workspace)
            tools.append(WriteTool(self.workspace, PROTECTED))
            tools.append(ShellTool(self.workspace, timeouts))
        tools += memory_tools(self.memory)
        if self.skills.index.skills:
            tools.append(self.skills)
        return [*tools, *self.servers.tools]
