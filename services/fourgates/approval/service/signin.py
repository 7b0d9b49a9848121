"""Who is there: bearer tokens of the approvers' own audience, and sessions of the page that stand for one."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fourgates.contract.codes import Code
from fourgates.contract.parts import Principal
from fourgates.contract.ports import Clock
from fourgates.gates.identity import ProvenToken
from fourgates.gates.refusal import Refusal

MOST_SESSIONS = 10_000


class Tokens(Protocol):
    """A TokenVerifier whose issuers carry the audience `fourgates-approvals`."""

    def prove(self, token: str) -> ProvenToken | Refusal: ...


@dataclass(slots=True)
class Session:
    """One signed-in browser. It holds what the token proved, never the token."""

    id: str = field(repr=False)
    csrf: str = field(repr=False)
    token: ProvenToken
    until_ms: int

    def csrf_fits(self, value: str) -> bool:
        return hmac.compare_digest(self.csrf.encode(), value.encode())


class Doorkeeper:
    """Lets people in, never an agent, a service or a token that was made for something else."""

    def __init__(self, tokens: Tokens, clock: Clock, session_s: float, issue: Callable[[str], str] | None = None) -> None:
        self._tokens, self._clock, self._session_ms = tokens, clock, int(session_s * 1_000)
        self._issue = issue
        self._sessions: dict[str, Session] = {}

    def prove(self, token: str) -> tuple[Principal, ProvenToken] | Refusal:
        """Whom the token lets in now. Raises Transient while the issuer's newer keys are being fetched."""
        proven = self._tokens.prove(token)
        who = proven if isinstance(proven, Refusal) else proven.at(self._clock.now_ms())
        if isinstance(who, Refusal):
            return who
        assert isinstance(proven, ProvenToken)
        if who.agent or who.service:
            return Refusal(Code.IDENTITY_INVALID, "not_a_person")
        return who, proven

    def open(self, token: str) -> Session | Refusal:
        """A new session for whom the token lets in."""
        proven = self.prove(token)
        if isinstance(proven, Refusal):
            return proven
        while len(self._sessions) >= MOST_SESSIONS:  # the oldest gives way
            del self._sessions[next(iter(self._sessions))]
        until_ms = self._clock.now_ms() + self._session_ms
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), proven[1], until_ms)
        self._sessions[session.id] = session
        return session

    def development_token(self, name: str) -> str | None:
        """A token for a development user; None where there is no development issuer."""
        return self._issue(name) if self._issue is not None else None

    def session(self, session_id: str) -> tuple[Session, Principal] | None:
        """The session and whom it stands for, while both it and its token last."""
        session = self._sessions.get(session_id)
        if session is None:
            return None
        now_ms = self._clock.now_ms()
        who = session.token.at(now_ms)
        if isinstance(who, Refusal) or now_ms >= session.until_ms:
            self.close(session_id)
            return None
        return session, who

    def close(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
