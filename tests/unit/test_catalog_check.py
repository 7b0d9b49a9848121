"""`fourgates catalog check` on a catalog that does everything wrong, one tool a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fourgates.catalog.check import _RULES
from support.cli import invoke

TOOLS = """
from datetime import timedelta
from fourgates.catalog import Catalog, Effect, Tool
from fourgates.contract.parts import Risk

POLICIES = '@id("all") permit (principal, action, resource);'
GOOD = "Does it. Use it when it is asked for. Changes the order. Returns the order."
catalog = Catalog("bad", policies=POLICIES)

def act(args, ctx): ...
def preview(args, principal): ...
def probe(args, ctx): ...

def tool(name, risk="read", description=GOOD, effect=Effect("act"), preview=preview, probe=probe, schema=None, **properties):
    properties = properties or {"order_id": {"type": "string", "maxLength": 20, "description": "The order."}}
    given = {"effect": effect, "preview": preview, "probe": probe} if risk != "read" else {"preview": preview}
    catalog.add(Tool(
        name=name, description=description, risk=Risk(risk), schema=schema or {"type": "object", "properties": properties},
        model=None, run=act, timeout=timedelta(seconds=1), **given,
    ))

def text(**more):
    return {"type": "string", "maxLength": 200, "description": "What is meant.", **more}

tool("good_read")
tool("good_write", risk="write")
tool("run_report", sql=text())
tool("ask", question=text(description="A database query in SQL."))
tool("shell", line=text())
tool("calculate", body=text(description="Python code."))
tool("fetch", url=text())
tool("look", where=text(format="uri"))
tool("show", page=text(description="The web address of the page."))
tool("pay", risk="write", effect=None)
tool("send", risk="destructive", probe=None)
tool("erase", risk="destructive", preview=None)
tool("note", line={"type": "string", "description": "What to note."})
tool("tag", labels={"type": "array", "description": "Labels.", "items": {"type": "string"}})
tool("configure", options={"type": "object", "description": "Options."})
tool("draw", colour=text(**{"x-order": 1}))
tool("when", description="Does it. Changes the order. Returns the order.")
tool("parameters", order_number={"type": "string", "maxLength": 20})
tool("side_effects", description="Does it. Use it when it is asked for. Returns the order.")
tool("returns", description="Does it. Use it when it is asked for. Changes the order.")
"""
EXPECTED = [
    ("run_report", "wide_sql", "sql"), ("ask", "wide_sql", "question"), ("shell", "wide_shell", "line"),
    ("calculate", "wide_shell", "body"), ("fetch", "wide_url", "url"), ("look", "wide_url", "where"),
    ("show", "wide_url", "page"), ("pay", "no_effect_key", "Effect("), ("send", "no_probe", "probe(args, ctx)"),
    ("erase", "no_preview", "preview(args, principal)"),
    ("note", "unbounded_string", "line"), ("tag", "unbounded_string", "labels"), ("configure", "empty_object", "options"),
    ("draw", "unknown_words", "x-order"), ("when", "description_when", "Use it when"),
    ("parameters", "description_parameters", "order_number"), ("side_effects", "description_side_effects", "changes"),
    ("returns", "description_returns", "Returns"),
]  # fmt: skip
"""(tool, rule, what the sentence names)."""


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "bad_tools.py").write_text(TOOLS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "bad_tools:catalog"


def test_each_fault_of_a_bad_catalog_is_named_once_with_what_to_do(bad: str) -> None:
    """C3"""
    result = invoke("catalog", "check", "--catalog", bad)
    lines = result.output.splitlines()
    assert result.exit_code == 1, result.output
    assert lines[-1] == f"20 tools, {len(EXPECTED)} findings"
    for line, (tool, rule, named) in zip(lines[:-1], EXPECTED, strict=True):
        assert line.startswith(f"{tool}: ")
        assert line.endswith(f"[{rule}]")
        assert named in line
        assert "; " in line, "what is wrong; what to do"
    assert {rule for _, rule, _ in EXPECTED} == _RULES.keys(), "a rule that no tool of this catalog breaks"


def test_a_tool_with_many_faults_has_each_named_once(bad: str, tmp_path: Path) -> None:
    """C3"""
    worst = """
tool("run_sql_shell", risk="destructive", description="Tool.", effect=None, probe=None, preview=None,
     sql={"type": "string"}, other_sql={"type": "string"}, command={"type": "string"}, url={"type": "string"},
     x={"type": "object"}, y={"type": "integer", "x-z": 1})
"""
    (tmp_path / "worst_tools.py").write_text(TOOLS + worst)
    found = json.loads(invoke("catalog", "check", "--catalog", "worst_tools:catalog", "--json").output)
    rules = [finding["rule"] for finding in found if finding["tool"] == "run_sql_shell"]
    assert sorted(rules) == sorted(_RULES)
    assert sum("other_sql, sql" in finding["sentence"] for finding in found) >= 1
