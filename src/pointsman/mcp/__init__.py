"""The MCP surface: what an agent may ask of us, over standard input and output or over HTTP."""
