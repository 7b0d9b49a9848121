"""Ways in for agents outside the Kafka trust domain, on the SDK."""
