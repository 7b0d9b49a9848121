"""Apache Kafka behind the ports: the only package that imports aiokafka."""

from fourgates.runtime.kafka.admin import KafkaAdmin, TopicState
from fourgates.runtime.kafka.batches import GroupBatches
from fourgates.runtime.kafka.bus import KafkaBus
from fourgates.runtime.kafka.following import KafkaFollowing
from fourgates.runtime.kafka.producing import KafkaPublisher, RawProducer

__all__ = ["GroupBatches", "KafkaAdmin", "KafkaBus", "KafkaFollowing", "KafkaPublisher", "RawProducer", "TopicState"]
