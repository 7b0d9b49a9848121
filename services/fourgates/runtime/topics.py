"""The topology on a real broker: waiting for it, making the topics, and refusing to start on wrong ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.topology import FOREVER, TOPOLOGY, Topic
from fourgates.runtime.kafka import KafkaAdmin, TopicState

_ATTEMPT_SECONDS = 5.0
_BETWEEN_SECONDS = 0.5
_VISIBLE_SECONDS = 30.0
_LONGEST_SEGMENT = timedelta(days=1)
DURABLE_REPLICATION, DURABLE_IN_SYNC = 3, 2


@dataclass(frozen=True, slots=True)
class Replication:
    """How many copies each topic has, and how many must have a record before it counts as written."""

    copies: int = 1
    in_sync: int = 1


def topic_config(topic: Topic, replication: Replication) -> dict[str, str]:
    """The configuration with which a topic is made."""
    config = {
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": str(replication.in_sync),
        "unclean.leader.election.enable": "false",
    }
    if topic.kept is None:
        return {**config, "cleanup.policy": "compact"}
    # Retention removes whole segments: with short ones a record does not outlive its time by much.
    segment = min(topic.kept / 4, _LONGEST_SEGMENT)
    return {**config, "cleanup.policy": "delete", "retention.ms": _retention(topic.kept), "segment.ms": _ms(segment)}


def faults_of(topic: Topic, state: TopicState) -> list[str]:
    """Why the pipeline must not run on this topic, one sentence each: what is there and what is needed."""
    faults = []
    if state.partitions != topic.partitions:
        faults.append(f"{topic.name} has {state.partitions} partitions, {topic.partitions} are needed (they are fixed for life)")
    wanted = topic_config(topic, Replication())
    faults += [
        f"{topic.name} has {name}={state.config.get(name, '')}, {wanted[name]} is needed"
        for name in ("cleanup.policy", "message.timestamp.type")
        if state.config.get(name) != wanted[name]
    ]
    kept_ms = int(state.config.get("retention.ms") or -1)
    if topic.kept is not None and 0 <= kept_ms < int(_ms(topic.kept)):
        needed = f"{_retention(topic.kept)} is needed ({topic.kept_words})"
        faults.append(f"{topic.name} keeps records for {kept_ms} ms, at least {needed}")
    return faults


def durability_faults(state: TopicState) -> list[str]:
    """What could lose an acknowledged record, one sentence each."""
    faults = []
    if state.replication < DURABLE_REPLICATION:
        faults.append(f"{state.name} has {state.replication} copies, at least {DURABLE_REPLICATION} are needed")
    if int(state.config.get("min.insync.replicas") or 1) < DURABLE_IN_SYNC:
        faults.append(f"{state.name} has min.insync.replicas below {DURABLE_IN_SYNC}")
    if state.config.get("unclean.leader.election.enable", "false") != "false":
        faults.append(f"{state.name} has unclean.leader.election.enable=true, false is needed")
    return faults


async def await_broker(bootstrap: str, *, seconds: float = 60.0, progress: Callable[[str], None] = lambda line: None) -> None:
    """Returns once a broker answers; tells `progress` while it waits. Transient after `seconds`: it may still come back."""
    until, told = time.monotonic() + seconds, -1
    while True:
        left = until - time.monotonic()
        try:
            async with asyncio.timeout(max(0.1, min(_ATTEMPT_SECONDS, left))), KafkaAdmin(bootstrap):
                return
        except (Transient, TimeoutError):
            left = until - time.monotonic()
        if left <= 0:
            raise Transient(
                f"No Kafka broker answers at {bootstrap} after {seconds:.0f} s; start one, or correct the broker's address."
            )
        if told != int(left) // 5:
            told = int(left) // 5
            progress(f"waiting for Kafka at {bootstrap} ({left:.0f} s left)")
        await asyncio.sleep(min(_BETWEEN_SECONDS, left))


async def create_topics(
    bootstrap: str, replication: Replication | None = None, topology: Sequence[Topic] = TOPOLOGY
) -> tuple[str, ...]:
    """Makes what is missing and checks what exists. Returns the names of the new ones. Raises ConfigurationError."""
    wanted = replication or Replication()
    async with KafkaAdmin(bootstrap) as admin:
        existing = await admin.topics(topic.name for topic in topology)
        _refuse([fault for topic in topology if topic.name in existing for fault in faults_of(topic, existing[topic.name])])
        missing = [topic for topic in topology if topic.name not in existing]
        for topic in missing:
            await admin.create(topic.name, topic.partitions, wanted.copies, topic_config(topic, wanted))
        await _visible(admin, [topic.name for topic in topology])
    return tuple(topic.name for topic in missing)


async def _visible(admin: KafkaAdmin, names: Sequence[str]) -> None:
    """A new topic exists for the controller a moment before the brokers know it."""
    until = time.monotonic() + _VISIBLE_SECONDS
    while missing := set(names) - set(await admin.topics(names)):
        if time.monotonic() > until:
            raise ConfigurationError(f"Kafka made topics that it does not show: {', '.join(sorted(missing))}.")
        await asyncio.sleep(_BETWEEN_SECONDS / 10)


async def check_topics(bootstrap: str, topology: Sequence[Topic] = TOPOLOGY) -> None:
    """Raises ConfigurationError where a topic is missing, or is not as the topology needs it."""
    async with KafkaAdmin(bootstrap) as admin:
        existing = await admin.topics(topic.name for topic in topology)
    missing = [topic.name for topic in topology if topic.name not in existing]
    if missing:
        raise ConfigurationError(f"Topics are missing: {', '.join(missing)}. `fourgates topics create` makes them.")
    _refuse([fault for topic in topology for fault in faults_of(topic, existing[topic.name])])


async def check_durability(bootstrap: str, environment: str, topology: Sequence[Topic] = TOPOLOGY) -> None:
    """Outside `development` raises ConfigurationError where an acknowledged claim could be lost.

    acks=all alone does not keep a claim: it counts the replicas that are in sync, and that may be one.
    """
    if environment == "development":
        return
    async with KafkaAdmin(bootstrap) as admin:
        existing = await admin.topics(topic.name for topic in topology)
    _refuse([fault for state in existing.values() for fault in durability_faults(state)])


def _refuse(faults: list[str]) -> None:
    if faults:
        raise ConfigurationError(f"The topics do not fit: {'; '.join(faults)}.")


def _retention(kept: timedelta) -> str:
    return "-1" if kept == FOREVER else _ms(kept)


def _ms(time: timedelta) -> str:
    return str(int(time.total_seconds() * 1000))
