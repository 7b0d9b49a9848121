"""The OpenAPI document of the API, made of the models that the answers are made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .answers import Changed, Ended, Holds, HoldWhole, Me, Told
from .deciding import Decision
from .listing import Search, Turning

_REFUSED = {
    401: "no token, or one that does not count",
    403: "not yours to see or decide; an agent's or a service's token; `sign_in_again`: the sign-in is too old to decide with",
    404: "nobody is asked about such a call",
    409: "the decision did not count: `message` says why, and who was quicker",
    410: "the time to decide is over",
    422: "malformed",
    503: "not confirmed by the log yet, or the issuer's keys are being fetched",
}


def document() -> dict[str, Any]:
    """OpenAPI 3.1 (JSON Schema 2020-12)."""
    models: list[type[BaseModel]] = [HoldWhole, Holds, Ended, Told, Me, Changed, Decision]
    _, schemas = models_json_schema([(model, "serialization") for model in models], ref_template="#/components/schemas/{model}")
    hold_id = {"name": "hold_id", "in": "path", "required": True, "schema": {"type": "string"}}
    body = {"required": True, "content": _json(Decision)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fourgates approvals", "version": "1",
            "description": "What waits for people, and what they say. A decision counts when the log's fold says so.",
        },
        "security": [{"approver": []}],
        "paths": {
            "/api/me": {"get": _does("me", "Who is asking", Me)},
            "/api/holds": {
                "get": _does("holds", "What waits, the most pressing first", Holds, 422) | {"parameters": _parameters(Turning)},
            },
            "/api/holds/{hold_id}": {
                "parameters": [hold_id], "get": _does("hold", "One hold, with everything that is shown", HoldWhole, 403, 404),
            },
            "/api/holds/{hold_id}/decision": {
                "parameters": [hold_id],
                "post": _does("decide", "Says yes or no to exactly what was shown", Told, 403, 404, 409, 410, 422)
                | {"requestBody": body},
            },
            "/api/history": {
                "get": _does("history", "What was decided, newest first", Ended, 422) | {"parameters": _parameters(Search)},
            },
            "/api/events": {"get": {
                "operationId": "events", "summary": "Server-sent events: one for each change of a hold that this person may see",
                "responses": {
                    "200": {"description": "event `hold`, its data a Changed", "content": {"text/event-stream": {}}},
                    **_refusals(401),
                },
            }},
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"approver": {
                "type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                "description": "audience fourgates-approvals, of a person; to decide its auth_time must be recent",
            }},
        },
    }  # fmt: skip


def _does(name: str, summary: str, model: type[BaseModel], *refusals: int) -> dict[str, Any]:
    responses = {"200": {"description": model.__doc__, "content": _json(model)}, **_refusals(401, *refusals, 503)}
    return {"operationId": name, "summary": summary, "responses": responses}


def _refusals(*statuses: int) -> dict[str, Any]:
    return {str(status): {"description": _REFUSED[status], "content": _json(Told)} for status in statuses}


def _json(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}


def _parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    properties = model.model_json_schema()["properties"].items()
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in properties]
