"""Every row of the requirements has a test that names it, or stands below as owed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT.parent / "shared" / "REQUIREMENTS.md"
OWED = frozenset({"S5", "S7", "S9"})
"""Rows that have no test yet."""

_ROW = re.compile(r"^\|\s*([A-Z]\d{1,2})\s*\|", re.MULTILINE)
_NAMED = re.compile(r"[CBPAERLS]\d{1,2}(?:, [CBPAERLS]\d{1,2})*(?=$|[:\s.])")


def rows_named_in(folder: Path) -> dict[str, list[str]]:
    """The rows with which the docstrings of tests begin (`E1, E3: ...`), each with the tests that name it."""
    named: dict[str, list[str]] = {}
    for file in sorted(folder.rglob("test_*.py")):
        for function in _tests_of(ast.parse(file.read_text(encoding="utf-8"))):
            found = _NAMED.match(ast.get_docstring(function) or "")
            for row in found[0].split(", ") if found else ():
                named.setdefault(row, []).append(f"{file.relative_to(folder)}::{function.name}")
    return named


def _tests_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


@pytest.mark.skipif(not REQUIREMENTS.exists(), reason="the table of requirements is not part of the repository")
def test_every_requirement_has_a_test_or_is_owed() -> None:
    rows = set(_ROW.findall(REQUIREMENTS.read_text(encoding="utf-8"))) - {"id"}
    named = rows_named_in(ROOT / "tests")
    missing = rows - named.keys()
    print("rows without a test:", ", ".join(sorted(missing, key=lambda row: (row[0], int(row[1:])))) or "none")
    assert missing - OWED == set(), "rows without a test that nobody owes"
    assert OWED - missing == set(), "rows that are said to be owed and have a test: take them off the list"
    assert named.keys() - rows == set(), "tests that name rows which do not exist"
