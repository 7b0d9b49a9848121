"""Names that tell what stands beside them: `DB_PASSWORD`, `clientSecret`, `x-api-key`. For text and for JSON alike."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache

from fourgates.gates.redaction_words import is_worded

SEP = r"[_.\- ]?"

CERTAIN = (
    rf"pass{SEP}(?:word|wd|phrase|code)s?|passw|pwd|"
    rf"secrets?|(?:client|app|shared|consumer|webhook|signing){SEP}secret|"
    rf"secret{SEP}(?:access{SEP})?key|"
    rf"(?:api|access|private|encryption|signing|master|auth|account|storage|service|license|deploy|shared{SEP}access){SEP}keys?|"
    rf"(?:access|refresh|id|auth|bearer|session|api|personal|bot|oauth|jwt|csrf|xsrf|deploy|security|push|private|user){SEP}tokens?|"
    rf"(?:db|database|user|smtp|mail|ftp|ssh|ldap|redis|root|admin|proxy){SEP}pass|"
    rf"passwort|kennwort|wachtwoord|contrase.a|mot{SEP}de{SEP}passe|"
    rf"credentials?|creds|connection{SEP}strings?|conn{SEP}str|dsn|shared{SEP}access{SEP}signature"
)
"""After these any value is a secret: of JSON members, settings and headers. In running text it must be dense."""

LIKELY = rf"tokens?|pass|auth|session(?:{SEP}id)?|sess{SEP}id|sid|signature|sig|otp|totp|webhook(?:{SEP}url)?"
"""After these a value is a secret if it looks like one."""

VAGUE = r"keys?|salt|seed|nonce"
"""After these it must look like one and be long: a key is more often the name of a row."""
VAGUE_LEAST = 20

ENDING = r"(?:[_.\-]?(?:value|val|text|str|string|b64|base64|plain|old|new|current|prod|dev|test|[0-9]{1,3}))?"
"""What may still follow such a name inside the name."""

_QUOTED = r"\\*[\"']"
NAME_HINTS = (
    rf"(?i){_QUOTED}[^\"'\n]*(?:{LIKELY}|{VAGUE}){ENDING}{_QUOTED}",
    rf"(?i)(?:{CERTAIN})",
    r"(?i)cookie|authorization",
)
"""Where none of these occurs no member of a JSON text is named as a secret is."""
PERSONAL_NAME_HINTS = {"phone": r"(?i)phone|mobile|cell|tel|fax", "iban": r"(?i)iban", "email": r"(?i)e[_.\- ]?mail",
                       "card": r"(?i)card|cc[_.\- ]?num|pan|cvv|cvc|security[_.\- ]?code"}  # fmt: skip
"""The same for each kind of personal data."""

_ORDINARY = re.compile(
    r"(?:page|next|prev|previous|cursor|continuation|sync|delta|resume|scroll|skip)[_.\- ]?(?:page)?[_.\- ]?tokens?|"
    r"(?:public|primary|foreign|idempotency|partition|sort|cache|effect|object|routing|map|natural)[_.\- ]?keys?",
    re.I,
)
_HARMLESS = re.compile(
    r"(?:null|none|nil|undefined|true|false|yes|no|n/a|string|str|text|bytes|int|integer|number|bool|boolean|object|any|"
    r"[|>][0-9+\-]{0,2}|"
    r"required|optional|missing|invalid|empty|hidden|redacted|removed|masked|expired|unset|not set|secretstr|varchar.*|"
    r"\*+|x{3,}|\.{2,}|-+|…|<[^<>]*>|\$\{[^{}]*\}|\{\{.*|%\([^()]*\)s|\$[A-Z_][A-Z0-9_]*|"
    r"(?:self|os|process|config|settings|env|environ|args|request|this)\..*|[A-Za-z_][\w.]*\(.*)?",
    re.I | re.S,
)
_SPACE, _LETTER, _DIGIT = re.compile(r"\s"), re.compile(r"[^\W\d_]"), re.compile(r"\d")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_SCHEME = re.compile(r"(?:basic|bearer|digest|token|negotiate|ntlm|apikey|api-key|hawk|aws4-hmac-sha256|sharedkey)\s+\S", re.I)


_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (word, re.compile(rf"(?:.*[_.\- ])?(?:{form})", re.I | re.S))
    for word, form in (
        ("cookies", "cookies"),
        ("map", rf"secrets|passwords|credentials|api{SEP}keys"),
        ("authorization", rf"(?:proxy{SEP})?authorization"),
        ("cookie", rf"(?:set{SEP})?cookie2?"),
        ("certain", rf"(?:{CERTAIN}){ENDING}"),
        ("likely", rf"(?:{LIKELY}){ENDING}"),
        ("vague", rf"(?:{VAGUE}){ENDING}"),
        ("phone", rf"(?:tele?phone|phone|mobile|cell|tel|fax)(?:{SEP}(?:number|no|nr))?"),
        ("iban", "iban"),
        ("card", rf"card{SEP}(?:number|no|num)|cc{SEP}(?:number|num)|pan|cvv2?|cvc2?|security{SEP}code"),
        ("email", rf"e{SEP}mail(?:{SEP}address)?"),
    )
)


@lru_cache(maxsize=4096)
def _tells(name: str) -> str:
    """What a name says: a kind of personal data, `map`, `cookies`, `authorization`, `cookie`, `certain`, `likely`,
    `vague`, or nothing."""
    words = _CAMEL.sub("_", name)
    for word, form in _FORMS:
        if form.fullmatch(words):
            return "" if word in ("likely", "vague") and is_ordinary(words) else word
    return ""


def kind_named(name: str, value: str, kinds: frozenset[str]) -> str | None:
    """The kind under which `value` is redacted because of its name; None where the name does not tell."""
    told = _tells(name[-200:])
    if told in ("", *kinds):
        return told or None
    if told == "authorization":
        return told if _SCHEME.match(value) or looks_secret(value) else None
    if told == "cookie":
        return told if "=" in value or looks_secret(value) else None
    if told == "cookies":
        return "cookie"
    likely = told == "likely" or (told == "vague" and len(value) >= VAGUE_LEAST)
    if told in ("map", "certain") or (likely and is_dense(value)):
        return "secret"
    return "password" if likely and "password" in kinds and looks_secret(value) else None


def is_map_of_secrets(name: str) -> bool:
    """`secrets`, `cookies`: every value under it counts as named so."""
    return _tells(name[-200:]) in ("map", "cookies")


def is_ordinary(name: str) -> bool:
    """A token that only says where a list goes on, a key that only names a row: a model has to hand them back."""
    return _ORDINARY.search(name) is not None


def is_harmless(value: str) -> bool:
    """Words, types, templates and calls that stand where a secret could: `password: str`, `token=${TOKEN}`."""
    return _HARMLESS.fullmatch(value[:500]) is not None


def entropy(value: str) -> float:
    """Shannon entropy in bits a character."""
    size = len(value)
    return math.log2(size) - sum([n * math.log2(n) for n in Counter(value).values()]) / size if size else 0.0


def looks_secret(value: str) -> bool:
    """Dense, without spaces, letters mixed with digits; not a UUID, not a word, not a number."""
    if not 8 <= len(value) <= 4096 or _SPACE.search(value) or _UUID.fullmatch(value):
        return False
    if not _LETTER.search(value) or not (_DIGIT.search(value) or (len(value) >= 24 and value != value.lower())):
        return False
    return entropy(value) >= (2.5 if len(value) < 16 else 3.0)


def is_dense(value: str) -> bool:
    """Looks like a secret and is not made of words."""
    return looks_secret(value) and not is_worded(value)
