"""What the redaction finds, leaves alone and costs, against gitleaks, other people's recorded results and injection texts.

python tests/evidence/sanitizer.py --data ../shared/data/agentdyn --json build/sanitizer.json

Samples are made while it runs and never stored. Speeds are megabytes a second of CPU time, in one process.
Ends with 1, and says why, where a figure is beyond what is promised.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpora import gitleaks
from fourgates.gates.injection import signals
from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_stream import StreamRedactor
from fourgates.gates.text import clean

# Which recorded results give a credential away, in words of a reader's and not in those of the redaction: people of that world
# write passwords into mails and forms, and two links carry a token. All are plain words, which neither gitleaks nor the redaction
# takes for secrets where they stand in running text.
_STATES_A_CREDENTIAL = re.compile(r"password['\"]?\s*:\s*['\"]?[^\s<'\"]|the password is \S|[?&]token=\w", re.IGNORECASE)
_LEAST_FOUND, _MOST_CHANGED = 0.98, 0.001
_LEAST_SIGNALLED, _MOST_ALARMS = 0.8, 0.05
_LEAST_MB_PER_S, _LARGE = 100 / 120, 65_536
"""A hundred megabytes in two minutes. Of small results the fixed cost of a call is all."""
_SMALL = json.dumps({"order": "A-1001", "status": "paid", "items": [{"sku": "kettle", "count": 2}], "total": 59.9})
_SIZES = (256, 4_096, 65_536, 1_048_576, 104_857_600)
_WHOLE = 8_388_608
"""What is larger goes through as a stream, as in the sanitizer."""
_PIECE = 65_536
_LINE = "2024-05-17 10:00:12 order A-1001 of anna shipped, 59.90 EUR, api_key={key} host=db-7 status=ok\n"


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
    """How many of the results in which gitleaks finds nothing are changed, no kind of a contract being on.

    And how many of those that state a credential in words are redacted without and with the kind `password`.
    """
    times = Counter(results)
    texts = list(times)
    found = {texts[number] for number in gitleaks.finds(texts)}
    stating = {text for text in texts if _STATES_A_CREDENTIAL.search(text)}
    changed, with_passwords = _changed(texts, ()), _changed(texts, ("password",))

    def count(some: Collection[str]) -> int:
        return sum(times[text] for text in some)

    return {
        "clean_results": len(results) - count(found), "false_positives": count(changed - found),
        "recorded_results": len(results), "gitleaks_finds": count(found),
        "changed_by_cleaning": count([text for text in texts if clean(text) != text]),
        "stating_a_password_in_words": {
            "results": count(stating), "redacted": count(stating & changed),
            "redacted_where_the_contract_says_password": count(stating & with_passwords),
            "others_redacted_then": count(with_passwords - changed - stating),
        },
    }  # fmt: skip


def _changed(texts: Sequence[str], kinds: Sequence[str]) -> set[str]:
    redactor = Redactor(b"evidence", "evidence", kinds)
    return {text for text in texts if redactor.redact(text).text != text}


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


def speeds(results: Sequence[str], sizes: Sequence[int]) -> dict[str, dict[str, float]]:
    """By size of the result, of recorded results one after the other; of small JSON; of a log with a key in every line."""
    redactor, everything = Redactor(b"evidence", "evidence"), "\n".join(results)
    chance, size = random.Random(7), min(_WHOLE // 4, max(sizes))
    keys = ("".join(chance.choices(string.ascii_letters + string.digits, k=24)) for _ in range(size // len(_LINE) + 1))
    dense = "".join(_LINE.format(key=key) for key in keys)[:size]
    by_size = {}
    for size in sizes:
        text = everything * (min(size, _WHOLE) // len(everything) + 1)
        by_size[str(size)] = _rate(lambda text=text, size=size: _redact(redactor, text, size), size)  # type: ignore[misc]
    small_json = _rate(lambda: redactor.redact(_SMALL), len(_SMALL))
    return {
        "mb_per_s": by_size,
        "mb_per_s_of": {"small_json": small_json, "a_key_in_each_line": _rate(lambda: redactor.redact(dense), len(dense))},
    }


def _redact(redactor: Redactor, text: str, size: int) -> None:
    if size <= _WHOLE:
        redactor.redact(text[:size])
        return
    stream = StreamRedactor(redactor)
    for at in range(0, size, _PIECE):
        stream.feed(text[at % (len(text) - _PIECE) :][:_PIECE])
    stream.finish()


def _rate(work: Callable[[], object], size: int) -> float:
    if size <= _WHOLE:
        work()
    started, times = time.process_time(), 0
    while (spent := time.process_time() - started) < 0.5 or not times:
        work()
        times += 1
    return round(size * times / spent / 1e6, 2)


def _broken_promises(found: dict[str, Any]) -> Iterator[str]:
    signal = found["injection_signal"]
    if found["found"] < _LEAST_FOUND * found["secrets"]:
        yield f"of {found['secrets']} secrets that gitleaks finds only {found['found']} are redacted"
    if found["false_positives"] > _MOST_CHANGED * found["clean_results"]:
        yield f"{found['false_positives']} of {found['clean_results']} recorded results without a secret are changed"
    if found["changed_by_cleaning"]:
        yield f"{found['changed_by_cleaning']} recorded results are changed by cleaning alone"
    if signal["signalled"] < _LEAST_SIGNALLED * signal["injections"]:
        yield f"of {signal['injections']} injections only {signal['signalled']} give a signal"
    if signal["false_alarms"] > _MOST_ALARMS * signal["harmless"]:
        yield f"{signal['false_alarms']} of {signal['harmless']} harmless texts give a signal"
    of_size = {size: rate for size, rate in found["mb_per_s"].items() if int(size) >= _LARGE}
    for what, rate in {**of_size, **(found["mb_per_s_of"] if of_size else {})}.items():
        if rate < _LEAST_MB_PER_S:
            yield f"{rate} MB/s of {what}"


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
        **speeds(results, [size for size in _SIZES if size <= chosen.largest]),
    }  # fmt: skip
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))
    broken = list(_broken_promises(found))
    for promise in broken:
        print(f"missed: {promise}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
