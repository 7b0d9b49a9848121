"""A client of the query door, for whoever is not the process that holds the store: reports, explanations, plain SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import httpx

_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})
_QUOTED = _ESCAPED | str.maketrans({"'": "\\'"})


class DoorError(Exception):
    """The door refused or could not be reached; the sentence says which."""


class DoorClient:
    """Asks the door. Usable as the `query` of reports, integrity and explanations."""

    def __init__(self, url: str, token: str, timeout: float = 60.0, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"X-ClickHouse-User": "fourgates", "X-ClickHouse-Key": token}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport, trust_env=False)
        self._url = url

    def text(self, sql: str, output_format: str = "TabSeparatedWithNames", parameters: Mapping[str, Any] | None = None) -> str:
        """The answer in any of ClickHouse's text formats. Raises DoorError."""
        query = {"default_format": output_format}
        query |= {f"param_{name}": _parameter(value) for name, value in (parameters or {}).items()}
        try:
            response = self._http.post("/", params=query, content=sql.encode())
        except httpx.HTTPError as fault:
            why = f"the audit service does not answer at {self._url} ({type(fault).__name__}): is it running?"
            raise DoorError(why) from fault
        if response.status_code != httpx.codes.OK:
            raise DoorError(response.text.strip())
        return response.text

    def __call__(self, sql: str, parameters: Mapping[str, Any] | None = None, /) -> list[dict[str, Any]]:
        """Rows as dicts; times are text, in UTC."""
        lines = self.text(sql, "JSONEachRow", parameters).split("\n")  # only: texts may hold other separators of lines
        return [json.loads(line) for line in lines if line]

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> DoorClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _parameter(value: Any) -> str:
    """As the protocol writes it: an array as a literal, everything else in TabSeparated escaping."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_literal(one) for one in value)}]"
    return str(value).translate(_ESCAPED)


def _literal(one: Any) -> str:
    return "'" + one.translate(_QUOTED) + "'" if isinstance(one, str) else str(one)
