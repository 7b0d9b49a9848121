"""What every schema registry must do, and what is special about each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fourgates.contract.avro import AvroCodec, SchemaRegistry
from fourgates.contract.avro_schema import schema_of
from fourgates.contract.errors import ConfigurationError, Poison, Transient
from fourgates.contract.events import CallRequested
from fourgates.contract.topology import CALLS_REQUESTED, EFFECTS
from fourgates.runtime.data import data_folder
from fourgates.runtime.registry import HttpRegistry, LocalRegistry
from support.samples import REQUESTED
from support.schema_registry import Registry, serving

SUBJECT = f"{CALLS_REQUESTED}-value"
WithHistory = Callable[[dict[str, Any]], SchemaRegistry]


def earlier() -> dict[str, Any]:
    """A version of CallRequested from before `intent` existed."""
    schema = schema_of(CallRequested)
    return {**schema, "fields": [field for field in schema["fields"] if field["name"] != "intent"]}


def incompatible() -> dict[str, Any]:
    schema = schema_of(CallRequested)
    return {**schema, "fields": [{**f, "type": "long"} if f["name"] == "tool" else f for f in schema["fields"]]}


@pytest.fixture
def served() -> Iterator[Registry]:
    with serving(Registry()) as registry:
        yield registry


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    return Path(shutil.copytree(data_folder("schemas"), tmp_path / "schemas"))


@pytest.fixture(params=["local", "http"])
def with_history(request: pytest.FixtureRequest, schemas: Path, served: Registry) -> WithHistory:
    """A registry of either kind that already knows one version of CallRequested."""

    def local(schema: dict[str, Any]) -> SchemaRegistry:
        folder = schemas / "history" / CALLS_REQUESTED
        folder.mkdir(parents=True)
        (folder / "1.avsc").write_text(json.dumps(schema))
        return LocalRegistry(schemas)

    def http(schema: dict[str, Any]) -> SchemaRegistry:
        served.levels[SUBJECT] = "FULL_TRANSITIVE"
        served.register(SUBJECT, json.dumps(schema))
        registry = HttpRegistry(served.url)
        registry.id_of(CALLS_REQUESTED)
        return registry

    return local if request.param == "local" else http


def old_id(registry: SchemaRegistry) -> int:
    """The id of the earlier version, wherever it is kept."""
    if isinstance(registry, HttpRegistry):
        return 1
    return next(i for (topic, i) in registry._schemas if topic == CALLS_REQUESTED and i != registry.id_of(topic))  # type: ignore[attr-defined]


def test_own_schema_is_found_under_its_id(with_history: WithHistory) -> None:
    registry = with_history(earlier())
    assert registry.schema(CALLS_REQUESTED, registry.id_of(CALLS_REQUESTED)) == schema_of(CallRequested)


def test_record_of_an_earlier_schema_is_read(with_history: WithHistory) -> None:
    registry = with_history(earlier())
    assert registry.schema(CALLS_REQUESTED, old_id(registry)) == earlier()


def test_unknown_id_is_nobodys_schema(with_history: WithHistory) -> None:
    assert with_history(earlier()).schema(CALLS_REQUESTED, 0x7FFFFFFF) is None


def test_id_counts_for_its_own_topic_only(with_history: WithHistory) -> None:
    """P6: a schema of another topic must not be taken for this one's."""
    registry = with_history(earlier())
    assert registry.schema(EFFECTS, registry.id_of(CALLS_REQUESTED)) is None


def test_incompatible_version_refuses_to_start(with_history: WithHistory) -> None:
    with pytest.raises(ConfigurationError, match=r"calls\.requested.* FULL_TRANSITIVE"):
        with_history(incompatible())


def test_codec_encodes_and_decodes_with_it(with_history: WithHistory) -> None:
    codec = AvroCodec(with_history(earlier()))
    topic, value = codec.encode(REQUESTED)
    assert codec.decode(topic, value) == REQUESTED
    with pytest.raises(Poison, match="unknown_schema"):
        codec.decode(topic, value[:1] + b"\x7f\xff\xff\xff" + value[5:])


def test_local_folder_without_a_file_refuses_to_start(schemas: Path) -> None:
    (schemas / "06-effects.avsc").unlink()
    with pytest.raises(ConfigurationError, match=r"06-effects\.avsc is missing"):
        LocalRegistry(schemas)


@pytest.mark.parametrize("text", ["{}", "not json", "[1]", "\xff"])
def test_local_file_that_differs_from_the_record_class_refuses_to_start(schemas: Path, text: str) -> None:
    (schemas / "06-effects.avsc").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match=r"06-effects\.avsc"):
        LocalRegistry(schemas)


def test_local_ids_need_no_coordination(schemas: Path) -> None:
    one, two = LocalRegistry(schemas), LocalRegistry(data_folder("schemas"))
    assert one.id_of(EFFECTS) == two.id_of(EFFECTS) != one.id_of(CALLS_REQUESTED)


@pytest.mark.parametrize("level_needs_subject", [False, True])
def test_http_subject_is_full_transitive(level_needs_subject: bool) -> None:
    with serving(Registry(level_needs_subject=level_needs_subject)) as served:
        HttpRegistry(served.url).id_of(CALLS_REQUESTED)
        assert served.levels == {SUBJECT: "FULL_TRANSITIVE"}
        assert list(served.subjects) == [SUBJECT]


def test_http_two_processes_get_one_id(served: Registry) -> None:
    assert HttpRegistry(served.url).id_of(EFFECTS) == HttpRegistry(served.url + "/").id_of(EFFECTS)


def test_http_unknown_id_is_asked_for_once_a_minute(served: Registry) -> None:
    """A flood of records with an invented id is not a flood of questions to the registry."""
    now = 0.0
    registry = HttpRegistry(served.url, monotonic=lambda: now)
    for _ in range(3):
        assert registry.schema(EFFECTS, 99) is None
    assert len(served.requests) == 1
    served.ids += ["{}"] * 98
    served.register(f"{EFFECTS}-value", '{"type": "record", "name": "Later", "fields": []}')
    now = 61.0
    assert registry.schema(EFFECTS, 99) == {"type": "record", "name": "Later", "fields": []}


def test_http_registry_that_is_away_is_transient_never_poison(served: Registry) -> None:
    registry = HttpRegistry(served.url)
    registry.id_of(EFFECTS)
    served.status = 503
    with pytest.raises(Transient):
        registry.schema(EFFECTS, 99)
    assert registry.schema(EFFECTS, registry.id_of(EFFECTS)) is not None
    with pytest.raises(Transient, match="cannot be reached"):
        HttpRegistry("http://127.0.0.1:1").id_of(EFFECTS)


def test_http_registry_that_refuses_is_a_configuration_error(served: Registry) -> None:
    served.status = 401
    with pytest.raises(ConfigurationError, match="401"):
        HttpRegistry(served.url).id_of(EFFECTS)
