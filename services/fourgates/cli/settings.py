"""All settings of a process, read from the environment in this one place.

`FOURGATES_STAGES__EXECUTOR__DRAIN=10` reaches a stage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from fourgates.approval.notices.settings import NoticeSettings
from fourgates.approval.service.settings import ServiceSettings
from fourgates.assembly import StageSettings
from fourgates.audit.settings import DoorSettings, SinkSettings, StoreSettings
from fourgates.cli.standing import standing_settings
from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.blob_stores import BlobSettings
from fourgates.runtime.keys import is_loopback
from fourgates.runtime.worker_settings import WorkerSettings

PREFIX = "FOURGATES_"
SETTINGS_FILE = "fourgates.env"
"""Settings of the current folder, NAME=value a line; the environment goes before it."""


class Address(BaseModel):
    """Where something listens."""

    model_config = ConfigDict(frozen=True)

    host: str
    port: int = Field(ge=0, le=65_535)

    @classmethod
    def parse(cls, setting: str, text: str) -> Address:
        """`host:port`. Raises ConfigurationError naming the setting."""
        host, _, port = text.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise ConfigurationError(f"{setting}: {text!r} is not host:port, such as 127.0.0.1:8080")
        return cls(host=host.strip("[]"), port=int(port))

    @property
    def url(self) -> str:
        """Where a client on this machine reaches it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


class DevelopmentUser(BaseModel):
    """Somebody whom the development issuer vouches for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tenant: str
    groups: tuple[str, ...] = ()
    person: str = ""
    agent: str = ""
    """The agent that calls for this user with `fourgates call`."""


class Settings(BaseSettings):
    """Defaults fit one machine in development."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", env_file=SETTINGS_FILE, extra="ignore", frozen=True,
        nested_model_default_partial_update=True,
    )  # fmt: skip

    environment: Literal["development", "production"] = "development"
    """`development` accepts development keys and one broker, on loopback only."""
    bootstrap: str = "127.0.0.1:9092"
    """Kafka's bootstrap servers, host:port, several with commas."""
    home: Path = Path(".fourgates")
    """Where a process keeps its state: development keys, blobs, logs, the embedded ClickHouse."""
    catalog: str = "fourgates.demo.shop:catalog"
    """The tools, as module:attribute."""
    policies: Path | None = None
    """Cedar policies in place of those that ship with the catalog. What changes in the file counts without a restart."""
    policy_links: Path | None = None
    """JSON that fills in the templates among the policies, in the form of the Cedar command line."""
    keys_file: Path | None = None
    """The process's key file; needed elsewhere than in development."""
    issuers_file: Path | None = None
    """Whose tokens count: {issuer: {"jwks_file" or "jwks_url", "algorithms", "audience", "approvals_audience"}}; needed
    elsewhere than in development."""
    users_file: Path | None = None
    """Development users: {name: {"tenant", "groups", "person", "agent"}}."""
    token: SecretStr | None = None
    """The bearer token with which this command line calls or decides, where there is no development issuer."""
    registry_url: str = ""
    """A Confluent-compatible schema registry; empty: the local folder."""
    schemas: Path | None = None
    """The local schema folder; unset: the one of this installation."""
    replication: int = Field(default=1, ge=1)
    """Replicas of every topic that `topics create` makes."""
    kafka_libs: Path = Path("~/.cache/fourgates/kafka-libs")
    """Where `up` keeps the jars of the local broker, fetched once."""
    blobs: BlobSettings = BlobSettings()
    """Where results lie that are too large for a record: `FOURGATES_BLOBS__URL` and so on."""
    clickhouse_url: str = ""
    """`http://user@host:8123`; empty: the embedded engine under `home`."""
    clickhouse_password: SecretStr = SecretStr("")
    approver: str = "127.0.0.1:8080"
    """Where the approver's service listens."""
    audit_door: str = "127.0.0.1:8124"
    """Where the audit's query door listens, on loopback."""
    health: str = "127.0.0.1:0"
    """Where this process answers /healthz, /readyz and /metrics; port 0: any free one."""
    start_wait: float = Field(default=60.0, gt=0)
    """Seconds to wait for the broker at start."""
    failpoints: Path | None = None
    """For fault tests, in development only: the folder in which failpoints are armed (`runtime/failpoints.py`)."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Of the processes; a command tells what it does in any case."""
    worker: WorkerSettings = WorkerSettings()
    """How a stage's worker runs: group, concurrency, drain, session."""
    stages: StageSettings = StageSettings()
    sink: SinkSettings = SinkSettings()
    service: ServiceSettings = ServiceSettings()
    notices: NoticeSettings = NoticeSettings()
    """Whom the approver's process tells of what waits: `FOURGATES_NOTICES__HOOKS=[{"url", "secret", "tenant", ...}]`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The first that names a setting wins; what `fourgates up` found or chose for this home comes last."""
        return init_settings, env_settings, dotenv_settings, _Standing(settings_cls)

    @property
    def addresses(self) -> Iterator[tuple[str, str]]:
        """(variable, address) of everything that this process speaks to or listens on."""
        yield from ((f"{PREFIX}BOOTSTRAP", part.strip()) for part in self.bootstrap.split(","))
        for name in ("approver", "audit_door", "health", "registry_url", "clickhouse_url"):
            if address := getattr(self, name):
                yield PREFIX + name.upper(), address

    @property
    def kafka_folder(self) -> Path:
        return self.kafka_libs.expanduser()

    def store(self) -> StoreSettings:
        if self.clickhouse_url:
            return StoreSettings(url=self.clickhouse_url, password=self.clickhouse_password)
        return StoreSettings(folder=self.home / "clickhouse")

    def door(self) -> DoorSettings:
        where = Address.parse(f"{PREFIX}AUDIT_DOOR", self.audit_door)
        return DoorSettings(host=where.host, port=where.port)

    def users(self) -> Mapping[str, DevelopmentUser]:
        """The development users; none without a file. Raises ConfigurationError for a file that does not say any."""
        if self.users_file is None:
            return {}
        try:
            entries = json.loads(self.users_file.read_text(encoding="utf-8"))
            return {name: DevelopmentUser.model_validate(entry) for name, entry in entries.items()}
        except (OSError, ValueError, AttributeError) as fault:
            raise ConfigurationError(f"{PREFIX}USERS_FILE: {self.users_file} does not hold users ({_short(fault)})") from fault


