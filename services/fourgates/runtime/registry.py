"""Schema ids: from the local folder, or from a Confluent-compatible registry over HTTP. Both hold FULL_TRANSITIVE."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import avro.schema
import httpx
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from fourgates.contract.avro import CLASSES, fingerprint_id
from fourgates.contract.avro_schema import file_name, schema_of
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.topology import BY_NAME

COMPATIBILITY = "FULL_TRANSITIVE"
Schema = dict[str, Any]


class LocalRegistry:
    """The schemas of a folder: `NN-topic.avsc` is today's, `history/<topic>/*.avsc` are the earlier ones.

    Ids are the schemas' fingerprints, so that processes which share nothing agree. Raises ConfigurationError where a file is
    missing, is not the record class's schema, or where any two versions cannot read each other.
    """

    def __init__(self, folder: Path) -> None:
        self._ids: dict[str, int] = {}
        self._schemas: dict[tuple[str, int], Schema] = {}
        for topic, cls in CLASSES.items():
            path = folder / file_name(BY_NAME[topic])
            current = _read(path)
            if current != schema_of(cls):
                raise ConfigurationError(f"schema file {path} differs from the record class {cls.__name__}; run `make schemas`")
            versions = [current, *map(_read, sorted((folder / "history" / topic).glob("*.avsc")))]
            require_compatible(topic, versions)
            self._ids[topic] = fingerprint_id(current)
            for schema in reversed(versions):  # the current one last: versions that differ in docs alone share an id
                self._schemas[topic, fingerprint_id(schema)] = schema

    def id_of(self, topic: str) -> int:
        return self._ids[topic]

    def schema(self, topic: str, schema_id: int) -> Schema | None:
        return self._schemas.get((topic, schema_id))


def _read(path: Path) -> Schema:
    try:
        schema: Schema = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"schema file {path} is missing; there must be one .avsc for each topic") from None
    except (ValueError, OSError) as fault:
        raise ConfigurationError(f"schema file {path} cannot be read as JSON ({type(fault).__name__})") from fault
    return schema


def require_compatible(topic: str, versions: Sequence[Mapping[str, Any]]) -> None:
    """ConfigurationError where any version of `topic`'s schema cannot read what any other one wrote (FULL_TRANSITIVE)."""
    if len(versions) < 2:
        return
    parsed = [avro.schema.parse(json.dumps(version)) for version in versions]
    for reader, writer in itertools.permutations(parsed, 2):
        checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]  # avro has no types
        result = checker.get_compatibility(reader, writer)
        if result.compatibility is not SchemaCompatibilityType.compatible:
            where = "; ".join(sorted(result.locations)) or "/"
            raise ConfigurationError(
                f"two versions of the schema of {topic!r} are not {COMPATIBILITY}: {'; '.join(sorted(result.messages))} "
                f"(at {where}); a new field needs a default, and no field may change its type or go"
            )


class HttpRegistry:
    """A Confluent-compatible registry. Each topic is the subject `<topic>-value`; this build's schema registers itself.

    An id counts for a topic only where the registry lists it under that topic's subject. Calls block (two seconds at most);
    every id is asked for once, so a running stage does not notice. Raises Transient while the registry is away, and
    ConfigurationError where it refuses the schema as incompatible.
    """

    FORGET_UNKNOWN_S = 60.0
    MOST_UNKNOWN = 1_000

    def __init__(self, url: str, client: httpx.Client | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url = url.rstrip("/")
        self._http = client or httpx.Client(timeout=2.0)
        self._monotonic = monotonic
        self._ids: dict[str, int] = {}
        self._schemas: dict[tuple[str, int], Schema] = {}
        self._unknown: dict[tuple[str, int], float] = {}

    def __enter__(self) -> HttpRegistry:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def id_of(self, topic: str) -> int:
        if topic not in self._ids:
            schema = schema_of(CLASSES[topic])
            self._ids[topic] = self._register(topic, schema)
            self._schemas[topic, self._ids[topic]] = schema
        return self._ids[topic]

    def schema(self, topic: str, schema_id: int) -> Schema | None:
        asked = (topic, schema_id)
        if asked in self._schemas:
            return self._schemas[asked]
        if self._monotonic() - self._unknown.get(asked, -self.FORGET_UNKNOWN_S) < self.FORGET_UNKNOWN_S:
            return None  # one who floods a topic with invented ids must not flood the registry
        schema = self._look_up(topic, schema_id)
        if schema is None:
            if len(self._unknown) >= self.MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[asked] = self._monotonic()
            return None
        return self._schemas.setdefault(asked, schema)

    def _register(self, topic: str, schema: Schema) -> int:
        subject = f"{topic}-value"
        body = {"schema": json.dumps(schema), "schemaType": "AVRO"}
        level_set = self._demand_compatibility(subject)
        answer = self._ask("POST", f"/subjects/{subject}/versions", body)
        if answer.status_code == httpx.codes.CONFLICT:
            raise ConfigurationError(
                f"the schema registry at {self._url} refuses the schema of {topic!r}: "
                f"it is not {COMPATIBILITY} with an earlier one"
            )
        if answer.is_error:
            raise ConfigurationError(
                f"the schema registry at {self._url} does not take the schema of {topic!r} (status {answer.status_code})"
            )
        if not level_set and not self._demand_compatibility(subject):
            raise ConfigurationError(f"the schema registry at {self._url} does not let {subject!r} be {COMPATIBILITY}")
        return int(answer.json()["id"])

    def _demand_compatibility(self, subject: str) -> bool:
        """False where the registry refuses; some know no level for a subject before its first version."""
        return self._ask("PUT", f"/config/{subject}", {"compatibility": COMPATIBILITY}).is_success

    def _look_up(self, topic: str, schema_id: int) -> Schema | None:
        listed = self._ask("GET", f"/schemas/ids/{schema_id}/versions")
        if listed.status_code == httpx.codes.NOT_FOUND:
            return None
        if listed.is_error:
            raise Transient(f"the schema registry answers {listed.status_code}")
        if f"{topic}-value" not in {version.get("subject") for version in listed.json()}:
            return None
        found = self._ask("GET", f"/schemas/ids/{schema_id}")
        if found.is_error:
            raise Transient(f"the schema registry answers {found.status_code}")
        schema = json.loads(found.json()["schema"])
        return schema if isinstance(schema, dict) else None

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> httpx.Response:
        try:
            answer = self._http.request(method, self._url + path, json=body)
        except httpx.HTTPError as fault:
            raise Transient(f"the schema registry at {self._url} cannot be reached ({type(fault).__name__})") from fault
        if answer.status_code >= 500:
            raise Transient(f"the schema registry at {self._url} answers {answer.status_code}")
        return answer
