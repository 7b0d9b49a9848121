"""The public schemas in `schemas/` and the record classes are one contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse

from fourgates.contract.avro_schema import file_name, text_of
from fourgates.contract.events import RECORDS, Record
from fourgates.contract.topology import BY_RECORD, TOPOLOGY

SCHEMAS = Path(__file__).parents[2] / "schemas"
by_class = pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)


@by_class
def test_schema_file_equals_the_record_class(cls: type[Record]) -> None:
    file = SCHEMAS / file_name(BY_RECORD[cls.__name__])
    assert file.read_text(encoding="utf-8") == text_of(cls), "run `make schemas` and look at what changed"


def test_one_schema_file_for_each_topic_and_no_other() -> None:
    assert sorted(path.name for path in SCHEMAS.iterdir()) == sorted(file_name(topic) for topic in TOPOLOGY)
    assert {cls.__name__ for cls in RECORDS} == {topic.record for topic in TOPOLOGY}


@by_class
def test_every_field_says_what_it_is(cls: type[Record]) -> None:
    def undocumented(schema: object, where: str) -> list[str]:
        if isinstance(schema, list):
            return [name for item in schema for name in undocumented(item, where)]
        if not isinstance(schema, dict):
            return []
        if schema["type"] == "array":
            return undocumented(schema["items"], where)
        fields = schema.get("fields", [])
        here = [f"{where}.{field['name']}" for field in fields if not field.get("doc")]
        return here + [name for field in fields for name in undocumented(field["type"], f"{where}.{field['name']}")]

    assert undocumented(json.loads(text_of(cls)), cls.__name__) == []


@by_class
def test_independent_reader_accepts_the_schema(cls: type[Record]) -> None:
    schema = parse(text_of(cls))
    compatible = ReaderWriterCompatibilityChecker().get_compatibility(schema, schema)
    assert compatible.compatibility is SchemaCompatibilityType.compatible
