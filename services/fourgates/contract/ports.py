"""What a stage needs from the world, as protocols. `runtime/` has the adapters; the in-process ones pass the same suite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from .events import Record


@dataclass(frozen=True, slots=True)
class Position:
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Received:
    """A record as the broker gives it. `time_ms` is the broker's (LogAppendTime), the only time a fold looks at."""

    position: Position
    time_ms: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """A record that has proved itself: decoded, on its own partition, sealed by one who may write it."""

    record: Any
    position: Position
    time_ms: int
    writer: str
    """Who sealed it: the key id's first part (`validator`, `waiter`, ...); `run` for a host's request."""
    folded: Any = None
    """What the stage's `fold` made of the record; None for a stage that folds nothing."""
    raw: bytes = field(default=b"", repr=False)
    """The value's bytes, for who has to check a seal with a key that only the record names (the validator)."""


class UnreadAttempt(NamedTuple):
    """An Attempted as it says of itself, of which nothing is proved yet: most are never needed.

    Where a write was committed, it is no matter how often it was attempted.
    """

    call_id: str
    received: Received
    opener: Callable[[Received], Envelope]

    def read(self) -> Envelope:
        """What is proved. Raises Poison where that is nothing."""
        return self.opener(self.received)


Emit: TypeAlias = Record
"""What a stage hands to its runtime: topic and key follow from the record, the seal is put on when it is encoded."""


class Clock(Protocol):
    """Wall time for deadlines that travel, monotonic time for leases and timeouts."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Wakes after so many monotonic seconds."""


class Publisher(Protocol):
    """Appends records and waits until the broker has them (acks=all)."""

    async def publish(self, record: Record, partition: int | None = None) -> Position:
        """Sealed, encoded, keyed by `record.key()`, placed by the default partitioner unless `partition` says so."""


Sink: TypeAlias = Callable[[Envelope], None]
Wanted: TypeAlias = Callable[[str, str], bool]
"""Of a record's kind and call_id, before anything of it is proved: whether it could change anything for the reader."""


@dataclass(frozen=True, slots=True)
class Taking:
    """How much of a followed log is taken; see `Log.follow`."""

    wanted: Wanted | None = None
    briefly: Callable[[], bool] | None = None


class Following(Protocol):
    """A reading of whole partitions from their beginning, in order, that goes on until it is closed."""

    async def reached(self, partition: int, offset: int) -> None:
        """Returns once every record up to and including `offset` went through the sink."""

    async def reached_end(self) -> None:
        """Returns once everything that was in the log when this was called went through the sink."""

    async def close(self) -> None:
        """Ends the reading."""


class Log(Protocol):
    """Reading a topic without a group."""

    async def follow(
        self,
        topic: str,
        sink: Sink,
        partitions: Iterable[int] | None = None,
        wanted: Wanted | None = None,
        briefly: Callable[[], bool] | None = None,
    ) -> Following:
        """Every valid record of the partitions (None: all) through `sink`, from the beginning; invalid ones are skipped.

        With `wanted`, on a topic whose records have a kind and a call_id, those that it turns down are not even decoded.
        While `briefly` says so, ledger and effect entries come as their Beginning: as far as their folds look at them; and an
        Attempted as an UnreadAttempt, in an envelope without a writer.
        """

    async def read_at(self, position: Position) -> Envelope:
        """The one record at `position`. Raises Transient where it cannot be read, Poison where it is not valid."""


Offsets: TypeAlias = Mapping[tuple[str, int], int]
"""(topic, partition) -> an offset; all below it is meant."""


class Batches(Protocol):
    """Reading several topics in one group, many records at a time, without opening them. The audit sink's way in.

    Iterating waits for records and yields them as they come, in offset order of each partition, all valid or not. The next
    ones may be asked for before the last ones are committed.
    """

    def __aiter__(self) -> AsyncIterator[Sequence[Received]]: ...

    async def commit(self, offsets: Offsets) -> None:
        """The next start is at these offsets. A partition that is not ours any more is left out; raises Transient."""

    def assigned(self) -> Offsets:
        """The partitions that are ours now, each with the committed offset that this assignment began at (else the start)."""

    async def close(self) -> None:
        """Leaves the group; iterating ends."""


