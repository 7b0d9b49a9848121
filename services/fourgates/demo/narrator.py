"""Telling the story: in a terminal, block by block as it happens, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fourgates.audit.report import Refusals, Success
from fourgates.contract.codes import CODES, CodeClass
from fourgates.sdk import Answer

_COLOURS = {
    CodeClass.OK: "green", CodeClass.WAITING: "yellow", CodeClass.TRANSIENT: "yellow", CodeClass.INVALID: "cyan",
    CodeClass.IN_DOUBT: "magenta",
}  # fmt: skip
_SHOWN_CHARS, _LINE_CHARS = 160, 240


class Silent:
    """For tests: the differences are what matters."""

    def scene(self, title: str, words: str) -> None: ...

    def line(self, who: str, words: str) -> None: ...

    def answered(self, answer: Answer) -> None: ...

    def held(self, shown: dict[str, Any]) -> None: ...

    def right(self, words: str) -> None: ...

    def wrong(self, words: str) -> None: ...

    def success(self, rows: Sequence[Success]) -> None: ...

    def refusals(self, rows: Sequence[Refusals]) -> None: ...

    def explained(self, text: str) -> None: ...


class Terminal:
    """One readable block a scene. What tools and people wrote is printed as text, never as markup."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._scenes = 0

    def scene(self, title: str, words: str) -> None:
        self._scenes += 1
        self._console.print()
        self._console.rule(f"[bold]{self._scenes} · {escape(title)}", align="left")
        if words:
            self._console.print(Text(words, style="italic"))

    def line(self, who: str, words: str) -> None:
        self._row(who, Text(words))

    def answered(self, answer: Answer) -> None:
        said = [answer.code.value]
        said += [f"({answer.reason})"] if answer.reason else []
        said += [f"at {answer.field}"] if answer.field else []
        text = Text(" ".join(said), style=_COLOURS.get(answer.code_class, "red"))
        text.append(f"  {_short(answer.content or answer.message or CODES[answer.code].message)}", style="dim")
        self._row("answer", text)

    def held(self, shown: dict[str, Any]) -> None:
        preview, why = shown["preview"] or {}, shown["why"]
        self._row("shown", Text(f"{shown['tool']} for {shown['asked_by']['person']}, held: {why['reason']}", style="yellow"))
        if preview:
            self._row("", Text(f"{preview['target']}  {preview['amount']}"))
            self._row("", Text(f"{preview['before']} → {preview['after']}"))
            self._row("", Text("can be undone" if preview["recoverable"] else "cannot be undone"))
        for breach in why["breaches"]:
            self._row("", Text(f"{breach['pointer']} came from {breach['source'] or breach['origin']}: “…{breach['quote']}…”"))

    def right(self, words: str) -> None:
        self._row("✓", Text(words, style="green"))

    def wrong(self, words: str) -> None:
        self._row("✗", Text(words, style="bold red"))

    def success(self, rows: Sequence[Success]) -> None:
        table = Table("tool", "asked", "ran", "succeeded", "of asked", "of ran", title="success by tool", title_justify="left")
        for row in rows:
            table.add_row(row.key, str(row.asked), str(row.ran), str(row.succeeded), _percent(row.of_asked), _percent(row.of_ran))
        self._console.print(table)

    def refusals(self, rows: Sequence[Refusals]) -> None:
        table = Table("code", "reason", "tool", "attributed to", "calls", title="refusals by code", title_justify="left")
        for row in rows:
            table.add_row(row.code, row.reason, row.tool, row.attributed_to, str(row.calls))
        self._console.print(table)

    def explained(self, text: str) -> None:
        for line in text.splitlines():  # `fourgates explain` shows all of it
            self._console.print(Text(line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"))

    def _row(self, who: str, what: Text) -> None:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=9, style="bold", justify="right", no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(who), what)
        self._console.print(grid)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}…"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"
