"""What the approver service can be told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SecretStr


class DevelopmentUser(BaseModel):
    """Somebody whom the sign-in page offers in development."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """What the development issuer is asked for."""
    label: str = ""
    """Shown beside the name, such as the groups."""


class OpenIdSettings(BaseModel):
    """The OpenID provider that people sign in at; its tokens need the claims `sub`, `tenant`, `groups`, `auth_time`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str
    """As it stands in its tokens; its discovery document lies below it."""
    client_id: str
    client_secret: SecretStr | None = None
    """None: a public client; PKCE protects the code in any case."""
    cli_client_id: str = ""
    """A public client with a loopback redirect, for `fourgates approvals login`; empty: there is no such sign-in."""
    scopes: tuple[str, ...] = ("openid",)
    algorithms: frozenset[str] = frozenset({"RS256", "ES256", "Ed25519"})
    extra: dict[str, str] = Field(default_factory=dict)
    """Further parameters of the authorization request, such as `audience`."""


class ServiceSettings(BaseModel):
    """Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """Names under which the service is reached; a request for another one is refused."""
    https: bool = False
    """Whether people reach it by https: cookies then never travel in clear."""
    openid: OpenIdSettings | None = None
    session_s: float = Field(default=1_800, gt=0)
    """The longest that a sign-in lasts."""
    recent_s: float | None = Field(default=900, gt=0)
    """A decision needs a sign-in that is no older than this; None: as old as the session may be."""
    confirm_s: float = Field(default=10, gt=0)
    """How long a decision waits to be seen in the log before its person is told that it is not confirmed yet."""
    history: int = Field(default=50, ge=1, le=500)
    """How many ended holds a page of the history shows, newest first."""
    listed: int = Field(default=100, ge=1, le=1_000)
    """How many waiting calls the inbox shows at once, the most pressing first; the rest is counted."""
    development_users: tuple[DevelopmentUser, ...] = ()
