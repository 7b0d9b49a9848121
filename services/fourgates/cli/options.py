"""Options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fourgates.cli.settings import read_settings


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Hands the settings to the command, before its options."""

    @functools.wraps(command)
    def settled(**options: Any) -> None:
        command(read_settings(), **options)

    return settled


def with_catalog(command: Callable[..., None]) -> Callable[..., None]:
    """As `with_settings`, with `--catalog` in place of FOURGATES_CATALOG."""

    @click.option("--catalog", metavar="MODULE:ATTRIBUTE", help="The tools, in place of FOURGATES_CATALOG.")
    @functools.wraps(command)
    def settled(catalog: str | None, **options: Any) -> None:
        command(read_settings(**({"catalog": catalog} if catalog else {})), **options)

    return settled


as_user = click.option("--as", "user", metavar="USER", help="A development user; elsewhere a token says who it is.")
token_file = click.option(
    "--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with a bearer token, in place of FOURGATES_TOKEN.",
)  # fmt: skip
as_json = click.option("--json", "json_form", is_flag=True, help="JSON, for programs.")
