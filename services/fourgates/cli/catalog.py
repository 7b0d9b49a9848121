"""`fourgates catalog`: what the contracts say, for the people who write them and for the models that read them."""

from __future__ import annotations

import dataclasses
import json

import click

from fourgates.catalog.check import check_catalog
from fourgates.catalog.export import export_anthropic, export_mcp, export_openai
from fourgates.cli.options import as_json, with_catalog
from fourgates.cli.settings import Settings
from fourgates.cli.world import Base

_FORMS = {"openai": export_openai, "anthropic": export_anthropic, "mcp": export_mcp}


@click.group()
def catalog() -> None:
    """Check or export the catalog of tools."""


@catalog.command()
@as_json
@with_catalog
def check(settings: Settings, json_form: bool) -> None:
    """Tells what a contract may say but should not. Exit code 1 with findings."""
    base = Base(settings)
    findings = check_catalog(base.catalog)
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
