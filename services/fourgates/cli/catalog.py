"""`fourgates catalog`: what the contracts say, for the people who write them and for the models that read them; and what
others say of their tools, for who accepts it."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import json

import click

from fourgates.catalog.acceptance import Definition, Offer
from fourgates.catalog.check import check_catalog
from fourgates.catalog.export import export_anthropic, export_mcp, export_openai
from fourgates.cli.faults import BROKEN, REFUSED, Fault
from fourgates.cli.options import as_json, with_catalog
from fourgates.cli.settings import Settings
from fourgates.cli.world import Base
from fourgates.contract.canonical import digest
from fourgates.contract.errors import Transient

_FORMS = {"openai": export_openai, "anthropic": export_anthropic, "mcp": export_mcp}


@click.group()
def catalog() -> None:
    """Check or export the catalog of tools, accept those of MCP servers."""


@catalog.command()
@as_json
@with_catalog
def check(settings: Settings, json_form: bool) -> None:
    """Tells what a contract may say but should not. Exit code 1 with findings."""
    base = Base(settings)
    findings = check_catalog(base.catalog)
    if len(base.catalog):
        _ = base.policies  # policies that do not fit the catalog refuse to start, so they are looked at here as well
    if json_form:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=1))
    else:
        for finding in findings:
            click.echo(f"{finding.tool}: {finding.sentence} [{finding.rule}]")
        tools = len(base.catalog)
        click.echo(f"{tools} tool{'s' if tools != 1 else ''}, {len(findings)} finding{'s' if len(findings) != 1 else ''}")
    if findings:
        raise click.exceptions.Exit(1)


@catalog.command()
@click.option("--format", "form", type=click.Choice(list(_FORMS)), required=True)
@with_catalog
def export(settings: Settings, form: str) -> None:
    """Prints the tools in the form that a model is given: the enforced schema, word for word."""
    click.echo(json.dumps(_FORMS[form](Base(settings).catalog), ensure_ascii=False, indent=1))


@catalog.command()
@click.argument("tool")
@click.option("--digest", "agreed", metavar="D", help="Accept exactly this definition; without it, only show it.")
@with_catalog
def accept(settings: Settings, tool: str, agreed: str | None) -> None:
    """Shows how an MCP server describes a tool now, against what was accepted; with its digest, accepts it.

    What was not accepted does not run. Exit code 1 where there is something to accept.
    """
    offers = Base(settings).catalog.offers
    if tool not in offers:
        known = ", ".join(sorted(offers)) or "none"
        raise Fault(f"{tool}: no tool of an MCP server in this catalog; there are: {known}.")
    offer = offers[tool]
    try:
        offered = asyncio.run(_offered(offer))
    except Transient as fault:
        raise Fault(f"{tool}: {fault}; start the server and try again.", BROKEN) from fault
    now, before = digest(dict(offered)), offer.accepted()
    if before is not None and digest(dict(before)) == now:
        click.echo(f"{tool}: as accepted, {now}")
        return
    if agreed is None:
        for line in _difference(before, offered):
            click.echo(line)
        click.echo(f"\nTo accept it: fourgates catalog accept {tool} --catalog {settings.catalog} --digest {now}")
        raise click.exceptions.Exit(1)
    if agreed != now:
        raise Fault(f"{tool}: the server offers {now}, not {agreed}; look at it again without --digest.", REFUSED)
    offer.accept(offered)
    click.echo(f"{tool}: accepted, {now}; it counts for every process that starts from now on")


async def _offered(offer: Offer) -> Definition:
    try:
        return await offer.offered()
    finally:
        await offer.close()


def _difference(before: Definition | None, now: Definition) -> list[str]:
    """Line by line, as a reviewer reads it; characters that cannot be seen are written out."""
    old, new = (
        [] if one is None else json.dumps(one, indent=2, sort_keys=True).splitlines() for one in (before, now)
    )  # fmt: skip
    if not old:
        return new
    return list(difflib.unified_diff(old, new, "accepted", "offered", lineterm="", n=2))
