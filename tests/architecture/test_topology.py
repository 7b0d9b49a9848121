"""`contract/topology.py` is the one table; README, compose file and seals say the same."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import yaml

from fourgates.contract.dead import REPLAYED
from fourgates.contract.events import ApprovalKind, Control, ControlKind, DeadRecord, LedgerKind, Record
from fourgates.contract.seals import writers_of
from fourgates.contract.topology import BY_NAME, BY_RECORD, CALL_KEYED, CALL_PARTITIONS, TOPOLOGY, Actor, topology_markdown
from support.samples import SEALED

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
PROCESSES = ("validator", "authorizer", "waiter", "approver", "executor", "sanitizer", "audit")
"""Actors that are a process of their own."""


def table_under(heading: str, text: str) -> list[tuple[str, ...]]:
    """The rows of the first Markdown table under `heading`, its head first, without the dashes."""
    section = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|(.+)\|\s*$", section, flags=re.MULTILINE)
    rows = [tuple(cell.strip().strip("`") for cell in line.split("|")) for line in lines]
    return [row for row in rows if not all(re.fullmatch(":?-+:?", cell) for cell in row)]


def test_readme_has_the_topology_table() -> None:
    """S3"""
    wanted = table_under("## Topology", "\n## Topology\n" + topology_markdown())
    assert table_under("## Topology", "\n" + (ROOT / "README.md").read_text(encoding="utf-8")) == wanted


def test_seals_accept_the_writers_of_the_topology_and_no_other() -> None:
    """P6"""
    for topic in TOPOLOGY:
        if topic.name == "calls.requested":
            continue  # sealed by a run key that only the validator reads
        sample = next(record for _, record in SEALED if BY_RECORD[type(record).__name__] is topic)
        writers = frozenset().union(*(writers_of(topic.name, record) for record in kinds_of(sample)))
        expected = set(topic.written_by)
        if "worker" in expected:
            expected = expected - {"worker"} | set(PROCESSES) - {"approver"}
        assert writers == expected, topic.name


def kinds_of(sample: Record) -> list[Record]:
    """The record once for each kind on which its writers depend."""
    if isinstance(sample, Control):
        return [sample, replace(sample, kind=ControlKind.STOP, subject="run:acme/1")]
    if isinstance(sample, DeadRecord):
        return [sample, replace(sample, reason=REPLAYED)]
    kinds = {"LedgerEntry": LedgerKind, "ApprovalEvent": ApprovalKind}.get(type(sample).__name__)
    return [replace(sample, kind=kind) for kind in kinds] if kinds else [sample]  # type: ignore[call-arg]


def test_call_keyed_topics_share_one_partition_count() -> None:
    assert {BY_NAME[name].partitions for name in CALL_KEYED} == {CALL_PARTITIONS}
    assert {topic.name for topic in TOPOLOGY if topic.key == "call_id"} == set(CALL_KEYED)


def test_only_state_topics_are_compacted() -> None:
    assert {topic.name for topic in TOPOLOGY if topic.compacted} == {"audit.watermarks"}


def test_audit_reads_every_topic_but_its_own_watermarks() -> None:
    """L2"""
    assert {topic.name for topic in TOPOLOGY if "audit" not in topic.read_by} == {"audit.watermarks"}


def test_every_topic_is_written_and_read_by_somebody_known() -> None:
    for topic in TOPOLOGY:
        assert topic.written_by
        assert topic.read_by
        assert set(topic.written_by) | set(topic.read_by) <= set(get_args(Actor))


def test_compose_runs_every_stage_and_names_no_other_topic() -> None:
    """S4"""
    text = COMPOSE.read_text(encoding="utf-8")
    services = yaml.safe_load(text)["services"]
    commands = [service.get("command", "") for service in services.values()]
    words = [command.split() if isinstance(command, str) else [str(word) for word in command] for command in commands]
    runs = {command[command.index("run") + 1] for command in words if "run" in command[:-1]}
    assert runs == set(PROCESSES)
    assert set(re.findall(r"\b(?:calls|audit|records)\.[a-z]+\b", text)) <= set(BY_NAME)
