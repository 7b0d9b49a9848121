"""How a stage meets the world: Kafka, Faust, the in-process bus, registry, keys, blobs, supervisor."""
