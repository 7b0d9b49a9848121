"""Keys and tokens that are known by their own form: by how they begin, by their parts, by the provider's name beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fourgates.gates.redaction_keys import PREFIXED
from fourgates.gates.redaction_kinds import Pattern, filler, is_a_key, is_mixed, only_if
from fourgates.gates.redaction_providers import BESIDE, HINT, keys_beside


def _prefixed() -> Iterator[Pattern]:
    for beginnings, characters, least in PREFIXED:
        one_of = "|".join(re.escape(word) if word[-1] not in "_-" else f"(?i:{re.escape(word)})" for word in beginnings.split())
        # RE2 allows no repetition beyond 1000 and pays for long ones, so a hint stops at eight.
        yield Pattern(
            kind="api_key",
            hint=f"(?:{one_of})(?i:[{characters}]{{{min(least, 8)}}})",
            exact=f"(?:{one_of})(?i:[{characters}]{{{least},}})",
            sample=("id ", beginnings.split()[0], filler(characters, least), ""),
        )


_B64_LINES = r"(?:[0-9A-Za-z+/=:, \t\-]|\\[nr]|\n)*"
_KEY_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_NO_BODY = re.compile(r"-----END.*|\\[nr]|[^0-9A-Za-z+/=]", re.S)
_LEAST_BODY = 8
_KEY_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"


def _has_a_body(block: str) -> bool:
    """A first line with nothing after it is no key."""
    return len(_NO_BODY.sub("", block.split("-----", 2)[2])) >= _LEAST_BODY


SHAPES: tuple[Pattern, ...] = (
    Pattern("private_key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY", rf"{_KEY_BEGIN}(?:(?s:.)*?{_KEY_END}|{_B64_LINES})",
            ("", "-----BEGIN PRIV", "ATE KEY-----\nMIIEvQ4fA7bQ9c\n-----END PRIVATE KEY-----", "\n"), only_if(_has_a_body)),
    Pattern("private_key", r"(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY",
            r"(?is)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----.{48,}?KEY(?: BLOCK)?-----",
            ("", "-----begin priv", "ate key-----\n" + filler("0-9A-Za-z", 70) + "\n-----end private key-----", "\n")),
    Pattern("private_key", r"Private-Lines:", r"Private-Lines: [0-9]+\n(?:[0-9A-Za-z+/=]+\n?)+",
            ("", "Private-Lines: 1\n", "MIIEvQ4fA7bQ9c==\n", "")),
    Pattern("jwt", r"eyJ[0-9A-Za-z_\-]{8}", r"eyJ[0-9A-Za-z_\-]{8,}(?:\.[0-9A-Za-z_\-]*){1,4}",
            ("t ", "eyJhbGciOiJ4", "In0.eyJzdWIiOiJ4In0.4fA7bQ9cZ2dK8eM3", " ")),
    Pattern("jwt", r"\bey[0-9A-Za-z]{8}", r"\bey[0-9A-Za-z]{17,}\.ey[0-9A-Za-z/\\_-]{17,}\.(?:[0-9A-Za-z/\\_-]{10,}={0,2})?",
            ("t ", "ey4fA7bQ9cZ2dK8eM3aR5.ey4fA7bQ9cZ2dK8eM3aR5.", filler("0-9A-Za-z", 20), " ")),
    Pattern("jwt", r"(?i)eyJrIjoi[0-9a-z]{8}", r"(?i)eyJrIjoi[0-9a-z]{70,400}={0,3}",
            ("t ", "eyJrIjoi", filler("0-9A-Za-z", 80), " ")),
    Pattern("jwt", r"\bZXlK[0-9A-Za-z]{8}", r"\bZXlK(?:[0-9A-Za-z+/_\\-]|[\r\n][0-9A-Za-z+/_\\-]){30,}={0,2}",
            ("t ", "ZXlK", filler("0-9A-Za-z", 40), " ")),
    *_prefixed(),
    Pattern("api_key", r"sk-[0-9A-Za-z]{20}", r"\bsk-[0-9A-Za-z]{20,}", ("k ", "sk-", "4fA7bQ9cZ2dK8eM3aR5t", " ")),
    Pattern("api_key", r"sk-[0-9A-Za-z_\-]{20}", r"sk-([0-9A-Za-z_\-]{20,})",
            ("k ", "sk-", "4fA7bQ9cZ2_dK8eM3aR5t", " "), only_if(lambda v: is_a_key(v) and v != v.lower())),
    Pattern("api_key", r"SG\.[0-9A-Za-z_\-]{16}", r"SG\.[0-9A-Za-z_\-]{16,}\.[0-9A-Za-z_\-]{16,}",
            ("k ", "SG.4fA7bQ9cZ2dK8eM3a", ".4fA7bQ9cZ2dK8eM3a", " ")),
    Pattern("api_key", r"SG\.(?i:[0-9a-z_\-=.]{16})", r"SG\.(?i:[0-9a-z_\-=.]{60,})",
            ("k ", "SG.4fA7=bQ9cZ2dK8eM3a", "4fA7.bQ9cZ2dK8eM3a" * 3, " ")),
    Pattern("api_key", r"\bEAAA[0-9A-Za-z_-]{8}", r"\bEAAA[0-9A-Za-z_-]{22,}", ("k ", "EAAA", filler("0-9A-Za-z", 24), " ")),
    Pattern("api_key", r"[0-9]{8}:AA", r"[0-9]{8,10}:AA[0-9A-Za-z_\-]{32,}",
            ("k ", "123456789:AA", filler("0-9A-Za-z", 33), " ")),
    Pattern("api_key", r"\bkey-[0-9a-f]{32}", r"\bkey-[0-9a-f]{32}", ("k ", "key-", filler("0-9a-f", 32), " ")),
    Pattern("api_key", r"[0-9a-f]{8}-us[0-9]", r"[0-9a-f]{32}-us[0-9]{1,2}", ("k ", filler("0-9a-f", 32), "-us12", " ")),
    Pattern("api_key", r"\bSK[0-9a-fA-F]{32}", r"\bSK[0-9a-fA-F]{32}", ("k ", "SK", filler("0-9a-f", 32), " ")),
    Pattern("api_key", r"[0-9]Q~", r"[0-9A-Za-z_~.]{3}[0-9]Q~[0-9A-Za-z_~.\-]{31,34}",
            ("k ", "4fA7Q~", filler("0-9A-Za-z", 32), " ")),
    Pattern("api_key", r"[?&]sig=", r"[?&]sig=([0-9A-Za-z%+/=\-]{20,})", ("u?sig=", "4fA7bQ9c", "Z2dK8eM3aR5t%2B", " ")),
    Pattern("api_key", HINT, BESIDE, ("DATADOG = '", filler("0-9a-f", 20), filler("0-9a-f", 20), "'"), keys_beside),
    Pattern("api_key", r"A3T[0-9A-Z]", r"\bA3T[0-9A-Z][2-7A-Z]{16}\b", ("k ", "A3T4", "FA7BQ2CZ2DK5EM3A", " ")),
    Pattern("api_key", r"A3-[A-Z0-9]{6}-", r"A3-[A-Z0-9]{6}-[A-Z0-9]{5,11}(?:-[A-Z0-9]{5}){3,4}",
            ("k ", "A3-4FA7BQ-9CZ2DK8EM3A-", "R54FA-7BQ9C-Z2DK8", " ")),
    Pattern("api_key", r"cmVmd[0-9A-Za-z]{8}", r"\bcmVmd[0-9A-Za-z]{59}\b", ("k ", "cmVmd", filler("0-9A-Za-z", 59), " ")),
    Pattern("api_key", r"\.acc[_-]",
            r"(?i)(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[a-z0-9+/_=-]{30,120}",
            ("k ", "sc_4fA7bQ.9cZ2.acc_4fA7bQ9cZ2.", filler("0-9A-Za-z", 40), " ")),
    Pattern("api_key", r"4b1d[0-9A-Za-z]{8}", r"\b4b1d[0-9A-Za-z]{38}\b", ("k ", "4b1d", filler("0-9A-Za-z", 38), " ")),
    Pattern("api_key", r"[ps]at\.[0-9A-Za-z_-]{8}", r"[ps]at\.[0-9A-Za-z_-]{22}\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{20}",
            ("k pat.", filler("0-9A-Za-z", 22), "." + filler("0-9A-Za-z", 24) + "." + filler("0-9A-Za-z", 20), " ")),
    Pattern("api_key", r"(?i)\.atlasv1\.", r"(?i)[a-z0-9]{14}\.atlasv1\.[a-z0-9_=-]{50,}",
            ("k ", "4fA7bQ9cZ2dK8e.atlasv1.", filler("0-9A-Za-z", 60), " ")),
    Pattern("api_key", r"\.webhook\.office\.com/", r"(?i)[a-z0-9]+\.webhook\.office\.com/webhookb2/[a-z0-9@/-]{60,}",
            ("https://", "x.webhook.office.com/webhookb2/", filler("0-9a-f", 70), " ")),
    Pattern("api_key", r"\bs\.(?i:[0-9a-z]{8})", r"\b(s\.(?i:[0-9a-z]{24}))\b",
            ("k ", "s.", "4fA7bQ9cZ2dK8eM3aR54fA7b", " "), only_if(is_mixed)),
    Pattern("api_key", r"pat[0-9A-Za-z]{14}\.", r"pat[0-9A-Za-z]{14}\.[0-9a-f]{64}",
            ("k ", "pat4fA7bQ9cZ2dK8e.", filler("0-9a-f", 64), " ")),
    Pattern("api_key", r"_mmk", r"[0-9A-Za-z]{6}_[0-9A-Za-z]{29}_mmk",
            ("k ", "4fA7bQ_", filler("0-9A-Za-z", 29) + "_mmk", " ")),
)  # fmt: skip
