"""The least of an MCP server, up in no time: `python tiny_mcp_server.py SAID`. Describes `pay` in the words of that file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for one that this server does not know."""
    if method == "initialize":
        info = {"name": "tiny", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        said = Path(sys.argv[1])
        words = said.read_text(encoding="utf-8") if said.exists() else "Pays. Use it to pay."
        properties = {"order": {"type": "string"}, "idempotency_key": {"type": "string"}}
        schema = {"type": "object", "properties": properties, "required": ["order"]}
        return {"tools": [{"name": "pay", "description": words, "inputSchema": schema}]}
    return None


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        result = answer(asked["method"], asked.get("params", {}))
        told = {"result": result} if result is not None else {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}), flush=True)


if __name__ == "__main__":
    main()
