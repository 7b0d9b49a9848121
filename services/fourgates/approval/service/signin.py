"""Who is there: bearer tokens of the approvers' own audience, and sessions of the page that stand for a sign-in."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fourgates.contract.codes import Code
from fourgates.contract.parts import Principal
from fourgates.contract.ports import Clock
from fourgates.gates.identity import CLOCK_SKEW_MS, ProvenToken
from fourgates.gates.refusal import Refusal

MOST_SESSIONS = 10_000


class Tokens(Protocol):
    """A TokenVerifier whose issuers carry the audience `fourgates-approvals`."""

    def prove(self, token: str) -> ProvenToken | Refusal: ...


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A person, and when they last proved who they are."""

    who: Principal
    at_ms: int | None
    """None where nobody says when."""
    until_ms: int
    """When the token ends."""


@dataclass(slots=True)
class Session:
    """One signed-in browser. It holds what the token proved, never the token."""

    id: str = field(repr=False)
    csrf: str = field(repr=False)
    signed_in: SignedIn
    until_ms: int

    @property
    def who(self) -> Principal:
        return self.signed_in.who

    def csrf_fits(self, value: str) -> bool:
        return hmac.compare_digest(self.csrf.encode(), value.encode())


class Doorkeeper:
    """Lets people in, never an agent, a service or a token that was made for something else."""

    def __init__(
        self,
        tokens: Tokens,
        clock: Clock,
        session_s: float,
        recent_s: float | None = None,
        issue: Callable[[str], str] | None = None,
    ) -> None:
        self._tokens, self._clock, self._session_ms = tokens, clock, int(session_s * 1_000)
        self._recent_ms = None if recent_s is None else int(recent_s * 1_000)
        self._issue = issue
        self._sessions: dict[str, Session] = {}

    def prove(self, token: str) -> SignedIn | Refusal:
        """Whom the token lets in now. Raises Transient while the issuer's newer keys are being fetched."""
        proven = self._tokens.prove(token)
        return proven if isinstance(proven, Refusal) else self._person(proven)

    def open_with(self, token: str) -> Session | Refusal:
        """A new session for whom the token lets in; it never outlives the token."""
        proven = self._tokens.prove(token)
        return proven if isinstance(proven, Refusal) else self.open(proven, proven.until_ms)

    def open(self, proven: ProvenToken, until_ms: int | None = None) -> Session | Refusal:
        """A new session, until `until_ms` at the latest."""
        signed_in = self._person(proven)
        if isinstance(signed_in, Refusal):
            return signed_in
        while len(self._sessions) >= MOST_SESSIONS:  # the oldest gives way
            del self._sessions[next(iter(self._sessions))]
        ends_ms = self._clock.now_ms() + self._session_ms
        ends_ms = ends_ms if until_ms is None else min(ends_ms, until_ms)
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), signed_in, ends_ms)
        self._sessions[session.id] = session
        return session

    def development_token(self, name: str) -> str | None:
        """A token for a development user; None where there is no development issuer."""
        return self._issue(name) if self._issue is not None else None

    def session(self, session_id: str) -> Session | None:
        """The session, while it lasts."""
        session = self._sessions.get(session_id)
        if session is not None and self._clock.now_ms() >= session.until_ms:
            self.close(session_id)
            return None
        return session

    def close(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    def lasts(self, signed_in: SignedIn) -> bool:
        """Whether the token of a long answer still counts."""
        return self._clock.now_ms() < signed_in.until_ms + CLOCK_SKEW_MS

    def recent(self, signed_in: SignedIn) -> bool:
        """Whether this sign-in is new enough to decide with. One of an unknown time is not."""
        if self._recent_ms is None:
            return True
        if signed_in.at_ms is None:
            return False
        age_ms = self._clock.now_ms() - signed_in.at_ms
        return -CLOCK_SKEW_MS <= age_ms <= self._recent_ms + CLOCK_SKEW_MS

    def _person(self, proven: ProvenToken) -> SignedIn | Refusal:
        who = proven.at(self._clock.now_ms())
        if isinstance(who, Refusal):
            return who
        if who.agent or who.service:
            return Refusal(Code.IDENTITY_INVALID, "not_a_person")
        return SignedIn(who, proven.signed_in_ms, proven.until_ms)
