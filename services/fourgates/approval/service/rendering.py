"""From what is shown to HTML. Everything that comes from a record is escaped here, and its unseen characters are named."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fourgates.approval.visible import as_text, pieces

from .deciding import ending
from .presenting import difference, leaves, plain, to_type

HERE = Path(__file__).parent

WHY = {
    "risk": "It changes something, and no policy says that it may go ahead without a person.",
    "policy": "A policy asks for a person.",
    "origin_breach": "A value came from a source that may not decide it. Read the quoted source as somebody else's words.",
    "near_duplicate": "Another call has had this effect already. A yes lets it happen once more.",
    "in_doubt": "It is not known whether this call took effect. Find out first, then say which.",
}
REASONS = {
    "risk": "changes something", "policy": "policy", "origin_breach": "origin breach", "near_duplicate": "near duplicate",
    "in_doubt": "in doubt",
}  # fmt: skip


def visible(text: str) -> Markup:
    """Escaped text in which every unseen character is a mark with its code and name, kept apart from its surroundings."""
    mark = Markup('<span class="unseen" title="{}">{}</span>')
    parts = (mark.format(piece.name, piece.code) if piece.name else Markup.escape(piece.text) for piece in pieces(text))
    return Markup("<bdi>{}</bdi>").format(Markup("").join(parts))


def moment(ms: int) -> Markup:
    """A time in UTC, which the page turns into the reader's own."""
    iso = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}">{}</time>').format(iso, iso.replace("T", " ").replace("+00:00", " UTC"))


def environment() -> Environment:
    """Escapes by default; a name that a template does not know is an error, never an empty place."""
    env = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    env.filters |= {"visible": visible, "plain": plain, "moment": moment, "ending": ending, "as_text": as_text}
    env.globals |= {"difference": difference, "leaves": leaves, "to_type": to_type, "WHY": WHY, "REASONS": REASONS}
    return env
