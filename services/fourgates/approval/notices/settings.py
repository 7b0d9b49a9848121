"""Who is told of what waits, where, and when."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator


class Form(StrEnum):
    """The body's shape."""

    PLAIN = "plain"
    """Fields of our own."""
    SLACK = "slack"
    """What Slack's incoming webhooks take, and what takes after them."""
    EMAIL = "email"
    """Subject, text, HTML and addressees, for a mailer's hook."""


class NoticeKind(StrEnum):
    ASKED = "asked"
    REMINDER = "reminder"
    ESCALATION = "escalation"


class Hook(BaseModel):
    """One receiver. It hears of one tenant's calls only, and where groups are named, only of what these could decide."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    secret: SecretStr
    """Signs what is sent; the receiver has it too. At least 16 characters."""
    tenant: str = Field(min_length=1)
    groups: frozenset[str] = frozenset()
    """Empty: every group of the tenant."""
    form: Form = Form.PLAIN
    to: tuple[str, ...] = ()
    """Addressees, for `email`."""
    kinds: frozenset[NoticeKind] = frozenset(NoticeKind)
    """What this receiver is told: an escalation may go to others than the first question."""

    @field_validator("url")
    @classmethod
    def _safe(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme == "https" or (parts.scheme == "http" and _on_loopback(parts.hostname or "")):
            return url
        raise ValueError("a hook is reached by https; by http on this machine only")

    @field_validator("secret")
    @classmethod
    def _long(cls, secret: SecretStr) -> SecretStr:
        if len(secret.get_secret_value()) < 16:
            raise ValueError("a secret that signs has at least 16 characters")
        return secret

    @model_validator(mode="after")
    def _addressed(self) -> Hook:
        if self.form is Form.EMAIL and not self.to:
            raise ValueError("an email hook names its addressees in `to`")
        return self

    def may_hear(self, tenant: str, group: str) -> bool:
        return tenant == self.tenant and (not self.groups or group in self.groups)


class NoticeSettings(BaseModel):
    """Times in seconds. Without hooks nobody is told, and nothing is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hooks: tuple[Hook, ...] = ()
    page: str = ""
    """Where people reach the approver's page, such as https://approvals.example.com; empty: where the service listens."""
    remind_after_s: float = Field(default=1_800, gt=0)
    """After the question; at the latest when half of its time is over."""
    escalate_before_s: float = Field(default=3_600, gt=0)
    """Before it expires; at the earliest when three quarters of its time are over."""
    doubt_s: float = Field(default=14_400, gt=0)
    """A doubt never expires: it is escalated when it has been open for so long."""
    timeout_s: float = Field(default=10, gt=0)
    """How long a receiver may take to answer."""
    retry_base_s: float = Field(default=1, gt=0)
    retry_cap_s: float = Field(default=300, gt=0)
    """An attempt that failed is made again after at most so long, for as long as the question is open."""


def _on_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
