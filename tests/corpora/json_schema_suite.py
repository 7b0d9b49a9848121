"""JSON-Schema-Test-Suite 2020-12: the engine with the suite's own settings, and what our stricter ones change, test by test.

    python tests/corpora/json_schema_suite.py --data FOLDER --json build/corpora/json_schema_suite.json [--stricter FILE]

Data of the same form: the suite's repository (folders `tests/draft2020-12` and `remotes`). Without --data it is taken from the
source distribution of `jsonschema`, fetched into build/packages. --stricter writes the list of changes, one test a line.

Two steps of strictness: `compiled` is how every schema is compiled here (formats asserted, unknown formats and remote references
refused, patterns on a linear-time engine); `registered` is what becomes of the schema as the schema of one argument, closed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, it stands outside of the tests' own path

from fourgates.catalog.schema import close_schema, compile_schema
from fourgates.contract.errors import ConfigurationError
from support.packages import NotFetched, source_of

PACKAGE = ("jsonschema", "4.26.0")
STRICTER = Path(__file__).with_name("json_schema_suite_stricter.tsv")
HEAD = "step\tfile\tgroup\ttest\tthe suite says\there\twhy"
_REMOTES = "http://localhost:1234/"
_ARGUMENT = "#/properties/value"
REASONS = {
    "outside the schema": "remote references are refused: they would mean what another place says today",
    "Retrieval is disabled": "remote references are refused: they would mean what another place says today",
    "Unknown format": "unknown formats are refused: nobody would check them",
    "regex": "patterns run on a linear-time engine",
    "takes any value": "takes any value, so unknown fields would pass",
    "array of anything": "an array that does not say what its items are takes unknown fields",
    "does not say its type": "without a type any object would pass",
    "so what it means depends on where": "what a dynamic reference, an anchor or an $id means depends on where it is read from",
    "describe the same value": "two parts describe one value with different fields, so neither can be closed",
    "stands open inside a condition": "closing inside a condition would change what the rest accepts",
    "back to itself": "a schema that is itself for the same value judges nothing",
    "no schema inside it": "references lead to a place in the document itself",
    "is written in": "another dialect than 2020-12",
    "puts the whole schema inside": "the whole schema stands inside itself as a part",
    "no object": "a schema that is only true or false describes no arguments",
}  # fmt: skip
"""Words of our refusals -> why, as the list says it."""
_FORMAT = "formats are asserted"
_VOCABULARY = "a dialect of its own is not followed: every schema is read as 2020-12"
_CLOSED = "a field or an item that no part names, or a value of another type than the schema's words are about"


@dataclass(frozen=True, slots=True)
class Case:
    file: str
    group: str
    test: str
    schema: Any
    data: Any
    valid: bool


def cases(suite: Path, pattern: str) -> Iterator[Case]:
    folder = suite / "tests" / "draft2020-12"
    for path in sorted(folder.glob(pattern)):
        for group in json.loads(path.read_text(encoding="utf-8")):
            for test in group["tests"]:
                name = str(path.relative_to(folder))
                yield Case(name, group["description"], test["description"], group["schema"], test["data"], test["valid"])


def with_the_suites_settings(suite: Path, pattern: str, *, formats: bool) -> dict[str, Any]:
    """How many tests the engine passes, and which it does not."""
    remotes = {
        _REMOTES + str(path.relative_to(suite / "remotes")): json.loads(path.read_text(encoding="utf-8"))
        for path in (suite / "remotes").rglob("*.json")
    }

    def passes(case: Case) -> bool:
        try:
            validator = jsonschema_rs.validator_for(case.schema, retriever=remotes.__getitem__, validate_formats=formats)
            return bool(validator.is_valid(case.data) == case.valid)
        except (ValueError, KeyError):
            return False

    every = list(cases(suite, pattern))
    failed = [f"{case.file}: {case.group}: {case.test}" for case in every if not passes(case)]
    return {"tests": len(every), "passed": len(every) - len(failed), "failed": failed}


def compiled(case: Case) -> tuple[str, str]:
    """(accepted, refused or not compiled; why)."""
    if isinstance(case.schema, bool):
        return "not compiled", REASONS["no object"]
    try:
        accepted = compile_schema(case.schema).is_valid(case.data)
    except ConfigurationError as fault:
        return "not compiled", _why(fault)
    return _word(accepted), _VOCABULARY if case.file == "vocabulary.json" else _FORMAT


def registered(case: Case) -> tuple[str, str]:
    """The same of the schema as one argument's, closed."""
    whole = {"type": "object", "properties": {"value": _moved(case.schema)}, "required": ["value"]}
    try:
        accepted = compile_schema(close_schema(whole)).is_valid({"value": case.data})
    except ConfigurationError as fault:
        return "not registered", _why(fault)
    before, why = compiled(case)
    return _word(accepted), why if before == _word(accepted) else _CLOSED


