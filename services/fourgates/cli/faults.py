"""Faults as a person reads them: one clear sentence on stderr and an exit code, never a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

REFUSED = 2
"""Cannot be done as it was asked for or as it is configured; doing it again does not help."""
BROKEN = 1
"""It began and could not go on; starting again may help."""


class Fault(click.ClickException):
    """Ends a command with a sentence."""

    def __init__(self, sentence: str, exit_code: int = REFUSED) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file, err=file is None)


@contextmanager
def telling_faults() -> Iterator[None]:
    """Turns what goes wrong into a Fault. `--debug` lets what nobody foresaw through as it is."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as fault:
        how = f"; `{fault.ctx.command_path} -h` shows how" if fault.ctx else ""
        raise Fault(f"{one_line(fault.format_message()).rstrip('.')}{how}.") from fault
    except (click.exceptions.Exit, click.ClickException, click.Abort):
        raise
    except Exception as fault:
        foreseen = _foreseen(fault)
        if foreseen is not None:
            raise foreseen from fault
        context = click.get_current_context(silent=True)
        if context is not None and context.find_root().params.get("debug"):
            raise
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        place = f"{type(fault).__name__} in {frame.name}, line {frame.lineno}"
        raise Fault(f"A fault of Fourgates itself: {place}. `fourgates --debug ...` shows all of it.", BROKEN) from fault


def one_line(text: str) -> str:
    """The sentence without line breaks, so that the last line of a log is all of it."""
    return " ".join(text.split())


def _foreseen(fault: Exception) -> Fault | None:
    # Imported here: most commands never fail, and the overview should not wait for a ClickHouse client.
    import httpx

    from fourgates.audit.client import DoorError
    from fourgates.contract.errors import ConfigurationError, Transient
    from fourgates.runtime.intake import FatalError
    from fourgates.runtime.supervisor import ProcessFailed

    match fault:
        case ConfigurationError() | DoorError() | Transient():
            return Fault(one_line(str(fault)))
        case FatalError() | ProcessFailed():
            return Fault(one_line(str(fault)), BROKEN)
        case httpx.HTTPError():
            return Fault(f"No usable answer came back: {type(fault).__name__}{_from(fault)}.")
        case OSError():
            where = f" ({fault.filename})" if fault.filename else ""
            return Fault(f"{fault.strerror or type(fault).__name__}{where}")
    return None


def _from(fault: Any) -> str:
    try:
        url = fault.request.url
    except RuntimeError:  # it never became a request
        return ""
    return f" from {url.scheme}://{url.netloc.decode()}"
