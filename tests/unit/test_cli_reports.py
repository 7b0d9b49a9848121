"""`fourgates report`, `query`, `explain`, `audit check` over a query door that the test plays."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from fourgates.audit.client import DoorClient
from fourgates.audit.tables import REPORTS
from fourgates.cli import asking
from fourgates.cli.world import Base
from support.cli import invoke, refused
from support.tokens import keyring

Rows = Callable[[str], list[dict[str, Any]]]
COUNTS = {"asked": 4, "allowed": 3, "ran": 2, "decided": 3, "succeeded": 2, "failed": 0, "refused": 1, "in_doubt": 0, "open": 1}


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Rows], list[httpx.Request]]:
    """Plays the door; gives the requests that it got."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Base, "keyring", keyring())

    def play(rows: Rows) -> list[httpx.Request]:
        asked: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request)
            found = rows(request.content.decode())
            return httpx.Response(200, text="".join(json.dumps(row) + "\n" for row in found))

        client = functools.partial(_client, transport=httpx.MockTransport(answer))
        monkeypatch.setattr(asking, "DoorClient", client)
        return asked

    return play


_client = DoorClient


def test_success_names_its_denominators(door: Callable[[Rows], list[httpx.Request]]) -> None:
    """L4: a rate says what it is a share of, and how sure it is."""
    asked = door(lambda sql: [{"key": "refund_order", **COUNTS}])
    lines = [line.split() for line in invoke("report", "success").output.splitlines()]
    row = lines.index(["refund_order", "4", "2", "3", "2", "1", "0", "0", "50%", "67%", "100%"])
    assert lines[row + 1] == ["(15–85)", "(21–94)", "(34–100)"]
    assert asked[0].headers["x-clickhouse-key"] == keyring().door_token()
    found = json.loads(invoke("report", "success", "--by", "agent", "--json").output)
    assert (found[0]["of_asked"], found[0]["of_ran"]) == (0.5, 1.0)
    assert found[0]["of_decided_low"] == pytest.approx(0.2077, abs=1e-4)
    assert "agent AS key" in asked[1].content.decode()


def test_refusals_say_whose_doing_it_was(door: Callable[[Rows], list[httpx.Request]]) -> None:
    """L4: each failure attributed."""
    row = {"key": "", "code": "rule_violated", "attributed_to": "rule_or_policy", "tool": "get_order", "reason": "x", "calls": 3}
    door(lambda sql: [row])
    lines = invoke("report", "refusals").output.splitlines()
    assert [line.split() for line in lines if line.startswith("rule")] == [
        ["rule_violated", "rule_or_policy", "get_order", "x", "3"]
    ]
    door(lambda sql: [])
    assert invoke("report", "refusals").output == "Nothing yet.\n"


@pytest.mark.parametrize("name", [*REPORTS, "all"])
def test_each_report_takes_since_and_says_when_there_is_nothing(door: Callable[[Rows], list[httpx.Request]], name: str) -> None:
    """L4."""
    asked = door(lambda sql: [])
    result = invoke("report", name, "--since", "2026-11-30")
    assert result.exit_code == 0, result.output
    assert result.output.count("Nothing yet.") == (len(REPORTS) if name == "all" else 1)
    assert {request.url.params["param_since"] for request in asked} == {"1795996800000"}


def test_page_is_written_and_needs_nothing_else(door: Callable[[Rows], list[httpx.Request]], tmp_path: Path) -> None:
    """L4: one file, no script, nothing fetched from elsewhere, hostile names escaped."""
    door(lambda sql: [{"key": "<script>alert(1)</script>", **COUNTS}] if "countIf(cleared)" in sql else [])
    result = invoke("report", "all", "--html", "page.html")
    assert result.output == "wrote page.html\n"
    page = (tmp_path / "page.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search(r"<script|<link|<img|src=|url\(|@import|https?://", page)
    assert all(f'id="{name}"' in page for name in REPORTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("report", "success", "--since", "yesterday"), ("--since", "'yesterday' is no time", "24h")),
        (("report", "success", "--by", "colour"), ("'--by'", "'colour'", "'tool'", "report success -h` shows how")),
        (("report", "profits"), ("No such command 'profits'",)),
        (("explain",), ("Missing argument 'CALL_ID'",)),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_in_one_sentence(
    door: Callable[[Rows], list[httpx.Request]], arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """L4."""
    door(lambda sql: [])
    refused(invoke(*arguments), *words)


def test_integrity_check_exits_one_where_a_row_is_found(door: Callable[[Rows], list[httpx.Request]]) -> None:
    """L6: and shows it."""
    door(lambda sql: [])
    clean = invoke("audit", "check", "--without-log")
    assert clean.exit_code == 0
    assert "FOUND" not in clean.output
    door(lambda sql: [{"call_id": "c1", "why": "never cleared"}] if "never cleared" in sql else [])
    result = invoke("audit", "check", "--younger-than", "0", "--without-log")
    assert result.exit_code == 1
    assert "FOUND ran_without_approval: 1 rows" in result.output
    assert "never cleared" in result.output


def test_call_that_the_audit_does_not_know_or_cannot_tell_apart_is_said(door: Callable[[Rows], list[httpx.Request]]) -> None:
    """L5: the beginning of an id is enough where it names one call."""
    door(lambda sql: [])
    unknown = invoke("explain", "abc")
    assert (unknown.exit_code, unknown.stderr) == (1, "The audit knows no call 'abc'.\n")
    door(lambda sql: [{"call_id": "abc1"}, {"call_id": "abc2"}])
    several = invoke("explain", "abc")
    assert (several.exit_code, several.stderr) == (1, "Several calls begin with 'abc'; give more of the id.\n")


def test_doors_refusal_is_told_as_one_sentence(
    door: Callable[[Rows], list[httpx.Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """L4: what the engine says."""
    answer = httpx.Response(403, text="Code: 164. DB::Exception: only reading is allowed here\n")
    client = functools.partial(_client, transport=httpx.MockTransport(lambda request: answer))
    monkeypatch.setattr(asking, "DoorClient", client)
    door(lambda sql: [])
    monkeypatch.setattr(asking, "DoorClient", client)
    refused(invoke("query", "DROP TABLE fourgates.events"), "only reading is allowed")
