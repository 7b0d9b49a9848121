"""A held call as text: everything that a decision is about, nothing cut or hidden, what cannot be seen named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from fourgates.approval.service.presenting import difference, leaves
from fourgates.approval.service.rendering import WHY
from fourgates.approval.visible import as_text
from fourgates.cli.showing import pairs

_RISKS = {"destructive": "bold red", "write": "bold yellow", "read": "dim"}
_STATES = {"approved": "green", "resolved": "green", "denied": "red", "expired": "yellow", "withdrawn": "yellow"}
_TOLD = frozenset({"tool", "risk", "preview", "preview_fault", "arguments", "asked_by", "agent", "intent", "why", "description",
                   "requested_ms", "origins"})  # fmt: skip
"""Parts of what is shown that have a place of their own; every other one follows after them, as it is."""


def print_line(console: Console, hold: Mapping[str, Any]) -> None:
    """A hold in a list: three lines."""
    head = Text.assemble((hold["hold_id"][:12], "bold"), "  ", (hold["risk"], _RISKS[hold["risk"]]), "  ")
    if hold["reason"] != "risk":
        head.append(f"{hold['reason'].replace('_', ' ')}  ", "bold magenta")
    head.append(as_text(f"{hold['tool']}  {hold['amount']}"), "bold")
    asked = f"asked by {hold['asked_by']}" + (f" through {hold['agent']}" if hold["agent"] else "")
    who = (
        f"{hold['quorum']} of {hold['group']}, {time_left(hold)}"
        if not hold["ended"]
        else f"{hold['ended']}, {at(hold['ended_ms'])}"
    )
    console.print(head, soft_wrap=True)
    for line in filter(None, (hold["target"], asked, who)):
        console.print(Text(f"    {as_text(line)}"), soft_wrap=True)


def print_change(console: Console, hold: Mapping[str, Any]) -> None:
    """What has become of a hold, in one line."""
    state = "waits" if not hold["ended"] else hold["state"]
    line = Text.assemble(
        (f"{datetime.now():%H:%M:%S}  ", "dim"), (f"{state:<10}", _STATES.get(state, "cyan")), hold["hold_id"][:12], "  "
    )
    line.append(as_text(f"{hold['tool']}  {hold['target'] or ''}  {hold['amount']}"), "bold")
    line.append(as_text(f"  {hold['ended'] or time_left(hold)}"))
    console.print(line, soft_wrap=True)


def print_hold(console: Console, hold: Mapping[str, Any]) -> None:
    """All of it, in the order in which it matters."""
    shown = json.loads(hold["shown"])
    risk = str(shown.get("risk", ""))
    console.print(Rule(Text.assemble((as_text(str(shown.get("tool", ""))), "bold"), "  ", (as_text(risk), _RISKS.get(risk, ""))),
                       align="left"))  # fmt: skip
    for title, part in _parts(shown):
        console.print(Text(title, "bold cyan"))
        console.print(part, soft_wrap=isinstance(part, Text))
        console.print()
    rest = {name: value for name, value in shown.items() if name not in _TOLD}
    console.print(Text("For the record", "bold cyan"))
    console.print(pairs((name, _said(value)) for name, value in rest.items()))
    console.print(Rule(style="dim"))
    until = hold.get("ended") or f"until {at(hold['expires_ms'])}"
    console.print(Text(f"hold {hold['hold_id']}: {hold['state']}, {hold['quorum']} of {hold['group']}, {until}"), soft_wrap=True)
    for said in hold["decisions"]:
        words = f"{said['person']} said {said['verdict']} at {at(said['at_ms'])}{'' if said['counted'] else ' (did not count)'}"
        console.print(Text(as_text(words + (f": {said['reason']}" if said["reason"] else ""))), soft_wrap=True)
    console.print(Text(f"digest of what is shown: {hold['shown_digest']}"), soft_wrap=True)


def _parts(shown: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    preview, why = shown.get("preview"), shown.get("why") or {}
    if preview:
        yield "What will happen", Text(as_text(f"{preview['target']}  {preview['amount']}"), "bold")
        yield "Before and after", _differences(preview)
        undone = "It can be undone." if preview["recoverable"] else "It cannot be undone."
        yield undone, Text(as_text(str(shown.get("description", ""))), "dim")
    else:
        yield (
            "What will happen",
            Text(as_text(shown.get("preview_fault") or "This tool has no preview: read the arguments."), "red"),
        )
        if shown.get("description"):
            yield "The tool", Text(as_text(str(shown["description"])), "dim")
    yield "Why it is held", Text(as_text(WHY.get(str(why.get("reason")), str(why.get("reason", "not said")))))
    for breach in why.get("breaches", ()):
        yield from _breach(breach)
    if why.get("detail"):
        yield "Details", Text(_said(why["detail"]))
    asker = shown.get("asked_by") or {}
    yield "Who asks", pairs((name, _said(value)) for name, value in (*asker.items(), ("agent", shown.get("agent", ""))) if value)
    intent = shown.get("intent") or {}
    if intent.get("text"):
        yield f"What the run is for, in the user's words ({intent.get('trust')})", Text(as_text(intent["text"]), "yellow")
    yield "Exact arguments", _arguments(shown)
    yield "As one canonical text", Text(as_text(str(shown.get("arguments", ""))))


def _breach(breach: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    what = f"{breach['pointer'] or 'The action'} came from {breach['origin']}; allowed: {', '.join(breach['allowed'])}"
    yield "Origin breach", Text(as_text(what), "red")
    if breach.get("quote"):
        yield f"Quoted, {breach.get('trust')}, from {as_text(breach['source'])}", Text(as_text(breach["quote"]), "yellow")


def _differences(preview: Mapping[str, Any]) -> Table:
    table = _table("", "before", "after")
    for row in difference(preview["before"], preview["after"]):
        style = "bold" if row.changed else "dim"
        table.add_row(*(Text(as_text(part), style) for part in (row.name, row.before, row.after)))
    return table


def _arguments(shown: Mapping[str, Any]) -> Table:
    table = _table("field", "value", "whose word")
    whole = {"origins": shown.get("origins", []), "why": {"breaches": (shown.get("why") or {}).get("breaches", [])}}
    for leaf in leaves({"arguments": shown["arguments"], **whole}):
        source = (
            f"{leaf.said or 'not marked'}{f', {leaf.source}' if leaf.source else ''}{f': “{leaf.quote}”' if leaf.quote else ''}"
        )
        style = "red" if leaf.breach else ""
        table.add_row(*(Text(as_text(part), style) for part in (leaf.name or "(all)", leaf.text, source)))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _said(value: Any) -> str:
    return as_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))


def at(ms: int | None) -> str:
    """A time in UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if ms else "decided"


def time_left(hold: Mapping[str, Any]) -> str:
    """How long people still have, by this machine's clock."""
    if hold["expires_ms"] is None:
        return "no deadline"
    seconds = int(hold["expires_ms"] / 1000 - datetime.now(UTC).timestamp())
    if seconds <= 0:
        return "time is over"
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    return f"{hours} h {minutes} min left" if hours else f"{minutes} min {seconds % 60} s left"
