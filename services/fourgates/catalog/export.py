"""The catalog as models are given it: the enforced schema word for word, descriptions as they are (C2)."""

from __future__ import annotations

import copy
from typing import Any

from fourgates.contract.parts import Risk

from .catalog import Catalog
from .tool import Tool


def export_openai(catalog: Catalog) -> list[dict[str, Any]]:
    """For `tools=` of OpenAI's chat completions."""
    return [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": _schema(tool)}}
        for tool in catalog
    ]


def export_anthropic(catalog: Catalog) -> list[dict[str, Any]]:
    """For `tools=` of Anthropic's messages."""
    return [{"name": tool.name, "description": tool.description, "input_schema": _schema(tool)} for tool in catalog]


def export_mcp(catalog: Catalog) -> list[dict[str, Any]]:
    """For the result of MCP's `tools/list`. The hints repeat the contract's risk for a reader; nothing decides by them."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "inputSchema": _schema(tool),
            "annotations": {"readOnlyHint": not tool.writes, "destructiveHint": tool.risk is Risk.DESTRUCTIVE},
        }
        for tool in catalog
    ]


def _schema(tool: Tool) -> dict[str, Any]:
    return copy.deepcopy(dict(tool.schema))  # what a caller does to its copy must not reach what is enforced
