"""Whether commands can be held in here: CI must have it, elsewhere the tests are skipped and say why."""

from __future__ import annotations

import os
import shutil

import pytest


def require_sandbox() -> None:
    """Skips, or in CI fails, where bubblewrap is missing."""
    if shutil.which("bwrap") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("bubblewrap is missing: run `make system`")
        pytest.skip("bubblewrap is missing: run `make system`")
