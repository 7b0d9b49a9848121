"""The topology as configuration of a broker, and what is refused at start."""

from __future__ import annotations

import dataclasses

import pytest

from fourgates.contract.topology import BY_NAME, CALLS_LEDGER, CALLS_REQUESTED, CONTROLS, FOREVER, TOPOLOGY, Topic
from fourgates.runtime.kafka import TopicState
from fourgates.runtime.topics import Replication, durability_faults, faults_of, topic_config


def as_made(topic: Topic, replication: Replication | None = None) -> TopicState:
    made = replication or Replication()
    return TopicState(topic.name, topic.partitions, made.copies, topic_config(topic, made))


@pytest.mark.parametrize("topic", TOPOLOGY, ids=lambda topic: topic.name)
def test_a_topic_as_we_make_it_is_accepted(topic: Topic) -> None:
    assert faults_of(topic, as_made(topic)) == []


@pytest.mark.parametrize("topic", TOPOLOGY, ids=lambda topic: topic.name)
def test_time_is_the_brokers_on_every_topic_and_no_unclean_leader_is_elected(topic: Topic) -> None:
    config = topic_config(topic, Replication(3, 2))
    assert config["message.timestamp.type"] == "LogAppendTime"
    assert config["unclean.leader.election.enable"] == "false"
    assert config["min.insync.replicas"] == "2"


def test_event_logs_are_deleted_by_time_and_never_compacted() -> None:
    for topic in TOPOLOGY:
        config = topic_config(topic, Replication())
        if topic.kept is None:
            assert config["cleanup.policy"] == "compact"
        else:
            assert config["cleanup.policy"] == "delete"
            retention_ms = topic.kept.total_seconds() * 1000
            assert int(config["retention.ms"]) == (-1 if topic.kept == FOREVER else retention_ms)
            assert int(config["segment.ms"]) <= retention_ms / 4


def test_controls_are_kept_for_ever_and_whole() -> None:
    """P6: in a compacted log a record that proves nothing would take away the one that switched a tool off."""
    config = topic_config(BY_NAME[CONTROLS], Replication())
    assert (config["cleanup.policy"], config["retention.ms"]) == ("delete", "-1")
    state = as_made(BY_NAME[CONTROLS])
    (fault,) = faults_of(BY_NAME[CONTROLS], dataclasses.replace(state, config={**state.config, "retention.ms": "86400000"}))
    assert "for ever" in fault


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"partitions": 6}, "6 partitions, 12 are needed"),
        ({"cleanup.policy": "compact"}, "cleanup.policy=compact, delete is needed"),
        ({"cleanup.policy": "compact,delete"}, "cleanup.policy=compact,delete, delete is needed"),
        ({"message.timestamp.type": "CreateTime"}, "CreateTime, LogAppendTime is needed"),
        ({"retention.ms": "1000"}, "keeps records for 1000 ms"),
    ],
)
def test_a_topic_that_would_break_the_pipeline_is_named(change: dict[str, object], said: str) -> None:
    state = as_made(BY_NAME[CALLS_LEDGER])
    if "partitions" in change:
        state = dataclasses.replace(state, partitions=6)
    else:
        state = dataclasses.replace(state, config={**state.config, **change})  # type: ignore[dict-item]
    (fault,) = faults_of(BY_NAME[CALLS_LEDGER], state)
    assert said in fault
    assert fault.startswith(CALLS_LEDGER)


def test_a_topic_that_keeps_records_for_ever_is_accepted() -> None:
    state = as_made(BY_NAME[CALLS_REQUESTED])
    assert faults_of(BY_NAME[CALLS_REQUESTED], dataclasses.replace(state, config={**state.config, "retention.ms": "-1"})) == []


def test_three_copies_two_in_sync_and_no_unclean_election_are_durable() -> None:
    assert durability_faults(as_made(BY_NAME[CALLS_LEDGER], Replication(3, 2))) == []


@pytest.mark.parametrize(
    ("replication", "config", "said"),
    [
        (Replication(2, 2), {}, "2 copies"),
        (Replication(3, 1), {}, "min.insync.replicas"),
        (Replication(3, 2), {"unclean.leader.election.enable": "true"}, "unclean"),
    ],
)
def test_anything_less_could_lose_a_claim(replication: Replication, config: dict[str, str], said: str) -> None:
    state = as_made(BY_NAME[CALLS_LEDGER], replication)
    (fault,) = durability_faults(dataclasses.replace(state, config={**state.config, **config}))
    assert said in fault
