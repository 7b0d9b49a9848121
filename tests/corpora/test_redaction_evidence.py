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


def test_of_1000_recorded_results_at_most_one_is_changed(results: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """R3, R4: passwords of words in mails pass byte for byte, unless the contract names passwords. Without the binary here."""
    monkeypatch.setattr(sanitizer.gitleaks, "finds", lambda texts: set())
    found = sanitizer.false_positives(results)
    assert found["clean_results"] == 8_325 and found["false_positives"] <= 8, found
    assert found["changed_by_cleaning"] == 0
    stating = found["stating_a_password_in_words"]
    assert stating["redacted_where_the_contract_says_password"] == stating["results"] > 900, stating
    assert stating["others_redacted_then"] == 0, stating


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
    contents = ["all is well", {"password": "swordfish"}, "a\u200bb", "a leaked one", "Shop account password: swordfish2"]
    run = {"results": [{"content": content} for content in contents]}
    (tmp_path / "runs.jsonl.gz").write_bytes(sanitizer.gzip.compress((json.dumps(run) + "\n").encode()))
    monkeypatch.setattr(sanitizer.gitleaks, "rules", dict)
    monkeypatch.setattr(sanitizer.gitleaks, "finds", lambda texts: {texts.index("a leaked one")} if texts else set())
    monkeypatch.setattr(sanitizer.gitleaks, "samples", lambda a_rule: [gitleaks.Sample("r", "password=pikeperch", "pikeperch")])
    out = tmp_path / "build" / "sanitizer.json"
    monkeypatch.setattr(sys, "argv", ["x", "--data", str(tmp_path), "--json", str(out), "--largest", "256"])
    assert sanitizer.main() == 1, "two of four are changed, and one by cleaning"
    told = json.loads(out.read_text(encoding="utf-8"))
    assert (told["secrets"], told["found"], told["clean_results"], told["false_positives"]) == (1, 1, 4, 2)
    assert told["changed_by_cleaning"] == 1 and list(told["stating_a_password_in_words"].values()) == [2, 1, 2, 0]
    assert told["mb_per_s"]["256"] > 0
    assert list(sanitizer._broken_promises(told))[:2] == [
        "2 of 4 recorded results without a secret are changed", "1 recorded results are changed by cleaning alone",
    ]  # fmt: skip
