"""The catalog as models are given it: the enforced schema, descriptions as they are (C2).

Left out is only what decides nothing and is not for a model: comments, and words of other tools (`x-internal`, `discriminator`).
What a model must not send stands in no schema: registration refuses keys, tokens and call ids (C9).
"""

from __future__ import annotations

import copy
from typing import Any

from fourgates.contract.parts import Risk

from .catalog import Catalog
from .tool import Tool
from .words import without_unknown_words


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
    shown: dict[str, Any] = copy.deepcopy(without_unknown_words(tool.schema))
    return shown  # a copy: what a caller does to it must not reach what is enforced
