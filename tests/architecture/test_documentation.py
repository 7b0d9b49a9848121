"""What the documentation lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fourgates.cli.main import COMMANDS
from fourgates.cli.settings import PREFIX, Settings
from fourgates.runtime.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
QUESTIONS = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")


def test_every_setting_is_described_and_no_other() -> None:
    """S3: the table of settings is the class of settings."""
    listed = set(re.findall(rf"^\| `{PREFIX}(\w+?)(?:__\.\.\.)?` ", OPERATING, re.M))
    assert listed == {name.upper() for name in Settings.model_fields}


@pytest.mark.parametrize(
    "name", [name for name, field in Settings.model_fields.items() if isinstance(field.default, str | int | float)]
)
def test_default_in_the_table_is_the_default(name: str) -> None:
    """S3: read once, believed since."""
    default = Settings.model_fields[name].default
    row = next(line for line in OPERATING.splitlines() if line.startswith(f"| `{PREFIX}{name.upper()}`"))
    shown = row.split("|")[2].strip()
    assert shown == (f"`{default:g}`" if isinstance(default, float) else f"`{default}`" if default else "–")


def test_every_metric_is_described() -> None:
    """S3: a name on a dashboard that nobody can look up is no help."""
    for family in Metrics().registry.collect():
        assert f"`{family.name}" in OPERATING, family.name


def test_every_view_is_described() -> None:
    """L4: all views, and only those."""
    made = {
        name
        for file in (ROOT / "deploy" / "clickhouse").glob("*.sql")
        for name in re.findall(r"VIEW fourgates\.(\w+)", file.read_text())
    }
    table = QUESTIONS.split("## What there is")[1].split("## Examples")[0]
    assert made - {"attribution"} <= set(re.findall(r"`(\w+)`", table))


def test_commands_in_the_documentation_exist() -> None:
    """S10: what a reader types is a command."""
    for text in (OPERATING, QUESTIONS, (ROOT / "README.md").read_text(encoding="utf-8")):
        for command in re.findall(r"^\S*fourgates (\w+)", text, re.M):
            assert command in COMMANDS, command
