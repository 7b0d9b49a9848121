"""The SDK's part of the environment: `FOURGATES_...`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class SdkSettings(BaseSettings):
    """What `Client.from_env` reads."""

    model_config = SettingsConfigDict(env_prefix="FOURGATES_", extra="ignore")

    environment: str = "development"
    """`development` accepts development keys, on loopback only."""
    bootstrap: str = "127.0.0.1:9092"
    """Kafka's bootstrap servers, host:port, several with commas."""
    home: Path = Path(".fourgates")
    """Where `fourgates up` keeps its state; development keys lie in its folder `keys`."""
    keys_file: Path | None = None
    """The host's key file, elsewhere than in development: the validator's public key and the sanitizer's verifying keys."""
    registry_url: str = ""
    """A Confluent-compatible schema registry; empty: the local folder."""
    schemas: Path | None = None
    """The local schema folder; unset: the one of this installation."""
    token: SecretStr | None = None
    """The bearer token of runs that name no principal."""
    wait_s: float = Field(default=30.0, ge=0)
    """How long a call waits for its observation."""
    ask_again_s: float = Field(default=10.0, gt=0)
    """After so long without any answer the same request is published again."""
    budget_s: float = Field(default=120.0, gt=0)
    """A call's total budget: queueing, facts, execution and retries; waiting for people is not counted."""
