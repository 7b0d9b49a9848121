"""Topics as the broker has them: what exists, how it is configured, making new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.runtime.kafka.client import REQUEST_SECONDS, bounded


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic as it is."""

    name: str
    partitions: int
    replication: int
    """The smallest number of copies of any partition."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The effective configuration, the broker's defaults included."""


class KafkaAdmin:
    """A connection for operators' requests; use it as a context manager."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    async def __aenter__(self) -> KafkaAdmin:
        client = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap, request_timeout_ms=int(REQUEST_SECONDS * 1000))
        try:
            await bounded(client.start())
        except BaseException:
            await client.close()
            raise
        self._client = client
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        await self._client.close()

    async def topics(self, names: Iterable[str]) -> dict[str, TopicState]:
        """Those of the named topics that exist."""
        existing = sorted(set(await bounded(self._client.list_topics())) & set(names))
        if not existing:
            return {}
        described = await bounded(self._client.describe_topics(existing))
        configs = await self._configs(existing)
        return {
            topic["topic"]: TopicState(
                name=topic["topic"],
                partitions=len(topic["partitions"]),
                replication=min((len(p["replicas"]) for p in topic["partitions"]), default=0),
                config=configs[topic["topic"]],
            )
            for topic in described
            if topic["topic"] in configs
        }

    async def create(self, name: str, partitions: int, replication: int, config: Mapping[str, str]) -> None:
        """Makes a topic; nothing happens where it exists. Raises ConfigurationError with the broker's reason."""
        response = await bounded(
            self._client.create_topics([NewTopic(name, partitions, replication, topic_configs=dict(config))])
        )
        for topic, code, *words in response.topic_errors:
            kind = for_code(code)
            if code == 0 or kind is TopicAlreadyExistsError:
                continue
            if getattr(kind, "retriable", False):
                raise Transient(f"Kafka: {kind.__name__}")
            raise ConfigurationError(f"Kafka does not create the topic {topic}: {(words or [None])[0] or kind.__name__}")

    async def delete(self, names: Iterable[str]) -> None:
        """Removes topics with all their records and everybody's offsets on them."""
        response = await bounded(self._client.delete_topics(list(names)))
        for topic, code in response.topic_error_codes:
            if code != 0:
                raise ConfigurationError(f"Kafka does not delete the topic {topic}: {for_code(code).__name__}")

    async def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        found: dict[str, dict[str, str]] = {}
        for response in await bounded(self._client.describe_configs(resources)):
            for code, _, _, name, entries in response.resources:
                if for_code(code) is UnknownTopicOrPartitionError:  # removed since it was listed
                    continue
                if code != 0:
                    raise Transient(f"Kafka: {for_code(code).__name__}")
                found[name] = {entry[0]: entry[1] or "" for entry in entries}
        return found
