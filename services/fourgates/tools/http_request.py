"""How arguments become one HTTP request to one fixed host, so that no argument can become anything but a value."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from fourgates.catalog import ToolContext
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.answers import refused_arguments
from fourgates.tools.sources import MISSING, Constant, Source, Template, check_source, look, text_of

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
KEY_HEADER: Final = "Idempotency-Key"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECODINGS: Final = 4
"""How often a value is decoded to see what a careless server would make of it."""
_RUNTIMES: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-type"})


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """One request as the contract describes it.

    `url` holds the host as text and, in its path, holes such as `{/order_id}`. `query`, `headers` and `body` give each name a
    source (see `sources`); what is missing in a call is left out, and so is null in query and headers. `body` maps JSON
    Pointers of the body to sources: `{"": ""}` sends all arguments as they are. Raises ConfigurationError for what could never
    be sent, or could be sent elsewhere.
    """

    method: str
    url: str
    query: Mapping[str, Source] = field(default_factory=dict)
    headers: Mapping[str, Source] = field(default_factory=dict)
    body: Mapping[str, Source] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ConfigurationError(f"method {self.method!r} is not one of {', '.join(sorted(METHODS))}")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"url {self.url!r} needs a scheme and a host, such as https://shop.example/orders")
        if any(brace in parts.netloc for brace in "{}"):
            raise ConfigurationError(f"url {self.url!r}: the host is fixed; only its path may have holes")
        if parts.query or parts.fragment or parts.username is not None:
            raise ConfigurationError(f"url {self.url!r}: no query, fragment or user; name the query in `query`")
        Template.parse(parts.path)
        for source in self.sources():
            check_source(source)
        for name in self.headers:
            if not _TOKEN.fullmatch(name) or name.lower() in _RUNTIMES:
                raise ConfigurationError(f"header {name!r} cannot be set by a contract")
        if self.body and self.method in ("GET", "HEAD"):
            raise ConfigurationError(f"{self.method} has no body; use `query`")
        if any(pointer and not pointer.startswith("/") for pointer in self.body):
            raise ConfigurationError("body: its names are JSON Pointers such as /amount/cents, or the empty string for all of it")

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port; nothing leaves it."""
        parts = urlsplit(self.url)
        return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]

    def sources(self) -> Iterator[Source]:
        """Everything that a request of it looks at."""
        yield from Template.parse(urlsplit(self.url).path).holes
        for named in (self.query, self.headers, self.body):
            yield from named.values()

    def words(self) -> list[Any]:
        """As part of the tool's version."""
        return [self.method, self.url, *(
            {name: [source.value] if isinstance(source, Constant) else source for name, source in named.items()}
            for named in (self.query, self.headers, self.body)
        )]  # fmt: skip

    def sends(self, source: Source) -> bool:
        """True where that source is part of every request."""
        return source in tuple(self.sources())

    def made(self, args: Mapping[str, Any], ctx: ToolContext | None) -> tuple[str, dict[str, str], bytes | None]:
        """(url, headers, body) of one call. Raises ToolError for a value that cannot be passed on."""
        parts = urlsplit(self.url)
        pairs = [f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in self._query(args, ctx)]
        url = f"{parts.scheme}://{parts.netloc}{self._path(parts.path, args, ctx)}" + ("?" + "&".join(pairs) if pairs else "")
        headers = {name: _header(name, value) for name, value in self._found(self.headers, args, ctx) if value is not None}
        if not self.body:
            return url, headers, None
        return url, {**headers, "Content-Type": "application/json"}, json.dumps(self._body(args, ctx), allow_nan=False).encode()

    def _path(self, path: str, args: Mapping[str, Any], ctx: ToolContext | None) -> str:
        template = Template.parse(path)
        out = [template.texts[0]]
        for hole, text in zip(template.holes, template.texts[1:], strict=True):
            value = look(hole, args, ctx)
            if value is MISSING or value is None:
                raise refused_arguments("missing_argument", f"The call needs {hole}.")
            try:
                piece = text_of(value)
            except TypeError:
                raise refused_arguments("unsafe_argument", f"{hole} must be a plain value.") from None
            if not piece or _more_than_a_name(piece):
                raise refused_arguments("unsafe_argument", f"{hole} cannot stand in a path.")
            out += [quote(piece, safe=""), text]
        made = "".join(out)
        if {".", ".."} & set(made.split("/")):  # two holes side by side
            raise refused_arguments("unsafe_argument", "The arguments make another path.")
        return made

    def _query(self, args: Mapping[str, Any], ctx: ToolContext | None) -> Iterator[tuple[str, str]]:
        for name, value in self._found(self.query, args, ctx):
            for item in value if isinstance(value, list) else [] if value is None else [value]:
                try:
                    yield name, text_of(item)
                except TypeError:
                    raise refused_arguments("unsafe_argument", f"{name} must be plain values.") from None

    def _body(self, args: Mapping[str, Any], ctx: ToolContext | None) -> Any:
        body: Any = {}
        for pointer, value in sorted(self._found(self.body, args, ctx)):
            if not pointer:
                body = dict(value) if isinstance(value, Mapping) else value
                continue
            *above, last = (token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])
            at = body
            for token in above:
                at = at.setdefault(token, {})
            at[last] = value
        return body

    def _found(
        self, named: Mapping[str, Source], args: Mapping[str, Any], ctx: ToolContext | None
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        for name, source in named.items():
            if (value := look(source, args, ctx)) is not MISSING:
                yield name, value


def _more_than_a_name(piece: str) -> bool:
    """Whether some server could take one path segment for more than a name, after whatever decoding it is fond of."""
    for _ in range(_DECODINGS):
        plain = unicodedata.normalize("NFKC", piece)  # a full-width slash is one to whoever normalises
        if plain in (".", "..") or any(char in "/\\;" or ord(char) < 0x20 or ord(char) == 0x7F for char in plain):
            return True
        decoded = unquote(piece, errors="replace")
        if "\ufffd" in decoded and "\ufffd" not in piece:
            return True  # bytes that are no UTF-8, such as a dot written too long
        if decoded == piece:
            return False
        piece = decoded
    return True


def _header(name: str, value: Any) -> str:
    """Visible ASCII as it is, everything else percent-encoded: no value ends its line."""
    try:
        return quote(text_of(value), safe="!#$&'()*+,/:;=?@[]<>{}|^`\\\" ")
    except TypeError:
        raise refused_arguments("unsafe_argument", f"The header {name} must be a plain value.") from None
