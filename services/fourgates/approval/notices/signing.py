"""How a receiver knows that a notice is ours and new: HMAC-SHA256 over time and body, in the form that Stripe made common."""

from __future__ import annotations

import hashlib
import hmac

HEADER = "Fourgates-Signature"
ID_HEADER = "Fourgates-Notice-Id"
TOLERANCE_S = 300
"""A receiver refuses what was signed longer ago."""


def signature(secret: str, at_s: int, body: bytes) -> str:
    """The header's value: `t=<seconds since the epoch>,v1=<hex>`."""
    return f"t={at_s},v1={_mac(secret, at_s, body)}"


def verified(secret: str, header: str, body: bytes, now_s: float) -> bool:
    """What a receiver does; here for its authors and our tests."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    stamp = parts.get("t", "")
    if not (stamp.isascii() and stamp.isdigit()) or abs(now_s - int(stamp)) > TOLERANCE_S:
        return False
    return hmac.compare_digest(_mac(secret, int(stamp), body), parts.get("v1", ""))


def _mac(secret: str, at_s: int, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
