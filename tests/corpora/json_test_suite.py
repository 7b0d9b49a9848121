"""JSONTestSuite against the strict reader: `y_` read, `n_` refused, and for each `i_` the decision that is written here.

    python tests/corpora/json_test_suite.py --data ../shared/data/json-test-suite --json build/corpora/json_test_suite.json

Data of the same form: a folder, or the one above it, of files named y_, n_ or i_. An i_ file that stands in no table is told and
not judged.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, it stands outside of the tests' own path

from fourgates.gates.format import strict_parse
from fourgates.gates.refusal import Refusal
from support.hostile import FULL, slowest

READ = "read"
LIMIT_MS = 50
"""What a text of 256 KiB may cost."""

DUPLICATE_KEYS = frozenset({"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"})
"""Files that the suite calls valid; refused, because two readers keep different ones of the two values."""

_ZERO = "the nearest double is zero for every reader, and the canonical form says 0"
_OVER = "no double is so large: readers give infinity, the largest double or an error"
_EXACT = "beyond 2^53-1 readers round or do not; where the digits matter the schema says string"
_HALF = "half of a surrogate pair is no character: readers replace it, keep it or fail, and UTF-8 cannot write it"
_BYTES = "not UTF-8: it arrives as half a surrogate pair for each byte that could not be decoded, which is no character"
_OTHER = "another encoding than UTF-8 is not guessed (RFC 8259, 8.1)"
DECISIONS: dict[str, tuple[str, str]] = {
    "i_number_double_huge_neg_exp.json": (READ, _ZERO),
    "i_number_huge_exp.json": ("number_overflow", _OVER),
    "i_number_neg_int_huge_exp.json": ("number_overflow", _OVER),
    "i_number_pos_double_huge_exp.json": ("number_overflow", _OVER),
    "i_number_real_neg_overflow.json": ("number_overflow", _OVER),
    "i_number_real_pos_overflow.json": ("number_overflow", _OVER),
    "i_number_real_underflow.json": (READ, _ZERO),
    "i_number_too_big_neg_int.json": ("integer_out_of_range", _EXACT),
    "i_number_too_big_pos_int.json": ("integer_out_of_range", _EXACT),
    "i_number_very_big_negative_int.json": ("integer_out_of_range", _EXACT),
    "i_object_key_lone_2nd_surrogate.json": ("lone_surrogate", _HALF),
    "i_string_1st_surrogate_but_2nd_missing.json": ("lone_surrogate", _HALF),
    "i_string_1st_valid_surrogate_2nd_invalid.json": ("lone_surrogate", _HALF),
    "i_string_UTF-16LE_with_BOM.json": ("malformed_json", _OTHER),
    "i_string_UTF-8_invalid_sequence.json": ("lone_surrogate", _BYTES),
    "i_string_UTF8_surrogate_U+D800.json": ("lone_surrogate", _BYTES),
    "i_string_incomplete_surrogate_and_escape_valid.json": ("lone_surrogate", _HALF),
    "i_string_incomplete_surrogate_pair.json": ("lone_surrogate", _HALF),
    "i_string_incomplete_surrogates_escape_valid.json": ("lone_surrogate", _HALF),
    "i_string_invalid_lonely_surrogate.json": ("lone_surrogate", _HALF),
    "i_string_invalid_surrogate.json": ("lone_surrogate", _HALF),
    "i_string_invalid_utf-8.json": ("lone_surrogate", _BYTES),
    "i_string_inverted_surrogates_U+1D11E.json": ("lone_surrogate", _HALF),
    "i_string_iso_latin_1.json": ("lone_surrogate", _BYTES),
    "i_string_lone_second_surrogate.json": ("lone_surrogate", _HALF),
    "i_string_lone_utf8_continuation_byte.json": ("lone_surrogate", _BYTES),
    "i_string_not_in_unicode_range.json": ("lone_surrogate", _BYTES),
    "i_string_overlong_sequence_2_bytes.json": ("lone_surrogate", _BYTES),
    "i_string_overlong_sequence_6_bytes.json": ("lone_surrogate", _BYTES),
    "i_string_overlong_sequence_6_bytes_null.json": ("lone_surrogate", _BYTES),
    "i_string_truncated-utf-8.json": ("lone_surrogate", _BYTES),
    "i_string_utf16BE_no_BOM.json": ("malformed_json", _OTHER),
    "i_string_utf16LE_no_BOM.json": ("malformed_json", _OTHER),
    "i_structure_500_nested_arrays.json": (
        "too_deep",
        "32 levels are more than any tool's arguments have; a bound keeps every reader safe",
    ),
    "i_structure_UTF-8_BOM_empty_object.json": (
        "byte_order_mark",
        "RFC 8259 forbids to send one; some readers skip it, some fail",
    ),
}
"""File -> (read, or the reason of the refusal; why)."""


def read(path: Path) -> str:
    """As a host hands it on: what is not UTF-8 comes as lone surrogates, one for each byte."""
    return path.read_bytes().decode("utf-8", "surrogateescape")


def verdict(text: str) -> str:
    found = strict_parse(text)
    return found.reason if isinstance(found, Refusal) else READ


def expected(name: str) -> str | None:
    """What must come out of a file: `read`, `refused` for any reason, or a reason; None where nobody decided."""
    if name in DUPLICATE_KEYS:
        return "duplicate_key"
    if name in DECISIONS:
        return DECISIONS[name][0]
    return {"y": READ, "n": "refused"}.get(name[0])


def measure(data: Path) -> dict[str, Any]:
    """The figures over a folder of the suite's form."""
    folder = data / "test_parsing" if (data / "test_parsing").is_dir() else data
    files = sorted(folder.glob("[yni]_*.json"))
    counts = {kind: {"files": 0, "read": 0, "refused": 0} for kind in "yni"}
    wrong, undecided, decided = [], [], {}
    for path in files:
        found, wanted = verdict(read(path)), expected(path.name)
        count = counts[path.name[0]]
        count["files"] += 1
        count["read" if found == READ else "refused"] += 1
        if path.name in DECISIONS:
            decided[path.name] = {"verdict": found, "why": DECISIONS[path.name][1]}
        if wanted is None:
            undecided.append(path.name)
        elif found != wanted and not (wanted == "refused" and found != READ):
            wrong.append({"file": path.name, "expected": wanted, "verdict": found})
    text, seconds = slowest(strict_parse)
    return {
        "files": len(files), "counts": counts, "wrong": wrong, "undecided": undecided, "decisions": decided,
        "slowest": {"bytes": FULL, "text": text, "ms": round(seconds * 1e3, 1), "limit_ms": LIMIT_MS},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/json-test-suite"))
    parser.add_argument("--json", type=Path, default=Path("build/corpora/json_test_suite.json"))
    options = parser.parse_args()
    figures = measure(options.data)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{figures['files']} files, {len(figures['wrong'])} wrong, slowest 256 KiB {figures['slowest']['ms']} ms")
    sys.exit(bool(figures["wrong"] or not figures["files"]))


if __name__ == "__main__":
    main()
