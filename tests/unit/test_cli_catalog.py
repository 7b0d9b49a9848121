"""`fourgates catalog`: findings and exports on the command line."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from fourgates.catalog.export import export_anthropic, export_mcp, export_openai
from fourgates.catalog.loading import load_catalog
from support.cli import invoke, refused

TOOLS = """
    from pydantic import BaseModel, ConfigDict
    from fourgates.catalog import Catalog, ToolContext

    POLICIES = '@id("all") permit (principal, action, resource);'
    catalog = Catalog("loose", policies=POLICIES)

    class Note(BaseModel):
        model_config = ConfigDict(strict=True, extra="forbid")
        text: str

    @catalog.tool(risk="write", timeout=1)
    def add_note(args: Note, ctx: ToolContext) -> None:
        "Adds."
"""


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A catalog that says too little, in the current folder."""
    (tmp_path / "loose_tools.py").write_text(textwrap.dedent(TOOLS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "loose_tools:catalog"


def test_findings_are_told_and_end_with_exit_code_one(catalog: str) -> None:
    """C3: for people and, as JSON, for a build."""
    result = invoke("catalog", "check", "--catalog", catalog)
    assert result.exit_code == 1
    assert "add_note: writes without an effect" in result.output
    assert result.output.rstrip().endswith("1 tool, 7 findings")
    found = json.loads(invoke("catalog", "check", "--catalog", catalog, "--json").output)
    assert {"no_effect_key", "no_probe", "no_preview", "unbounded_string"} < {finding["rule"] for finding in found}


@pytest.mark.parametrize(("form", "export"), [("openai", export_openai), ("anthropic", export_anthropic), ("mcp", export_mcp)])
def test_export_is_the_enforced_schema(catalog: str, form: str, export: object) -> None:
    """C2: word for word what the gates enforce."""
    result = invoke("catalog", "export", "--format", form, settings={"catalog": catalog})
    assert result.exit_code == 0
    assert callable(export)
    assert json.loads(result.output) == export(load_catalog(catalog))


def test_policies_that_do_not_fit_the_catalog_are_refused(catalog: str, tmp_path: Path) -> None:
    """P2: they would refuse to start, so the check says it first."""
    (tmp_path / "policies.cedar").write_text('@id("x") permit (principal, action == Fourgates::Action::"drop", resource);')
    refused(invoke("catalog", "check", settings={"catalog": catalog, "policies": "policies.cedar"}), "FOURGATES_POLICIES", "drop")
    refused(
        invoke("catalog", "check", settings={"catalog": catalog, "policies": "gone.cedar"}), "FOURGATES_POLICIES", "gone.cedar"
    )
