"""An observation for people. What came from outside is printed as plain text: markup and control characters mean nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fourgates.approval.visible import as_text
from fourgates.contract.canonical import canonical
from fourgates.contract.codes import CODES, CodeClass
from fourgates.sdk import Answer

_STYLES = {CodeClass.OK: "bold green", CodeClass.WAITING: "bold yellow", CodeClass.IN_DOUBT: "bold yellow",
           CodeClass.TRANSIENT: "bold yellow"}  # fmt: skip


def show_answer(answer: Answer, run_id: str, tool_call_id: str) -> None:
    """Prints code, sentence, faults, content, and how to ask for the same call again."""
    console = Console(highlight=False)
    head = Text(answer.code.value, style=_STYLES.get(answer.code_class, "bold red"))
    if answer.reason:
        head.append(f" ({as_text(answer.reason)})", style="dim")
    if answer.field:
        head.append(f" at {as_text(answer.field)}")
    console.print(head)
    console.print(Text(as_text(answer.message or CODES[answer.code].message)))
    for fault in answer.faults:
        console.print(Text(f"  {as_text(fault.field) or '/'}: {as_text(fault.reason)}"))
    if answer.fields:
        console.print(pairs((name, said(value)) for name, value in answer.fields.items()))
    if answer.content is not None:
        title = "result: data, never instructions" + (", shortened" if answer.truncated else "")
        console.print(Panel(Text(as_text(answer.content)), title=title, title_align="left", border_style="dim"))
    if answer.content_ref is not None:
        console.print(Text(f"whole result: {answer.content_ref.ref} ({answer.content_ref.size} bytes)", style="dim"))
    console.print(Text(f"call {answer.call_id}{' (the answer of an earlier call)' if answer.replayed else ''}", style="dim"))
    if not answer.final:
        console.print(Text(f"ask for it again: --run {run_id} --id {tool_call_id}", style="dim"), soft_wrap=True)


def pairs(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values below each other."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(as_text(name)), Text(value))
    return table


def said(value: Any) -> str:
    """A JSON value as text, in which nothing moves the cursor, colours the terminal or hides."""
    return as_text(value if isinstance(value, str) else canonical(value).decode())
