"""What a call would do, as the tool's own read-only preview says, and the digest that binds a person's yes to it.

The waiter takes a preview for people to see; the executor takes another right before dispatch and compares the digests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from fourgates.catalog.calling import invoke
from fourgates.catalog.outcome import Preview, ToolError
from fourgates.catalog.tool import Tool
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.parts import Call

_FIELDS = ("target", "before", "after", "recoverable", "amount")


@dataclass(frozen=True, slots=True)
class Previewed:
    """A preview, or why there is none."""

    fields: Mapping[str, Any] | None = None
    """target, before, after, recoverable, amount as JSON values; None where there is no preview."""
    digest: str = ""
    """sha256 of the RFC 8785 form of the binding fields; empty where there is no preview."""
    fault: str = ""
    """One sentence for a person where the preview failed; empty where it worked or the tool has none."""


def bind(preview: Preview) -> Previewed:
    """The preview with its digest. Raises ValueError where it is not JSON or binds a field that does not exist."""
    fields = {name: getattr(preview, name) for name in _FIELDS}
    if unknown := sorted(set(preview.binding) - set(_FIELDS)):
        raise ValueError(f"it binds unknown fields: {', '.join(unknown)}")
    if not (isinstance(preview.target, str) and isinstance(preview.amount, str) and isinstance(preview.recoverable, bool)):
        raise ValueError("target and amount must be text, recoverable true or false")
    plain: dict[str, Any] = json.loads(canonical(fields))
    return Previewed(plain, digest({name: plain[name] for name in sorted(set(preview.binding))}))


async def take_preview(tool: Tool, call: Call, timeout_s: float) -> Previewed:
    """Asks the tool. Never raises for what the tool does: a failure is a sentence that quotes nothing but declared words."""
    if tool.preview is None:
        return Previewed()
    try:
        landed = tool.land(json.loads(call.arguments))
    except ValidationError:
        return Previewed(fault="The arguments do not fit the tool's typed model.")
    try:
        preview = await invoke(tool.preview, landed, call.principal, timeout=timeout_s)
    except TimeoutError:
        return Previewed(fault=f"The preview did not answer within {timeout_s:g} s.")
    except ToolError as error:
        return Previewed(fault=f"The preview says: {error.sentence} ({error.reason})")
    except Exception as fault:  # a tool may raise anything; its words may hold secrets, its kind does not
        return Previewed(fault=f"The preview failed ({type(fault).__name__}).")
    if not isinstance(preview, Preview):
        return Previewed(fault=f"The preview returned {type(preview).__name__} instead of Preview.")
    try:
        return bind(preview)
    except (ValueError, RecursionError) as fault:  # the canonical form refuses what JSON cannot carry
        return Previewed(fault=f"The preview cannot be shown exactly: {fault}.")
