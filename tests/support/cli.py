"""The command line in a test: its own folder, its own home, none of this machine's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner, Result

from fourgates.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]


def environment(**settings: str) -> dict[str, str]:
    """This machine's environment with these settings and no others; `home="..."` is FOURGATES_HOME."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FOURGATES_")}
    return own | {f"FOURGATES_{name.upper()}": value for name, value in settings.items()}


def invoke(*arguments: str, settings: Mapping[str, str] | None = None, said: str | None = None) -> Result:
    """Runs a command in this process, in the current folder."""
    given = {name: None for name in os.environ if name.startswith("FOURGATES_")}
    wanted = {f"FOURGATES_{name.upper()}": value for name, value in (settings or {}).items()}
    return CliRunner().invoke(cli, list(arguments), env={**given, **wanted}, input=said)


def run(*arguments: str, folder: Path, seconds: float = 60, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a process of its own, in `folder`."""
    argv = [sys.executable, "-m", "fourgates.cli", *arguments]
    return subprocess.run(
        argv, cwd=folder, env=environment(**settings), capture_output=True, text=True, timeout=seconds, check=False
    )


def refused(result: Result, *words: str) -> None:
    """One sentence on stderr that says these words, exit code 2, no traceback."""
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    said = result.stderr.strip()
    assert "\n" not in said
    assert "Traceback" not in said
    for word in words:
        assert word in said, said
