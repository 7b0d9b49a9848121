"""`fourgates approvals`: what people do on the approver's page, over the same HTTP API."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import httpx
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from fourgates.approval.visible import as_text
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json, as_user, token_file, with_catalog
from fourgates.cli.people import approver_token
from fourgates.cli.settings import PREFIX, Address, Settings
from fourgates.cli.showing import pairs
from fourgates.cli.world import Base

_SECONDS = 30.0
_FIRST = ("tool", "risk", "preview", "preview_fault", "arguments", "asked_by", "agent", "intent", "why", "description")


class Approver:
    """A client of the approver service."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        self._url = url
        self._http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=_SECONDS, trust_env=False, transport=transport
        )

    def __enter__(self) -> Approver:
        return self

    def __exit__(self, *ended: object) -> None:
        self._http.close()

    def holds(self) -> list[dict[str, Any]]:
        return list(self._asked("GET", "/api/holds")["holds"])

    def hold(self, hold_id: str) -> dict[str, Any]:
        """The whole hold. `hold_id` may be the beginning of the id of an open one, or of its call."""
        if len(hold_id) < 32:
            found = {h["hold_id"] for h in self.holds() if h["hold_id"].startswith(hold_id) or h["call_id"].startswith(hold_id)}
            if len(found) != 1:
                raise Fault(f"{len(found)} open calls begin with {hold_id!r}; `fourgates approvals list` shows them.")
            hold_id = found.pop()
        return self._asked("GET", f"/api/holds/{hold_id}")

    def decide(self, hold_id: str, **decision: Any) -> dict[str, Any]:
        return self._asked("POST", f"/api/holds/{hold_id}/decision", decision)

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, json=body)
            content: dict[str, Any] = answer.json()
        except httpx.HTTPError as fault:
            why = f"The approver's service does not answer at {self._url} ({type(fault).__name__}): is it running?"
            raise Fault(why) from fault
        except ValueError as fault:
            raise Fault(f"What answers at {self._url} is not the approver's service.") from fault
        if answer.is_success:
            return content
        raise Fault(f"{content.get('message', 'refused')} ({content.get('outcome', answer.status_code)})", BROKEN)


def with_approver(command: Callable[..., None]) -> Callable[..., None]:
    """Opens the service for the command, as the person whom `--as` or the token names."""

    @as_user
    @token_file
    @with_catalog
    @functools.wraps(command)
    def opened(settings: Settings, user: str | None, token_file: Path | None, **options: Any) -> None:
        token = approver_token(settings, Base(settings).keyring, user, token_file)
        with Approver(Address.parse(f"{PREFIX}APPROVER", settings.approver).url, token) as approver:
            command(approver, **options)

    return opened


@click.group()
def approvals() -> None:
    """See held calls and decide on them."""


@approvals.command("list")
@as_json
@with_approver
def list_holds(approver: Approver, json_form: bool) -> None:
    """What waits for this person's groups."""
    holds = approver.holds()
    if json_form:
        _print_json(holds)
        return
    console = Console(highlight=False)
    for h in holds:
        asked = f"asked by {h['asked_by']}" + (f" through {h['agent']}" if h["agent"] else "")
        until = f"{h['reason']}: {h['quorum']} of {h['group']}, until {_time(h['expires_ms'])}"
        console.print(Text(as_text(f"{h['hold_id'][:12]}  {h['tool']}  {h['amount']}"), style="bold"), soft_wrap=True)
        for line in (h["target"] or "", asked, until):
            console.print(Text(f"    {as_text(line)}"), soft_wrap=True)
    if not holds:
        console.print("Nothing waits for you.")


@approvals.command()
@click.argument("hold_id", metavar="ID")
@as_json
@with_approver
def show(approver: Approver, hold_id: str, json_form: bool) -> None:
    """One held call: exactly what a decision would be about."""
    hold = approver.hold(hold_id)
    if json_form:
        _print_json(hold)
    else:
        _show(hold)


def _deciding(verdict: str, name: str, says: str) -> None:
    @approvals.command(name, help=says)
    @click.argument("hold_id", metavar="ID")
    @click.option("--reason", default="", help="Why; kept in the audit.")
    @click.option("--tell-model", is_flag=True, help="The reason also reaches the model.")
    @click.option("--shown", "digest", metavar="DIGEST", help="Decide only about what `show` printed with this digest.")
    @with_approver
    def decide(approver: Approver, hold_id: str, reason: str, tell_model: bool, digest: str | None) -> None:
        hold = approver.hold(hold_id)
        if digest is not None and digest != hold["shown_digest"]:
            raise Fault("What is asked now is not what was shown with that digest; look at it again.", BROKEN)
        if digest is None:
            _show(hold)
            if sys.stdin.isatty() and not click.confirm(f"{name}?"):
                raise click.Abort
        told = approver.decide(
            hold["hold_id"], verdict=verdict, shown_digest=hold["shown_digest"], reason=reason, tell_model=tell_model
        )  # fmt: skip
        click.echo(told["message"])


_deciding("approve", "approve", "Say yes to a held call; it may then run, once.")
_deciding("deny", "deny", "Say no to a held call; it will not run.")
_deciding("committed", "committed", "Of a call in doubt: it did take effect.")
_deciding("not_applied", "not-applied", "Of a call in doubt: it did not take effect, and will not.")


def _show(hold: dict[str, Any]) -> None:
    """All of it, nothing cut or hidden; what matters most comes first."""
    console = Console(highlight=False)
    shown = json.loads(hold["shown"])
    ordered = [(name, shown[name]) for name in dict.fromkeys((*_FIRST, *shown)) if name in shown]
    console.print(
        Panel(pairs((name, _said(value)) for name, value in ordered), title="what is decided about", title_align="left")
    )
    console.print(Text(f"hold {hold['hold_id']}: {hold['state']}, {hold['quorum']} of {hold['group']}, "
                       f"until {_time(hold['expires_ms'])}"), soft_wrap=True)  # fmt: skip
    console.print(Text(f"digest of what is shown: {hold['shown_digest']}"), soft_wrap=True)


def _said(value: Any) -> str:
    return as_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))


def _time(ms: int | None) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if ms else "decided"


def _print_json(content: Any) -> None:
    click.echo(json.dumps(content, ensure_ascii=False, indent=1))
