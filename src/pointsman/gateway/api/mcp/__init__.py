"""The MCP server over HTTP."""
