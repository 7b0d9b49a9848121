"""Everything that is looked for in text: a cheap hint for the prefilter, the exact form, and a sample that must be found."""

from __future__ import annotations

from fourgates.gates import redaction_personal as personal
from fourgates.gates.redaction_kinds import CHOSEN, SECRETS, Pattern
from fourgates.gates.redaction_named import NAMED
from fourgates.gates.redaction_shapes import SHAPES

__all__ = ["CHOSEN", "PATTERNS", "SECRETS", "Pattern"]

PATTERNS: tuple[Pattern, ...] = (
    *NAMED,
    *SHAPES,
    Pattern("card", r"[0-9](?:[ .\x{a0}\-]?[0-9]){12}", r"[0-9](?:[ .\x{a0}\-]?[0-9]){12,}",
            ("card ", "4111 1111 ", "1111 1111", " ."), personal.cards),
    Pattern("iban", r"(?i)[a-z]{2}[0-9]{2}[ \-]?[0-9a-z]{4}", r"(?i)[a-z]{2}[0-9]{2}(?:[ \-]?[0-9a-z]{1,4}){3,8}",
            ("iban ", "DE89 3704 0044 ", "0532 0130 00", " ."), personal.ibans),
    Pattern("email", r"@|%40",
            r"[\pL\pN._%+'\-]+(?:@|%40)[\pL\pN\-]+(?:\.[\pL\pN\-]+)+", ("mail ", "anna@", "shop.example", " .")),
    Pattern("phone", r"[0-9](?:[ .()/\x{a0}\-]*[0-9]){6}", r"\+?[(]?[0-9](?:[ .()/\x{a0}\-]{0,3}[0-9]){6,}",
            ("call ", "+49 30 ", "901820", " ."), personal.phones),
)  # fmt: skip
