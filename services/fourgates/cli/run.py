"""`fourgates run`: one process of the pipeline, until SIGTERM or ctrl-C."""

from __future__ import annotations

import click

from fourgates.assembly import STAGES
from fourgates.cli.lifetime import until_told
from fourgates.cli.options import with_catalog
from fourgates.cli.settings import Settings
from fourgates.cli.world import Base, await_world
from fourgates.contract.errors import Transient
from fourgates.runtime.intake import FatalError
from fourgates.runtime.logs import configure_logging

PROCESSES = (*STAGES, "audit", "approver")


@click.command()
@click.argument("process", type=click.Choice(PROCESSES))
@with_catalog
def run(settings: Settings, process: str) -> None:
    """Runs PROCESS: a stage, the audit or the approver's service.

    Exit code 0: it was told to end; 1: it could not go on; 2: it may not start as it is configured.
    """
    try:
        run_process(Base(settings), process)
    except Transient as fault:  # what is away may come back: whoever watches this process must start it again
        raise FatalError(str(fault)) from fault


def run_process(base: Base, process: str) -> None:
    """Until it is told to end. Raises ConfigurationError; Transient where something is away for longer than it waits."""
    refuse_early(base, process)
    if until_told(await_world(base, process, lambda line: click.echo(line, err=True))):
        return
    configure_logging(base.settings.log_level, process=process)
    if process == "audit":
        from fourgates.cli.audit_process import run_audit  # loads the ClickHouse client

        until_told(run_audit(base))
    elif process == "approver":
        from fourgates.cli.approver_process import run_approver

        until_told(run_approver(base))
    else:
        from fourgates.cli.stage_process import run_stage  # loads Faust

        raise click.exceptions.Exit(run_stage(base, process))


def refuse_early(base: Base, process: str) -> None:
    """Whatever is wrong with the configuration is said before anything is waited for. Raises ConfigurationError, Transient."""
    _ = base.keyring, base.codec, base.failpoints
    if process in STAGES:
        _ = base.policies
    if process == "audit":
        _ = base.catalog
    if process in ("validator", "approver"):
        base.issuers()
