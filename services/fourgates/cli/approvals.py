"""`fourgates approvals`: what people do on the approver's page, over the same HTTP API."""

from __future__ import annotations

import asyncio
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fourgates.approval.service.presenting import typed_fits
from fourgates.approval.visible import as_text
from fourgates.cli.approvals_shown import print_change, print_hold, print_line
from fourgates.cli.approver_client import Approver
from fourgates.cli.approver_login import bearer_of, keep, kept_token, sign_in
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json, as_user, token_file, with_catalog, with_settings
from fourgates.cli.settings import PREFIX, Address, Settings


def with_approver(command: Callable[..., None]) -> Callable[..., None]:
    """Opens the service for the command, as the person whom `--as`, a token or the sign-in names."""

    @as_user
    @token_file
    @with_catalog
    @functools.wraps(command)
    def opened(settings: Settings, user: str | None, token_file: Path | None, **options: Any) -> None:
        with Approver(_url(settings), bearer_of(settings, user, token_file)) as approver:
            command(approver, **options)

    return opened


@click.group()
def approvals() -> None:
    """See held calls and decide on them."""


@approvals.command()
@with_settings
def login(settings: Settings) -> None:
    """Sign in through the browser; the sign-in is kept for the commands after this one."""
    token = asyncio.run(sign_in(settings, click.echo))
    with Approver(_url(settings), token) as approver:
        me = approver.me()
    keep(settings, token)
    click.echo(as_text(f"Signed in as {me['person']} of {me['tenant']}, deciding for {', '.join(me['groups']) or 'no group'}."))


@approvals.command()
@with_settings
def logout(settings: Settings) -> None:
    """Forget the sign-in."""
    kept_token(settings).unlink(missing_ok=True)


@approvals.command("list")
@click.option("--ended", is_flag=True, help="What was decided, newest first, in place of what waits.")
@click.option("--find", metavar="WORDS", default="", help="With --ended: words of tool, target, amount, arguments, people, ids.")
@as_json
@with_approver
def list_holds(approver: Approver, ended: bool, find: str, json_form: bool) -> None:
    """What waits for this person's groups, the most pressing first."""
    if find and not ended:
        raise Fault("--find searches what has ended: give --ended as well.")
    holds = iter(approver.history(q=find)) if ended else approver.holds()
    if json_form:
        _print_json(list(holds))
        return
    console, none = Console(highlight=False), True
    for hold in holds:
        none = False
        print_line(console, hold)
    if none:
        console.print("Nothing fits." if ended else "Nothing waits for you.")


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
        print_hold(Console(highlight=False), hold)


def _decision(command: Callable[..., None]) -> Callable[..., None]:
    """What approve, deny and resolve have in common."""
    for option in (
        click.option("--shown", "digest", metavar="DIGEST", help="Decide only about what `show` printed with this digest."),
        click.option("--reason", default="", help="Why; kept in the audit."),
        click.argument("hold_id", metavar="ID"),
    ):
        command = option(command)
    return command


@approvals.command()
@_decision
@with_approver
def approve(approver: Approver, hold_id: str, reason: str, digest: str | None) -> None:
    """Say yes to a held call; it may then run, once."""
    _decide(approver, hold_id, "approve", digest, reason)


@approvals.command()
@_decision
@click.option("--tell-model", is_flag=True, help="The reason also reaches the model.")
@with_approver
def deny(approver: Approver, hold_id: str, reason: str, digest: str | None, tell_model: bool) -> None:
    """Say no to a held call; it will not run."""
    _decide(approver, hold_id, "deny", digest, reason, tell_model)


@approvals.command()
@_decision
@click.argument("outcome", type=click.Choice(["committed", "not-applied"]))
@with_approver
def resolve(approver: Approver, hold_id: str, outcome: str, reason: str, digest: str | None) -> None:
    """Say what became of a call in doubt: it took effect, or it did not and will not."""
    _decide(approver, hold_id, outcome.replace("-", "_"), digest, reason)


@approvals.command()
@as_json
@with_approver
def watch(approver: Approver, json_form: bool) -> None:
    """Tell what begins to wait and how it ends, until ctrl-C."""
    console = Console(highlight=False)

    def tell(hold: dict[str, Any]) -> None:
        if json_form:
            click.echo(json.dumps(hold, ensure_ascii=False))
        else:
            print_change(console, hold)

    for hold_id in approver.changes():
        if hold_id:
            tell(approver.hold(hold_id))
            continue
        for hold in approver.holds():
            tell(hold)
    raise Fault("The stream has ended: the service ends, or the sign-in is too old.", BROKEN)


def _decide(
    approver: Approver, hold_id: str, verdict: str, digest: str | None, reason: str, tell_model: bool = False
) -> None:  # fmt: skip
    """Decides about exactly what was printed."""
    hold = approver.hold(hold_id)
    if digest is not None and digest != hold["shown_digest"]:
        raise Fault("What is asked now is not what was shown with that digest; look at it again.", BROKEN)
    if digest is None:
        print_hold(Console(highlight=False), hold)
        _confirm(hold, verdict)
    told = approver.decide(
        hold["hold_id"], verdict=verdict, shown_digest=hold["shown_digest"], reason=reason, tell_model=tell_model
    )  # fmt: skip
    click.echo(told["message"])


def _confirm(hold: dict[str, Any], verdict: str) -> None:
    """At a terminal the person says so once more; what destroys something asks for its amount, and a script for the digest."""
    destroys = verdict == "approve" and hold["risk"] == "destructive"
    if not sys.stdin.isatty():
        if destroys:
            raise Fault("This destroys something: look at it with `show`, then give its digest with --shown.")
        return
    if destroys:
        asked = as_text(hold["amount"] or hold["tool"])
        if not typed_fits(
            asked, click.prompt(f"This destroys something. To approve it, type {asked}", default="", show_default=False)
        ):
            raise Fault("That was something else; nothing was decided.", BROKEN)
    elif not click.confirm(f"{verdict.replace('_', ' ')}?"):
        raise click.Abort


def _url(settings: Settings) -> str:
    return Address.parse(f"{PREFIX}APPROVER", settings.approver).url


def _print_json(content: Any) -> None:
    click.echo(json.dumps(content, ensure_ascii=False, indent=1))
