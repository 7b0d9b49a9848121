"""Web addresses and folders that a text names, and what lies within one.

Fail closed: what is not plainly an address or a path within one is none. A bare `readme.md` is no address, although a site may
be called so: only what was written with its scheme or with `www.` is meant as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HOST = r"(?P<host>[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63}){1,10})(?P<port>:[0-9]{1,5})?"
_SCHEME = r"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://"
# A letter of any script or a joiner beside it makes it a part of something longer; `host:password@other` is another host.
_WRITTEN = re.compile(
    rf"(?<![\w.@/\\+~%&=#?:-])(?:{_SCHEME}|(?=[Ww]{{3}}\.)){_HOST}"
    r"(?:(?P<rest>[/?#][^\s\x00<>\"`\\^{}|]*+)(?=[\s\x00<>\"`}]|$)|(?:['’]s)?[.,;:!?)\]}\"'”’»*]*+(?=[\s\x00<>`]|$))"
)
_VALUE = re.compile(rf"(?:{_SCHEME})?{_HOST}(?P<rest>[/?#][A-Za-z0-9._~!$&'()*+,;=:@%/?#\[\]-]*)?")
_REST = re.compile(r"(?P<path>[^?#]*)(?P<tail>.*)", re.S)
_ENCODED_STEP = re.compile(r"%(?:2e|2f|5c|00)", re.I)
_TRAILING = ".,;:!?)]}\"'*”’»"
_FOLDER = re.compile(r"~?(?:/[^/\\\x00-\x1f\x7f]+)+/?")
DEPTH = 16
"""A path that lies deeper lies within nothing: each of its folders costs a look through what the user said."""


@dataclass(frozen=True, slots=True)
class Address:
    """A web address in one form: host in small letters, path without its last slash."""

    scheme: str
    """http, https, or empty where none was written."""
    host: str
    """With the port where one was written."""
    path: str
    tail: str
    """Query and fragment, as written."""

    def equals(self, named: Address) -> bool:
        """Whether this says no other place than `named`. https for http is the same place, http for https is not."""
        return self._on(named) and (self.path, self.tail) == (named.path, named.tail)

    def within(self, named: Address) -> bool:
        """Whether this is `named` or lies beneath it; nothing lies beneath a query."""
        return self._on(named) and not named.tail and f"{self.path}/".startswith(f"{named.path}/")

    def _on(self, named: Address) -> bool:
        return self.host == named.host and not (self.scheme == "http" and named.scheme == "https")


def address_of(value: str) -> Address | None:
    """The address that a value is, with or without its scheme; None for anything doubtful."""
    found = _VALUE.fullmatch(value) if len(value) <= 4_096 else None
    return _address(found, found["rest"] or "") if found else None


def addresses_in(text: str) -> Iterator[tuple[Address, int]]:
    """The addresses that a text names as such, each with its place."""
    for found in _WRITTEN.finditer(text):
        address = _address(found, (found["rest"] or "").rstrip(_TRAILING))
        if address is not None:
            yield address, found.start()


def _address(found: re.Match[str], rest: str) -> Address | None:
    parts = _REST.fullmatch(rest)
    assert parts is not None, "every text has this form"
    path = parts["path"].removesuffix("/")
    if _steps_out(path.split("/")[1:]) or _ENCODED_STEP.search(path):
        return None
    return Address((found["scheme"] or "").lower(), found["host"].lower() + (found["port"] or ""), path, parts["tail"])


def folders_of(value: str) -> tuple[str, ...]:
    """The folders that an absolute path (or one of the home folder) lies in, the nearest first; never the root itself."""
    if len(value) > 4_096 or not _FOLDER.fullmatch(value):
        return ()
    head, *names = value.removesuffix("/").split("/")
    if len(names) > DEPTH or _steps_out(names):
        return ()
    return tuple("/".join([head, *names[:count]]) for count in range(len(names) - 1, 0, -1))


def _steps_out(names: list[str]) -> bool:
    return any(name in ("", ".", "..") for name in names)
