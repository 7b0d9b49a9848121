"""`fourgates results`: the whole of a result that a model got only head and tail of."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json, as_user, token_file, with_settings
from fourgates.cli.people import caller_token
from fourgates.cli.settings import Settings
from fourgates.cli.world import Base
from fourgates.contract.ports import BlobOwner
from fourgates.gates.identity import TokenVerifier
from fourgates.gates.refusal import Refusal
from fourgates.gates.result_page import SPARE, page_of

_PAGE = 1 << 16


@click.group()
def results() -> None:
    """Read stored results: redacted, and only one's own."""


@results.command()
@click.argument("ref")
@as_user
@token_file
@click.option("--run", "run_id", default="", metavar="RUN_ID", help="Only where it belongs to this run of yours.")
@click.option("--offset", type=click.IntRange(min=0), default=0, show_default=True, help="Where to begin, in bytes.")
@click.option("--bytes", "most", type=click.IntRange(min=1), metavar="N", help="At most so many; the rest of it without.")
@as_json
@with_settings
def show(
    settings: Settings, ref: str, user: str | None, token_file: Path | None, run_id: str, offset: int, most: int | None,
    json_form: bool,
) -> None:  # fmt: skip
    """Prints the stored result REF, which `content_ref` of an answer names.

    Exit code 1: there is none, or it is not yours.
    """
    asyncio.run(
        _shown(settings, caller_token(settings, Base(settings).keyring, user, token_file), ref, run_id, offset, most, json_form)
    )


async def _shown(settings: Settings, token: str, ref: str, run_id: str, offset: int, most: int | None, json_form: bool) -> None:
    base = Base(settings)
    trusted = base.issuers()
    async with trusted.keeping:
        who = TokenVerifier(trusted.callers).verify(token, base.clock.now_ms())
    if isinstance(who, Refusal):
        raise Fault(f"The token does not count: {who.reason}.")
    store = base.blobs.results
    if not await store.owned(who.tenant, ref, BlobOwner(who.subject, run_id)):
        raise Fault(f"{who.subject} has no result {ref[:12]!r}, or it is no longer kept.", BROKEN)
    try:
        whole = (await store.info(who.tenant, ref)).size
        left, at, text = whole if most is None else most, offset, ""
        while left > 0 and at < whole:
            asked = min(left, _PAGE)
            page = page_of(await store.read(who.tenant, ref, at, asked + SPARE), at, asked, whole)
            if json_form:
                text += page.text
            else:
                click.echo(page.text, nl=False)
            left -= len(page.text.encode())
            at = whole if page.next_offset is None else page.next_offset
    except KeyError:
        raise Fault(f"The result {ref[:12]!r} is no longer kept.", BROKEN) from None
    if json_form:
        click.echo(
            json.dumps({"ref": ref, "size": whole, "next_offset": at if at < whole else None, "text": text}, ensure_ascii=False)
        )
