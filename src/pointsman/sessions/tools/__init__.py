"""The tools of conversations: files of the workspace, the shell, memory, skills, MCP servers."""
