"""What a process tells over HTTP."""

from __future__ import annotations

import socket

import httpx
import pytest

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.health import Health, HealthServer
from fourgates.runtime.metrics import Metrics


async def test_ready_and_well_are_told_apart() -> None:
    """S3"""
    health, metrics = Health(), Metrics()
    metrics.published.labels("calls.ledger").inc(3)
    server = HealthServer(health, metrics, "127.0.0.1", 0)
    await server.start()
    async with httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/healthz")).status_code == 200
        assert (await client.get("/readyz")).text == "starting\n"
        health.not_ready = ""
        assert (await client.get("/readyz")).status_code == 200
        health.ill = "a reading has ended"
        for path in ("/healthz", "/readyz"):
            answer = await client.get(path)
            assert (answer.status_code, answer.text) == (503, "a reading has ended\n")
        assert 'fourgates_published_total{topic="calls.ledger"} 3.0' in (await client.get("/metrics")).text
    await server.close()


async def test_a_taken_address_is_said_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}"):
            await HealthServer(Health(), Metrics(), "127.0.0.1", port).start()
