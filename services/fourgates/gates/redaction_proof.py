"""Proves before a process starts that the redaction finds what it must."""

from __future__ import annotations

import base64
from urllib.parse import quote

from fourgates.contract.errors import ConfigurationError
from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_patterns import CHOSEN, PATTERNS

_PLAIN = "order A-1001 of 2024-01-02: 3 items, 59.90 EUR"


def prove() -> None:
    """Every form is found in its sample, also split by an invisible character or encoded. ConfigurationError names the first
    that is not.

    A redaction that silently finds nothing looks like a clean result, so a process proves it before it starts.
    """
    redactor = Redactor(b"prove", "prove", CHOSEN)
    for pattern in PATTERNS:
        before, first, second, after = pattern.sample
        plain = f"{before}{first}{second}{after}"
        for glue in ("", "\u200b", "\U000e0041"):
            shown = redactor.redact(f"{before}{first}{glue}{second}{after}")
            if second.strip() in shown.text or not shown.count:
                raise ConfigurationError(
                    f"redaction of {pattern.kind} is out of order: {pattern.exact[:60]!r} finds nothing; do not start"
                )
        for how, said in (("base64", base64.b64encode(plain.encode()).decode()), ("percent encoding", quote(plain, safe=""))):
            if not redactor.redact(said).count:
                raise ConfigurationError(f"redaction of {pattern.kind} in {how} is out of order; do not start")
    if redactor.redact(_PLAIN).text != _PLAIN:
        raise ConfigurationError("redaction is out of order: it changes plain text; do not start")
