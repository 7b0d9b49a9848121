"""The compose file parses, as the reference implementation of the compose specification reads it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / "build" / "bin" / "compose-go"


def test_the_compose_file_parses() -> None:
    """S4: with the loader that docker compose itself uses."""
    if not CHECKER.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("build/bin/compose-go is missing: `make system` installs it")
        pytest.skip("build/bin/compose-go is missing: `make system` installs it")
    read = subprocess.run([CHECKER, ROOT / "docker-compose.yml"], capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    assert "executor" in read.stdout
