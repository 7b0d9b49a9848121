"""The documented exports run as they stand, and every row of them has the fields and values that their schemas ask for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.auditing import Engine
from support.stories import Tape, good_stories

pytestmark = pytest.mark.engine
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "exports.md"
SPANS, ACTIVITIES = (block.strip().rstrip(";") for block in re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text("utf-8"), re.S))
GEN_AI = frozenset({
    "gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id", "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result", "gen_ai.agent.name", "gen_ai.conversation.id",
})  # fmt: skip
"""Attributes of an execute_tool span that we fill, as the conventions spell them."""
REQUIRED_OF_6003 = frozenset({
    "activity_id", "actor", "api", "category_uid", "class_uid", "metadata", "severity_id", "src_endpoint", "time", "type_uid",
})  # fmt: skip


def exported(engine: Engine, sql: str) -> list[dict[str, Any]]:
    tape = Tape()
    good_stories(tape)
    engine.take(tape.received)
    return engine.ask(sql)


def test_each_decided_call_is_a_span_of_the_genai_conventions(engine: Engine) -> None:
    """L4, L1: OpenTelemetry's names; ids and times as OTLP/JSON writes them."""
    spans = exported(engine, SPANS)
    assert len(spans) == 5
    for span in spans:
        attributes = span["attributes"]
        assert re.fullmatch(r"[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch(r"[0-9a-f]{16}", span["spanId"])
        assert span["name"] == f"execute_tool {attributes['gen_ai.tool.name']}"
        assert 0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert len(span["startTimeUnixNano"]) == 19
        assert attributes["gen_ai.operation.name"] == "execute_tool"
        assert {name for name in attributes if name.startswith("gen_ai.")} <= GEN_AI
        assert ("error.type" in attributes) == (span["status"] == "STATUS_CODE_ERROR")
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert {span["attributes"].get("error.type", "") for span in spans} == {"", "approval_denied", "invalid_arguments"}
    [approved] = [span for span in spans if span["attributes"].get("fourgates.approvers")]
    assert approved["attributes"]["gen_ai.tool.call.result"] == "refunded"


def test_each_call_is_an_api_activity_of_ocsf(engine: Engine) -> None:
    """L4, L1: class 6003 with its required attributes, numbers and captions in step."""
    events = exported(engine, ACTIVITIES)
    assert len(events) == 6
    captions = {1: "Create", 2: "Read", 3: "Update", 4: "Delete", 99: "Other"}
    severities = {1: "Informational", 2: "Low", 3: "Medium", 4: "High"}
    statuses = {0: "Unknown", 1: "Success", 2: "Failure", 99: "Other"}
    for event in events:
        assert event.keys() >= REQUIRED_OF_6003
        assert (event["category_uid"], event["class_uid"]) == (6, 6003)
        assert event["type_uid"] == 6003 * 100 + event["activity_id"]
        assert event["activity_name"] == captions[event["activity_id"]]
        assert event["severity"] == severities[event["severity_id"]]
        assert event["status"] == statuses[event["status_id"]]
        assert event["api"]["operation"]
        assert event["actor"]["user"]["uid"]
        assert event["metadata"]["version"] == "1.3.0"
        assert event["metadata"]["product"]["name"] == "Fourgates"
        assert len(str(event["time"])) == 13
    assert [event["status_id"] for event in events].count(1) == 3
    assert [event["severity_id"] for event in events if event["status_code"] == "in_doubt"] == [4]
