"""What a process loads: each carries what it needs and not what its siblings do, for memory is counted a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SERVICES = Path(__file__).parents[2] / "services"
OTHERS = ("clickhouse_connect", "jinja2", "sse_starlette", "fourgates.audit.build", "fourgates.approval.service.app")
"""Of the audit and of the approver: twelve megabytes."""


def test_a_stages_process_loads_neither_the_audit_nor_the_approver() -> None:
    """A6: a hundred thousand waiting calls have less than two hundred megabytes for all of it."""
    script = "import sys, fourgates.cli.main, fourgates.cli.stage_process; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env={"PYTHONPATH": str(SERVICES)}
    ).stdout.split()
    assert "fourgates.approval.stage" in loaded
    assert [name for name in OTHERS if name in loaded] == []
