"""The API's document describes what the API does: every answer of every endpoint is checked against it."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema_rs
import pytest

from fourgates.approval.service import openapi
from fourgates.runtime.memory_worker import MemoryWorker
from support.approver import Browser, approver, token
from support.waiting import Waiting

H = "h" * 32


@pytest.fixture
def document() -> dict[str, Any]:
    return openapi.document()


def check(document: dict[str, Any], method: str, path: str, answer: httpx.Response) -> None:
    """The answer is of a status and a shape that the document names."""
    described = document["paths"][path][method]["responses"]
    assert str(answer.status_code) in described, (path, answer.status_code)
    schema = described[str(answer.status_code)]["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(answer.json())


async def test_document_is_public_and_names_every_endpoint(client: httpx.AsyncClient, document: dict[str, Any]) -> None:
    """A8"""
    answer = await client.get("/api/openapi.json")
    assert answer.json() == document and answer.json()["openapi"] == "3.1.0"
    app = client._transport.app  # type: ignore[attr-defined]  # the routes as they are
    routes = {route.path for route in app.routes if route.path.startswith("/api/")} - {"/api/openapi.json"}
    assert routes == set(document["paths"])
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})


@pytest.mark.usefixtures("asked")
async def test_every_answer_is_as_the_document_says(
    world: Waiting, worker: MemoryWorker, client: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    """A8"""
    ben, agent = Browser(client, token(world, "ben")), Browser(client, token(world, "ben", agent="bot"))
    one, decision = "/api/holds/{hold_id}", "/api/holds/{hold_id}/decision"
    for path in ("/api/me", "/api/holds", "/api/history"):
        check(document, "get", path, await ben.get(path))
        check(document, "get", path, await client.get(path))
    check(document, "get", "/api/history", await ben.get("/api/history?state=maybe"))
    check(document, "get", one, await ben.get(f"/api/holds/{H}"))
    check(document, "get", one, await agent.get(f"/api/holds/{H}"))
    check(document, "get", one, await ben.get("/api/holds/none"))
    check(document, "post", decision, await ben.post(H, "{}"))
    check(document, "post", decision, await ben.decide(H, "approve", shown_digest="0" * 64))
    check(document, "post", decision, await ben.decide(H, "approve", reason="fine"))
    check(document, "post", decision, await ben.decide(H, "deny"))
    await world.settle(worker)
    check(document, "get", one, await ben.get(f"/api/holds/{H}"))
    check(document, "get", "/api/history", await ben.get("/api/history?state=approved&q=refund"))


@pytest.mark.usefixtures("asked")
async def test_program_is_told_what_sign_in_a_decision_needs(world: Waiting, document: dict[str, Any]) -> None:
    """A7: RFC 9470."""
    async with approver(world) as client:
        old = token(world, "ben")
        await world.clock.advance(950)
        ben = Browser(client, old)
        assert (await ben.get("/api/me")).json()["may_decide"] is False
        answer = await ben.decide(H, "approve")
    check(document, "post", "/api/holds/{hold_id}/decision", answer)
    assert (answer.status_code, answer.json()["outcome"]) == (403, "sign_in_again")
    assert answer.headers["www-authenticate"].endswith('error="insufficient_user_authentication", max_age=900')
