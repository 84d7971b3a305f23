"""The file tools and the shell, bound to one workspace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from pointsman.kernel.document import escape
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.tool import (
    ConfirmationRequest,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
)
from pointsman.sessions.tools.listing import LIST_DIR, ListInput, list_dir
from pointsman.sessions.tools.process import RUN_SHELL, ShellInput, Timeouts, run_shell, summary
from pointsman.sessions.tools.reading import READ_FILE, ReadInput, read_file
from pointsman.sessions.tools.searching import SEARCH, SearchInput, search
from pointsman.sessions.tools.stop import Stop, in_thread
from pointsman.sessions.tools.workspace import WorkspaceFolder
from pointsman.sessions.tools.writing import WRITE_FILE, WriteInput, projected_change, write_file

T = TypeVar("T", bound=Struct)

_MOST_SUMMARY = 400


class ReadingTool(Generic[T]):
    """A tool that returns text and changes nothing."""

    def __init__(
        self,
        definition: ToolDefinition,
        kind: type[T],
        work: Callable[[WorkspaceFolder, T, Stop], str],
        workspace: WorkspaceFolder,
    ) -> None:
        self.definition = definition
        self._kind = kind
        self._work = work
        self._workspace = workspace

    def describe(self, use: ToolUse) -> ConfirmationRequest:
        """Return the input as the request; a permission covers all later calls."""
        return ConfirmationRequest(input_summary(use), self.definition.name)

    async def run(self, use: ToolUse, context: ToolContext, stop: Stop) -> ToolOutcome:  # noqa: ARG002 - the port's
        """Return the text."""
        asked = msgspec.json.decode(use.input, type=self._kind)
        text = await in_thread(lambda each: self._work(self._workspace, asked, each), stop)
        return ToolOutcome((Text(text),))


class WriteTool:
    """`write_file` in one workspace."""

    definition = WRITE_FILE

    def __init__(self, workspace: WorkspaceFolder, protected: tuple[str, ...] = ()) -> None:
        """Set the names at the root that workers may not write."""
        self._workspace = workspace
        self._protected = protected

    def describe(self, use: ToolUse) -> ConfirmationRequest:
        """Describe the change of the file."""
        asked = msgspec.json.decode(use.input, type=WriteInput)
        line = projected_change(self._workspace, asked)
        return ConfirmationRequest(line, self.definition.name, (line,))

    async def run(self, use: ToolUse, context: ToolContext, stop: Stop) -> ToolOutcome:
        """Write the file."""
        asked = msgspec.json.decode(use.input, type=WriteInput)
        protected = self._protected if context.is_worker else ()
        written = await in_thread(lambda _: write_file(self._workspace, asked, protected), stop)
        return ToolOutcome((Text(written.to_text()),), files_modified=(written.path,))


class ShellTool:
    """`run_shell` in one workspace's folder."""

    definition = RUN_SHELL

    def __init__(self, workspace: WorkspaceFolder, timeouts: Timeouts) -> None:
        self._workspace = workspace
        self._timeouts = timeouts

    def describe(self, use: ToolUse) -> ConfirmationRequest:
        """Describe the command; a permission for the session covers this very command."""
        asked = msgspec.json.decode(use.input, type=ShellInput)
        key = f"{self.definition.name}:{asked.command}"
        shown = f"run in `{escape(str(self._workspace.root), 200)}`: {summary(asked)}"
        return ConfirmationRequest(shown, key, command_summary=summary(asked))

    async def run(self, use: ToolUse, context: ToolContext, stop: Stop) -> ToolOutcome:  # noqa: ARG002 - the port's
        """Run the command."""
        asked = msgspec.json.decode(use.input, type=ShellInput)
        folder, timeouts = self._workspace.root, self._timeouts
        text = await in_thread(lambda each: run_shell(folder, asked, timeouts, each), stop)
        return ToolOutcome((Text(text),), command_executed=asked.command)


def input_summary(use: ToolUse) -> str:
    """Return an input on one line, cut where it is long."""
    return f"{use.name} {escape(bytes(use.input).decode('utf-8', 'replace'), _MOST_SUMMARY)}"


def reading_tools(
    workspace: WorkspaceFolder,
) -> tuple[ReadingTool[ReadInput], ReadingTool[ListInput], ReadingTool[SearchInput]]:
    """Return the tools that read a workspace and change nothing."""
    return (
        ReadingTool(READ_FILE, ReadInput, read_file, workspace),
        ReadingTool(LIST_DIR, ListInput, list_dir, workspace),
        ReadingTool(SEARCH, SearchInput, search, workspace),
    )
