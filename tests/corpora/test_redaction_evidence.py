"""The redaction against gitleaks and other people's recorded results; `make evidence-results` does it at length."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from corpora import gitleaks
from evidence import sanitizer
from fourgates.gates.redaction import Redactor
from fourgates.gates.text import clean
from support.shared import shared_path


@pytest.fixture(scope="module")
def results() -> list[str]:
    return sanitizer.recorded_results(shared_path("data/agentdyn"))


def test_of_100_secrets_that_gitleaks_finds_at_most_two_are_missed() -> None:
    """R3: one sample of each of its rules, made now."""
    try:
        found = sanitizer.secrets_found(1)
    except gitleaks.Missing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    assert found["rules"] > 190 and found["found"] >= 0.98 * found["secrets"], found


def test_of_1000_recorded_results_without_a_credential_none_is_changed(results: list[str]) -> None:
    """R3, R4: what states a credential in so many words is redacted, everything else passes byte for byte."""
    assert len(results) == 8_325
    assert all(clean(result) == result for result in results)
    redactor, changed = Redactor(b"k", "c"), 0
    for result in results:
        if redactor.redact(result).text != result:
            changed += 1
            assert sanitizer._STATES_A_CREDENTIAL.search(result), result
    assert changed >= 900


def test_the_injection_signal_rings_for_most_written_injections_and_for_no_harmless_text(results: list[str]) -> None:
    """R4: it counts for the audit and decides nothing, so a miss costs nothing."""
    told = sanitizer.injection_signal(results[:200])
    assert (told["injections"], told["harmless"]) == (118, 63)
    assert told["signalled"] >= 95 and told["false_alarms"] <= 2, told


@pytest.mark.parametrize("kept", [0, 8])
def test_a_secret_that_comes_out_is_counted_as_missed(kept: int) -> None:
    secret = "4fA7bQ9cZ2dK8eM3aR5t"
    sample = gitleaks.Sample("made-up", f"nothing tells that {secret[:kept]}", secret)
    assert gitleaks.comes_out(sample, Redactor(b"k", "c")) == bool(kept)


def test_the_script_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"results": [{"content": "all is well"}, {"content": {"password": "swordfish"}}, {"content": "a\u200bb"}]}
    (tmp_path / "runs.jsonl.gz").write_bytes(sanitizer.gzip.compress((json.dumps(run) + "\n").encode()))
    monkeypatch.setattr(sanitizer.gitleaks, "rules", dict)
    monkeypatch.setattr(sanitizer.gitleaks, "finds", lambda texts: 0)
    monkeypatch.setattr(sanitizer.gitleaks, "samples", lambda a_rule: [gitleaks.Sample("r", "password=pikeperch", "pikeperch")])
    out = tmp_path / "build" / "sanitizer.json"
    monkeypatch.setattr(sys, "argv", ["x", "--data", str(tmp_path), "--json", str(out), "--largest", "256"])
    assert sanitizer.main() == 0
    told = json.loads(out.read_text(encoding="utf-8"))
    assert (told["secrets"], told["found"], told["clean_results"], told["false_positives"]) == (1, 1, 2, 1)
    assert (told["stating_a_credential"], told["stating_and_redacted"], told["changed_by_cleaning"]) == (1, 1, 1)
    assert told["mb_per_s"]["256"] > 0
