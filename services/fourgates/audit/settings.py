"""What can be set about the audit sink, its store and its query door."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from fourgates.contract.topology import CALLS_LEDGER


class StoreSettings(BaseModel):
    """Where ClickHouse is: a server's URL, or the folder of the embedded engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = ""
    """`http://user@host:8123`; empty: the embedded engine in `folder`."""
    password: SecretStr = SecretStr("")
    folder: Path | None = None
    """The embedded engine's data. One process holds it."""


class ReadLimits(BaseModel):
    """What one reading query may use."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: int = Field(default=15, gt=0)
    rows: int = Field(default=100_000, gt=0)
    """Rows of a result; more is an error, not a cut."""
    result_bytes: int = Field(default=64 << 20, gt=0)
    memory_bytes: int = Field(default=1 << 30, gt=0)
    threads: int = Field(default=1, gt=0)
    """Of the engine, for each query: the sink keeps a core."""
    query_bytes: int = Field(default=131_072, gt=0)


class SinkSettings(BaseModel):
    """How the sink batches and how often it says how far it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int = Field(default=50_000, gt=0)
    bytes: int = Field(default=32 << 20, gt=0)
    """A batch is inserted at so many rows or bytes of records. Three are held in memory: one that is being inserted, one that
    is being prepared, one that is being read."""
    age: float = Field(default=0.1, ge=0)
    """Seconds after which the oldest record of a batch is inserted, however small the batch, unless the one before still is."""
    bulk: int = Field(default=2_000, gt=0)
    """So many records and more are made into rows by the embedded engine; where there is none, all of them one by one."""
    heartbeat: float = Field(default=1.0, gt=0)
    """Seconds between watermarks of a partition that stands still."""
    heartbeat_topics: tuple[str, ...] = (CALLS_LEDGER,)
    """Whose partitions get watermarks at once after each insert, and heartbeats while they stand still: the executor waits for
    the ledger's. The others' come once in a heartbeat, where they moved."""
    retry_base: float = Field(default=0.1, gt=0)
    retry_cap: float = Field(default=5.0, gt=0)


class DoorSettings(BaseModel):
    """The loopback query door."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(default=8124, ge=0, le=65_535)
    readers: int = Field(default=2, gt=0)
    """Queries at a time."""
    waiting: int = Field(default=16, ge=0)
    """Queries that may wait for a reader; a further one is refused."""
    limits: ReadLimits = ReadLimits()