class _Standing(PydanticBaseSettingsSource):
    """The settings of the `fourgates up` that holds this home now, if one does."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        return standing_settings(Path(self.current_state.get("home", Settings.model_fields["home"].default)))


def read_settings(**chosen: Any) -> Settings:
    """The environment's settings, after those that the command line chose.

    Raises ConfigurationError naming the variable, what is wrong and what is allowed.
    """
    try:
        settings = Settings(**chosen)
    except ValidationError as fault:
        first = fault.errors()[0]
        name = PREFIX + "__".join(str(part) for part in first["loc"]).upper()
        raise ConfigurationError(f"{name}: {first['msg']}{_given(name, first['input'])}") from None
    except SettingsError as fault:  # a nested value that is not JSON
        field = fault.args[0].split('"')[1] if '"' in str(fault) else ""
        raise ConfigurationError(f"{PREFIX}{field.upper()}: its value is not JSON; name one part, such as "
                                 f"{PREFIX}{field.upper()}__NAME=value") from None  # fmt: skip
    for variable, address in settings.addresses:
        if not variable.endswith("_URL"):
            Address.parse(variable, address)
        elif not address.startswith(("http://", "https://")):
            raise ConfigurationError(f"{variable}: it is no URL, such as http://127.0.0.1:8081")
    if not is_loopback(settings.audit_door):
        raise ConfigurationError(f"{PREFIX}AUDIT_DOOR: {settings.audit_door!r} is not on loopback, such as 127.0.0.1:8124")
    return settings


def child_environment(**chosen: str) -> dict[str, str]:
    """This process's environment for a child, with these settings in place of its own."""
    return {**os.environ, **{PREFIX + name.upper(): value for name, value in chosen.items()}}


def unless_set(name: str, value: str) -> None:
    """Sets a variable of this process that a catalog of others reads, where nobody has."""
    os.environ.setdefault(name, value)


def has_display() -> bool:
    """Whether a browser would have somewhere to appear."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _given(name: str, value: Any) -> str:
    secret = any(word in name for word in ("TOKEN", "PASSWORD", "SECRET", "HOOKS"))
    # Of a part that is missing the input is everything beside it, secrets included.
    return "" if secret or isinstance(value, dict) else f" (it is {str(value)[:80]!r})"


def _short(fault: Exception) -> str:
    return str(fault).splitlines()[0][:200] if str(fault) else type(fault).__name__
