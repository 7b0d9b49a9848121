"""A client of the approver's service, as one person."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx

from fourgates.cli.faults import BROKEN, Fault

_SECONDS = 30.0
_ID_CHARS = 32
_PAGE = 500
SIGN_IN = frozenset({"token_expired", "sign_in_again", "no_token"})
"""Outcomes that a new sign-in helps against."""


class Approver:
    """Raises Fault where the service does not answer, or does not do what it is asked for."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        self._url = url
        self._http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=_SECONDS, trust_env=False, transport=transport
        )

    def __enter__(self) -> Approver:
        return self

    def __exit__(self, *ended: object) -> None:
        self._http.close()

    def me(self) -> dict[str, Any]:
        """Who the token speaks for."""
        return self._asked("GET", "/api/me")

    def holds(self) -> Iterator[dict[str, Any]]:
        """What waits, the most pressing first, page by page. One that moves meanwhile may come twice."""
        turning = {"limit": str(_PAGE)}
        while True:
            page = self._asked("GET", "/api/holds", parameters=turning)
            yield from page["holds"]
            if page["next"] is None:
                return
            turning["after"] = page["next"]

    def history(self, **search: str) -> list[dict[str, Any]]:
        """The newest of what has ended and fits."""
        given = {name: value for name, value in search.items() if value}
        return list(self._asked("GET", "/api/history", parameters=given)["holds"])

    def hold(self, hold_id: str) -> dict[str, Any]:
        """The whole hold. `hold_id` may be the beginning of the id of an open one, or of its call."""
        if len(hold_id) < _ID_CHARS:
            found = {h["hold_id"] for h in self.holds() if h["hold_id"].startswith(hold_id) or h["call_id"].startswith(hold_id)}
            if len(found) != 1:
                raise Fault(f"{len(found)} open calls begin with {hold_id!r}; `fourgates approvals list` shows them.")
            hold_id = found.pop()
        return self._asked("GET", f"/api/holds/{hold_id}")

    def decide(self, hold_id: str, **decision: Any) -> dict[str, Any]:
        """What became of the decision, once the log shows it."""
        return self._asked("POST", f"/api/holds/{hold_id}/decision", decision)

    def changes(self) -> Iterator[str]:
        """Ids of holds as they change; ends when the stream does. The first one is empty: from here on nothing is missed."""
        try:
            with self._http.stream("GET", "/api/events", timeout=httpx.Timeout(_SECONDS, read=None)) as stream:
                if not stream.is_success:
                    stream.read()
                    raise self._refused(stream)
                yield ""
                for line in stream.iter_lines():
                    if line.startswith("data:"):
                        yield str(json.loads(line.removeprefix("data:"))["hold_id"])
        except httpx.HTTPError as fault:
            raise self._silent(fault) from fault

    def _asked(
        self, method: str, path: str, body: dict[str, Any] | None = None, parameters: dict[str, str] | None = None
    ) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, json=body, params=parameters)
            content: dict[str, Any] = answer.json()
        except httpx.HTTPError as fault:
            raise self._silent(fault) from fault
        except ValueError as fault:
            raise Fault(f"What answers at {self._url} is not the approver's service.") from fault
        if answer.is_success:
            return content
        raise self._refused(answer)

    def _refused(self, answer: httpx.Response) -> Fault:
        content = answer.json()
        outcome = content.get("outcome", answer.status_code)
        hint = " `fourgates approvals login` signs in anew." if outcome in SIGN_IN else ""
        return Fault(f"{content.get('message', 'refused')} ({outcome}){hint}", BROKEN)

    def _silent(self, fault: Exception) -> Fault:
        return Fault(f"The approver's service does not answer at {self._url} ({type(fault).__name__}): is it running?")
