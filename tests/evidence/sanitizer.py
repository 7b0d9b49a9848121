"""What the redaction finds, leaves alone and costs, against gitleaks, other people's recorded results and injection texts.

python tests/evidence/sanitizer.py --data ../shared/data/agentdyn --json build/sanitizer.json

Samples are made while it runs and never stored. Speeds are CPU time of one process.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpora import gitleaks
from fourgates.gates.injection import signals
from fourgates.gates.redaction import Redactor
from fourgates.gates.text import clean

# A person's reading of which recorded results state a credential, in words of their own and not in those of the redaction:
# mails and files of that world give passwords away ("the password is ..."), two links carry an access token, one file is a key.
_STATES_A_CREDENTIAL = re.compile(
    r"password['\"]?\s*:\s*['\"]?[^\s<'\"]|the password is \S|[?&]token=\w|-----BEGIN [A-Z ]*PRIVATE KEY-----", re.IGNORECASE
)
_SMALL = json.dumps({"order": "A-1001", "status": "paid", "items": [{"sku": "kettle", "count": 2}], "total": 59.9})
_SIZES = (256, 4_096, 65_536, 1_048_576, 16_777_216)


def recorded_results(data: Path) -> list[str]:
    """Every tool result of the AgentDyn runs."""
    path = data / "runs.jsonl.gz" if data.is_dir() else data
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        results = [result["content"] for line in lines for result in json.loads(line)["results"]]
    return [content if isinstance(content, str) else json.dumps(content) for content in results]


def secrets_found(a_rule: int) -> dict[str, Any]:
    """Of the samples that gitleaks itself finds, in how many no more than a fourth of the secret is left."""
    made, redactor = gitleaks.samples(a_rule), Redactor(b"evidence", "evidence")
    missed = [sample.rule for sample in made if gitleaks.comes_out(sample, redactor)]
    return {
        "secrets": len(made), "found": len(made) - len(missed), "rules": len({sample.rule for sample in made}),
        "missed_by_rule": {rule: missed.count(rule) for rule in sorted(set(missed))},
    }  # fmt: skip


def false_positives(results: Sequence[str]) -> dict[str, Any]:
    """What is taken out of results that state no credential. No kinds of a contract are on."""
    redactor = Redactor(b"evidence", "evidence")
    stating = [bool(_STATES_A_CREDENTIAL.search(result)) for result in results]
    changed = [redactor.redact(result).text != result for result in results]
    return {
        "clean_results": stating.count(False),
        "false_positives": sum(hit and not states for hit, states in zip(changed, stating, strict=True)),
        "recorded_results": len(results), "stating_a_credential": stating.count(True),
        "stating_and_redacted": sum(hit and states for hit, states in zip(changed, stating, strict=True)),
        "gitleaks_finds": gitleaks.finds(sorted(set(results))),
        "changed_by_cleaning": sum(clean(result) != result for result in results),
    }  # fmt: skip


def injection_signal(results: Sequence[str]) -> dict[str, Any]:
    """How often texts that were written to be injections give a signal, and others."""
    text = (resources.files("bastioncorpus") / "corpus" / "injections.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    told = {label: [bool(signals(row["text"])) for row in rows if row["label"] == label] for label in ("malicious", "benign")}
    return {
        "injections": len(told["malicious"]), "signalled": sum(told["malicious"]),
        "harmless": len(told["benign"]), "false_alarms": sum(told["benign"]),
        "recorded_results_signalled": sum(bool(signals(result)) for result in results),
    }  # fmt: skip


def speeds(results: Sequence[str], sizes: Sequence[int]) -> dict[str, float]:
    """Megabytes a second by size of the result, of recorded results one after the other; and of one small JSON result."""
    redactor, everything = Redactor(b"evidence", "evidence"), "\n".join(results)
    text = everything * (max(sizes) // len(everything) + 1)
    found = {str(size): _rate(lambda size=size: redactor.redact(text[:size]), size) for size in sizes}  # type: ignore[misc]
    return {**found, "small_json": _rate(lambda: redactor.redact(_SMALL), len(_SMALL))}


def _rate(work: Callable[[], object], size: int) -> float:
    work()
    started, times = time.process_time(), 0
    while (spent := time.process_time() - started) < 0.5 or not times:
        work()
        times += 1
    return round(size * times / spent / 1e6, 2)


def _missing() -> Iterator[str]:
    try:
        gitleaks.rules()
        gitleaks.finds([])
    except gitleaks.Missing as missing:
        yield str(missing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with runs.jsonl.gz, or such a file")
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument("--samples", type=int, default=20, help="texts of each rule of gitleaks")
    parser.add_argument("--largest", type=int, default=max(_SIZES), help="bytes of the largest result that is timed")
    chosen = parser.parse_args()
    for missing in _missing():
        print(f"not possible: {missing}", file=sys.stderr)
        return 1
    results = recorded_results(chosen.data)
    found = {
        **secrets_found(chosen.samples), **false_positives(results), "injection_signal": injection_signal(results),
        "mb_per_s": speeds(results, [size for size in _SIZES if size <= chosen.largest]),
    }  # fmt: skip
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
