"""`--since`: a time, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from fourgates.cli.faults import Fault

_AGO = re.compile(r"(\d{1,5})(m|h|d|w)")
_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def since_ms(said: str | None, now_ms: int) -> int:
    """Milliseconds since the epoch; 0 where nothing was said. A time without a zone is UTC."""
    if said is None:
        return 0
    if ago := _AGO.fullmatch(said.strip()):
        return now_ms - int(ago[1]) * _MS[ago[2]]
    try:
        at = datetime.fromisoformat(said.strip())
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Fault(f"--since: {said[:40]!r} is no time; write 90m, 24h, 7d, 2w, or a date such as 2026-11-30 or "
                    "2026-11-30T08:00 (UTC).") from None  # fmt: skip
