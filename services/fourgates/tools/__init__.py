"""Adapters that let a tool be an HTTP endpoint, an MCP server, a command, or a file in a workspace."""