@dataclass(frozen=True, slots=True)
class BlobOwner:
    """For whom bytes were stored: whose call of which run they belong to."""

    subject: str
    run_id: str


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """What is known of stored bytes without reading them."""

    size: int
    stored_ms: int
    """When they were stored last, ms since the epoch by the store's clock."""


class BlobStore(Protocol):
    """Large bytes beside the log, under a tenant, named by the sha256 of their content.

    The same bytes may have several owners. Every method raises Transient where the store does not answer.
    """

    async def put(self, tenant: str, data: bytes, owner: BlobOwner | None = None) -> str:
        """Stores `data` and returns its reference. Raises OverQuota, ValueError without a tenant."""

    async def put_stream(self, tenant: str, chunks: AsyncIterator[bytes], owner: BlobOwner | None = None) -> str:
        """The same of bytes that need not fit into memory. Nothing is stored where `chunks` raises."""

    async def get(self, tenant: str, ref: str) -> bytes:
        """The bytes. Raises KeyError where there are none for that tenant, or where they are not what `ref` says."""

    async def read(self, tenant: str, ref: str, start: int, size: int) -> bytes:
        """At most `size` bytes from `start` on, unchecked. Raises KeyError."""

    async def info(self, tenant: str, ref: str) -> BlobInfo:
        """Raises KeyError."""

    async def owned(self, tenant: str, ref: str, owner: BlobOwner) -> bool:
        """Whether that owner stored them; with an empty run_id, in any run of that subject."""

    async def delete(self, tenant: str, ref: str) -> None:
        """Removes them, whoever owns them; nothing happens where there are none."""

    async def erase(self, tenant: str, subject: str) -> int:
        """Ends that subject's ownership of everything and removes what nobody else owns. How many blobs were removed.

        For the erasure of personal data. Repeating it is harmless; what is stored meanwhile is not covered.
        """

    async def expire(self, before_ms: int) -> int:
        """Removes what was stored last before that time, of all tenants. How many blobs were removed."""


class Signer(Protocol):
    """Makes seals for one writer with its newest key."""

    @property
    def key_id(self) -> str: ...

    @property
    def mac_bytes(self) -> int:
        """32 for HMAC-SHA256, 64 for Ed25519."""

    def sign(self, data: bytes) -> bytes: ...


class Verifier(Protocol):
    """Checks seals of all writers, also with retired keys."""

    def verify(self, key_id: str, data: bytes, mac: bytes, at_ms: int | None = None) -> bool:
        """False for an unknown key, a wrong or an empty mac; in constant time for HMAC.

        `at_ms` is the append time of what was sealed: a key that had been retired by then does not count. None: somebody else
        vouches for the time, and whoever holds a retired key can say nothing new by it.
        """


class Failpoints(Protocol):
    """Named points where a test may stop, kill or delay the process; nothing happens where none is armed."""

    async def hit(self, name: str, call_id: str = "") -> None:
        """This process is at the point of that name, with that call (empty: with none)."""


class Stage(Protocol):
    """One gate's process: a thin shell round a pure decision.

    The runtime calls `fold` exactly once for each record, in offset order of its partition, before `handle`; `handle` may be
    called again for the same record after a Transient, and runs beside the handling of other keys.
    """

    name: str
    reads: str
    restores: bool
    restores_briefly: bool

    async def start(self) -> None:
        """Before the first record; loads what the stage needs whole."""

    async def assigned(self, partitions: Sequence[int]) -> None:
        """These partitions are ours now; called before their first record. The stage loads their state."""

    async def revoked(self) -> None:
        """No partition is ours any more; forget their state. Work under way was drained before."""

    def fold(self, envelope: Envelope) -> Any:
        """Takes the record into the stage's state; what it returns reaches `handle` as `envelope.folded`.

        A stage with `restores = True` gets here, after `assigned`, also every record below the committed offset: those are
        folded and not handled. With `restores_briefly` as well they may come as their Beginning.
        """

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        """The decision. Raises Transient or Poison; any other exception is unforeseen."""

    async def tick(self) -> Sequence[Emit]:
        """Called about every half second for what time alone brings (expiry, leases)."""

    async def close(self) -> None:
        """After the last record."""