def _moved(schema: Any) -> Any:
    """The schema with its references to itself, as it stands inside another one."""
    if isinstance(schema, dict):
        return {
            key: _ARGUMENT + value[1:] if key == "$ref" and isinstance(value, str) and value.startswith("#") else _moved(value)
            for key, value in schema.items() if key != "$schema"
        }  # fmt: skip
    return [_moved(each) for each in schema] if isinstance(schema, list) else schema


def _word(accepted: bool) -> str:
    return "valid" if accepted else "refused"


def _why(fault: ConfigurationError) -> str:
    return next((why for words, why in REASONS.items() if words in str(fault)), f"? {fault}")


def changes(suite: Path) -> list[str]:
    """The list: a line for each test whose outcome is another one than the suite's."""
    lines = []
    for step, judge in (("compiled", compiled), ("registered", registered)):
        for pattern in ("*.json", "optional/format/*.json"):
            for case in cases(suite, pattern):
                said, why = judge(case)
                theirs = _word(case.valid)
                if said != theirs:
                    cells = (step, case.file, case.group, case.test, theirs, said, why)
                    lines.append("\t".join(cell.replace("\t", " ").replace("\n", " ") for cell in cells))
    return lines


def measure(suite: Path) -> dict[str, Any]:
    """The figures over a folder of the suite's form."""
    lines = changes(suite)
    counts = Counter((line.split("\t")[0], line.split("\t")[5], line.split("\t")[6]) for line in lines)
    return {
        "engine": with_the_suites_settings(suite, "*.json", formats=False),
        "formats": with_the_suites_settings(suite, "optional/format/*.json", formats=True),
        "stricter": [
            {"step": step, "outcome": outcome, "why": why, "tests": count} for (step, outcome, why), count in counts.most_common()
        ],
        "unexplained": [line for line in lines if "\t? " in line],
        "looser": [line for line in lines if line.split("\t")[5] == "valid"],
    }


def fetched() -> Path:
    """The suite in the package's source distribution. Raises NotFetched."""
    return source_of(*PACKAGE) / "json"


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs a suite of the JSON-Schema-Test-Suite's form.")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path, default=Path("build/corpora/json_schema_suite.json"))
    parser.add_argument("--stricter", type=Path, help="write the list of changes to this file")
    options = parser.parse_args()
    try:
        suite = options.data or fetched()
    except NotFetched as fault:
        sys.exit(str(fault))
    figures = measure(suite)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.stricter:
        options.stricter.write_text("\n".join([HEAD, *changes(suite)]) + "\n", encoding="utf-8")
    engine, formats = figures["engine"], figures["formats"]
    print(f"engine {engine['passed']}/{engine['tests']}, formats {formats['passed']}/{formats['tests']}")
    sys.exit(bool(engine["failed"] or formats["failed"] or figures["unexplained"]))


if __name__ == "__main__":
    main()
