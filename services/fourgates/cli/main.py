"""`fourgates`: the command group. Each command lives in a module of its own, imported when it is called."""

from __future__ import annotations

import gc
import importlib
import logging
from collections.abc import Mapping
from typing import Any

import click

import fourgates
from fourgates.cli.faults import telling_faults

COLLECT_RARELY = (50_000, 50, 100)
"""How seldom the collector looks for cycles in our processes: so many new objects, and so many looks at the younger ones."""
COMMANDS: Mapping[str, tuple[str, str]] = {
    "init": ("init:init", "Write a catalog to begin with into a new folder."),
    "up": ("up:up", "Run the whole pipeline on this machine."),
    "demo": ("demo:demo", "Tell the whole story, scene by scene."),
    "run": ("run:run", "Run one process of the pipeline."),
    "call": ("call:call", "Call a tool through the pipeline."),
    "approvals": ("approvals:approvals", "See held calls and decide on them."),
    "trace": ("approval_trace:trace", "Write down what people decided about a run, for checkers."),
    "disable": ("switches:disable", "Switch a tool, an agent, a tenant or a run off."),
    "enable": ("switches:enable", "Switch it on again."),
    "stop": ("switches:stop", "Stop a run."),
    "switches": ("switches:switches", "See what is switched off."),
    "report": ("reports:report", "What became of calls, how long it took, whose doing it was: tables or a page."),
    "query": ("auditing:query", "Ask the audit in SQL."),
    "explain": ("auditing:explain", "Tell the life of one call."),
    "audit": ("auditing:audit", "Check the audit for what must never happen."),
    "rejudge": ("rejudge:rejudge", "Judge a run again by today's rules; nothing executes."),
    "erase": ("erase:erase", "Erase a subject's personal data."),
    "results": ("results:results", "Read stored results that were too long to be shown whole."),
    "dead": ("dead:dead", "Look at dead letters."),
    "catalog": ("catalog:catalog", "Check or export the catalog of tools, accept those of others."),
    "topics": ("topics:topics", "Make the topics on the broker."),
    "keys": ("keys:keys", "Make key files."),
}
"""Command -> where it is, and what the overview says."""


class Commands(click.Group):
    """Finds commands by COMMANDS, so that none pays for what another one imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        with telling_faults():
            found = getattr(importlib.import_module(f"fourgates.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        with telling_faults():
            return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(fourgates.__version__, prog_name="fourgates")
@click.option("--debug", is_flag=True, help="Show where a fault of Fourgates itself came from.")
def cli(debug: bool) -> None:
    """Four gates between a model's suggested tool call and the world.

    Settings come from the environment (FOURGATES_...) and from fourgates.env in the current folder.
    """
    if not debug:
        logging.basicConfig(handlers=[logging.NullHandler()])  # a command speaks for itself; `run` has a log


def main() -> None:
    """The entry point of the console script."""
    gc.set_threshold(*COLLECT_RARELY)  # a thousand modules are read and stay: a sixth of the start went into looking at them
    cli(prog_name="fourgates")
