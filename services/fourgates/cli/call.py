"""`fourgates call`: one tool call through the whole pipeline, as an agent's host would make it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack
from pathlib import Path

import click

from fourgates.cli.faults import Fault
from fourgates.cli.options import as_json, as_user, token_file, with_catalog
from fourgates.cli.people import caller_token
from fourgates.cli.settings import Settings
from fourgates.cli.showing import show_answer
from fourgates.cli.world import Base
from fourgates.contract.errors import Transient
from fourgates.sdk import Answer, Client, RunStopped
from fourgates.sdk.settings import SdkSettings


@click.command()
@click.argument("tool")
@click.argument("arguments", metavar="JSON")
@as_user
@token_file
@click.option("--intent", default="", help="What the user asked for, in their words: values that stand in it count as theirs.")
@click.option("--run", "run_id", metavar="RUN_ID", help="Continue this run; a new one without it.")
@click.option("--id", "tool_call_id", metavar="TOOL_CALL_ID", help="The call's id in its run: the same id is the same call.")
@click.option("--wait", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Seconds to wait for the answer.")
@as_json
@with_catalog
def call(
    settings: Settings, tool: str, arguments: str, user: str | None, token_file: Path | None, intent: str, run_id: str | None,
    tool_call_id: str | None, wait: float, json_form: bool,
) -> None:  # fmt: skip
    """Calls TOOL with the argument text JSON, as a model would write it.

    Exit code 0: the call succeeded; 1: any other answer; 2: it could not be asked for.
    """
    token = caller_token(settings, Base(settings).keyring, user, token_file)
    asked = tool_call_id or f"cli-{secrets.token_hex(4)}"
    answer, run = asyncio.run(_asked(settings, token, tool, arguments, intent, run_id, asked, wait))
    if json_form:
        click.echo(answer.to_json())
    else:
        show_answer(answer, run, asked)
    if not answer.ok:
        raise click.exceptions.Exit(1)


async def _asked(
    settings: Settings, token: str, tool: str, arguments: str, intent: str, run_id: str | None, tool_call_id: str, wait: float
) -> tuple[Answer, str]:  # fmt: skip
    """The answer and the run's id."""
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(Client.from_env(sdk_settings(settings)))
        except Transient as fault:
            where = f"{settings.bootstrap} ({fault})"
            raise Fault(
                f"No Kafka broker answers at {where}: is the pipeline running, and is FOURGATES_BOOTSTRAP right?"
            ) from fault
        try:
            run = client.run(token, intent, [intent] if intent else (), run_id=run_id)
            return await run.call(tool, arguments, tool_call_id=tool_call_id, wait=wait), run.id
        except RunStopped as stopped:
            return stopped.answer, run.id
        except ValueError as fault:
            raise Fault(str(fault)) from fault


def sdk_settings(settings: Settings) -> SdkSettings:
    """The SDK's part of the settings, also where they come from the file or from the `up` that runs here."""
    shared = ("environment", "bootstrap", "home", "keys_file", "registry_url", "schemas")
    return SdkSettings(**{name: getattr(settings, name) for name in shared})
