"""The function documents of the Berkeley function calling leaderboard: each registers after the mapping below, or says why not.

    python tests/corpora/bfcl.py --data build/packages/.../bfcl_eval/data --json build/corpora/bfcl.json

Data of the same form: files `BFCL_*.json` of JSON lines, each with a list `function` of {name, description, parameters}. Without
--data the package `bfcl-eval` is fetched into build/packages, not installed.

The documents are written in words of three languages, not in JSON Schema. What they mean is said here and nowhere guessed:
- a type name becomes JSON Schema's (TYPES); `any`, an empty one and one that no table knows are refused;
- a dict that names no fields is refused: it takes whatever comes;
- `default: null` of another type means that leaving the argument out is fine, which `required` says already: it is dropped;
- a default or an enumerated value that is written as text (`"True"`, `"5"`) is read as the value that its text is;
- `optional` repeats `required` and is dropped; a dot in a function's name becomes `_`, as models' APIs want it.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, it stands outside of the tests' own path

from fourgates.catalog import Catalog, Tool
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Risk
from fourgates.gates.format import ArgumentCheck
from support.packages import NotFetched, installed

PACKAGE = ("bfcl-eval", "2026.3.23")
TYPES: dict[str, dict[str, Any]] = {
    "dict": {"type": "object"}, "string": {"type": "string"}, "String": {"type": "string"},
    "char": {"type": "string", "minLength": 1, "maxLength": 1}, "integer": {"type": "integer"}, "long": {"type": "integer"},
    "float": {"type": "number"}, "double": {"type": "number"}, "boolean": {"type": "boolean"}, "Boolean": {"type": "boolean"},
    "array": {"type": "array"}, "Array": {"type": "array"}, "ArrayList": {"type": "array"}, "tuple": {"type": "array"},
    "HashMap": {"type": "object"},
}  # fmt: skip
_OF_TYPE: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,), "object": (dict,),
}  # fmt: skip
_LITERALS = frozenset({"integer", "number", "boolean"})
_DROPPED = frozenset({"optional"})
REASONS = {
    "takes any value": "any_value", "array of anything": "any_items", "does not fit its own schema": "default_does_not_fit",
    "has no value of its type": "no_value_fits", "no model sends them": "key_or_token", "no description": "no_description",
    "letters, digits": "name", "is not usable at": "unusable_schema", "not JSON Schema 2020-12": "not_json_schema",
    "free names": "free_names", "it looks like": "misspelt_word",
}  # fmt: skip
"""Words of our own refusals -> reason."""


class Unmapped(Exception):
    """What a document says has no meaning in JSON Schema; `reason` is a stable word."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def mapped(schema: Any, place: str = "") -> dict[str, Any]:
    """A document's schema as JSON Schema 2020-12. Raises Unmapped."""
    if not isinstance(schema, Mapping):
        raise Unmapped("not_a_schema", f"{place or '/'} is no schema")
    name = schema.get("type")
    if name == "any":
        raise Unmapped("any_value", f"{place} takes any value")
    if name not in TYPES:
        raise Unmapped("unknown_type", f"{place} has the type {name!r}")
    out = {**{key: value for key, value in schema.items() if key not in _DROPPED}, **TYPES[name]}
    kind = out["type"]
    if kind == "object":
        if "properties" not in schema and place:
            raise Unmapped("free_object", f"{place} is an object that names no fields")
        out["properties"] = {key: mapped(part, f"{place}/{key}") for key, part in schema.get("properties", {}).items()}
    if kind == "array" and "items" in schema:
        out["items"] = mapped(schema["items"], f"{place}/*")
    if isinstance(schema.get("additionalProperties"), Mapping):
        out["additionalProperties"] = mapped(schema["additionalProperties"], f"{place}/*")
    if "default" in out and out["default"] is None:
        del out["default"]
    if "default" in out:
        out["default"] = _literal(out["default"], kind)
    if "enum" in out and kind != "array":
        out["enum"] = [_literal(value, kind) for value in out["enum"]]
    elif "enum" in out and "items" in out:  # of an array they list what its items may be
        out["items"] = {**out["items"], "enum": out.pop("enum")}
    return out


def _literal(value: Any, kind: str) -> Any:
    if kind not in _LITERALS or not isinstance(value, str):
        return value
    try:
        read = ast.literal_eval(value.strip().capitalize() if kind == "boolean" else value.strip())
    except (ValueError, SyntaxError):
        return value
    return read if isinstance(read, _OF_TYPE[kind]) else value


def documents(data: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where it stands, function document)."""
    for path in sorted(data.glob("BFCL_*.json")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            try:
                record = json.loads(line)
            except ValueError:
                break  # one file of the package is a single JSON text without functions
            for document in record.get("function", ()) if isinstance(record, dict) else ():
                yield f"{path.name}:{number + 1}:{document['name']}", document


def register(document: Mapping[str, Any]) -> None:
    """Through the same door as every tool. Raises Unmapped or ConfigurationError."""
    catalog = Catalog("bfcl")
    catalog.add(
        Tool(
            name=document["name"].replace(".", "_"), description=document["description"], risk=Risk.READ,
            schema=mapped(document["parameters"]), model=None, run=_nothing, timeout=timedelta(seconds=1),
        )
    )  # fmt: skip
    for tool in catalog:
        ArgumentCheck(tool)


def _nothing(args: Any, ctx: Any) -> None:
    return None


def reason_of(fault: Exception) -> str:
    """A stable word for why a document is refused; `other` where our sentences have none."""
    if isinstance(fault, Unmapped):
        return fault.reason
    return next((reason for words, reason in REASONS.items() if words in str(fault)), "other")


def measure(data: Path) -> dict[str, Any]:
    """The figures over a folder of the package's form."""
    total, registered = 0, 0
    refused: Counter[str] = Counter()
    examples: dict[str, dict[str, str]] = {}
    for where, document in documents(data):
        total += 1
        try:
            register(document)
        except (Unmapped, ConfigurationError) as fault:
            reason = reason_of(fault)
            refused[reason] += 1
            examples.setdefault(reason, {"document": where, "sentence": str(fault)})
        else:
            registered += 1
    return {"documents": total, "registered": registered, "refused": dict(refused.most_common()), "examples": examples}


def fetched() -> Path:
    """The package's data. Raises NotFetched."""
    return installed(*PACKAGE) / "bfcl_eval" / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description="Registers function documents of the BFCL form.")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path, default=Path("build/corpora/bfcl.json"))
    options = parser.parse_args()
    try:
        figures = measure(options.data or fetched())
    except NotFetched as fault:
        sys.exit(str(fault))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    print(f"{figures['documents']} documents, {figures['registered']} registered, refused: {figures['refused']}")
    sys.exit(not figures["documents"])


if __name__ == "__main__":
    main()
