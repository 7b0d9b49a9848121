"""What the approver service can be told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class DevelopmentUser(BaseModel):
    """Somebody whom the sign-in page offers in development."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """What the development issuer is asked for."""
    label: str = ""
    """Shown beside the name, such as the groups."""


class ServiceSettings(BaseModel):
    """Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    """Names under which the service is reached; a request for another one is refused."""
    https: bool = False
    """Whether people reach it by https: cookies then never travel in clear."""
    session_s: float = Field(default=1_800, gt=0)
    """The longest that a sign-in lasts; it never outlives its token."""
    confirm_s: float = Field(default=10, gt=0)
    """How long a decision waits to be seen in the log before its person is told that it is not confirmed yet."""
    history: int = Field(default=200, ge=1)
    """How many ended holds the history shows, newest first."""
    development_users: tuple[DevelopmentUser, ...] = ()
