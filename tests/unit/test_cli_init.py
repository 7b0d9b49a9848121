"""`fourgates init`: what it writes works as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fourgates.cli.init import FILES
from support.cli import ROOT, environment, invoke, refused, run


def test_what_init_writes_passes_the_check_without_findings_and_its_own_tests(tmp_path: Path) -> None:
    """S10: from nothing to a catalog that is ready to be run."""
    folder = tmp_path / "my-tools"
    result = invoke("init", str(folder))
    assert result.exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)

    checked = run("catalog", "check", folder=folder)
    assert (checked.returncode, checked.stdout) == (0, "2 tools, 0 findings\n"), checked

    settings = {**environment(), "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "services")])}
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=folder, env=settings, capture_output=True,
        text=True, timeout=90, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout


def test_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    """S10: nobody's work is overwritten."""
    (tmp_path / "tools.py").write_text("mine = 1\n")
    refused(invoke("init", str(tmp_path)), "is not empty")
    assert (tmp_path / "tools.py").read_text() == "mine = 1\n"
    assert len(list(tmp_path.iterdir())) == 1
