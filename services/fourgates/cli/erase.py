"""`fourgates erase`: personal data of one subject out of the audit and the stored results."""

from __future__ import annotations

import getpass
import json
from datetime import UTC, datetime
from typing import Any

import click
import httpx

from fourgates.approval.visible import as_text
from fourgates.audit.erasure_door import PATH, operator_word
from fourgates.cli.asking import print_json
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json, with_settings
from fourgates.cli.settings import PREFIX, Address, Settings
from fourgates.cli.world import Base
from fourgates.runtime.dev_issuer import wall_ms

_SECONDS = 600.0


@click.command()
@click.option("--tenant", required=True)
@click.option("--subject", required=True, help="The account, as tokens name it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@with_settings
def erase(settings: Settings, tenant: str, subject: str, yes: bool, json_form: bool) -> None:
    """Erases what the audit and the stored results hold of one SUBJECT: names, words, arguments, results. For good.

    Counts, codes, times and digests stay. What Kafka still holds leaves it by its retention; the command says when.
    """
    if not yes:
        click.confirm(f"Erase all personal data of {subject!r} of {tenant!r}? It cannot be brought back", abort=True, err=True)
    receipt = _asked(settings, {"tenant": tenant, "subject": subject, "asked_by": getpass.getuser()})
    if json_form:
        print_json(receipt)
        return
    click.echo(as_text(f"erased {receipt['rows']} rows of {receipt['calls']} calls and {receipt['blobs']} stored results; "
                       f"{receipt['pseudonym']} stands in their place"))  # fmt: skip
    for rest in receipt["log"]:
        until = f"until {_day(rest['until_ms'])}" if rest["until_ms"] else "and is never cut"
        click.echo(as_text(f"  the log still has {rest['records']} records on {rest['topic']}, {until}"))
    if not receipt["rows"]:
        click.echo("  there was nothing (more) of that subject")


def _asked(settings: Settings, said: dict[str, str]) -> dict[str, Any]:
    """The audit's receipt. Raises Fault with its sentence."""
    url = Address.parse(f"{PREFIX}AUDIT_DOOR", settings.audit_door).url
    body = json.dumps(said).encode()
    word = operator_word(Base(settings).keyring.signer("operator"), body, wall_ms())
    try:
        with httpx.Client(timeout=_SECONDS, trust_env=False) as http:
            answer = http.post(url + PATH, content=body, headers={"Authorization": word, "Content-Type": "application/json"})
    except httpx.TransportError as fault:
        raise Fault(f"The audit service does not answer at {url} ({type(fault).__name__}): is it running?") from fault
    if answer.status_code == httpx.codes.OK:
        return dict(answer.json())
    try:
        why = str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        why = f"status {answer.status_code}"
    raise Fault(f"The audit service says: {why}.", BROKEN if answer.is_server_error else 2)


def _day(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
