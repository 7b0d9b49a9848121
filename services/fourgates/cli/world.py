"""From settings to the world on Kafka: keys, schemas, issuers, bus, blobs, catalog and policies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial

import click

from fourgates.assembly import World, load_policies
from fourgates.catalog import Catalog
from fourgates.catalog.loading import load_catalog
from fourgates.cli.settings import PREFIX, Settings, unless_set
from fourgates.contract.avro import AvroCodec, SchemaRegistry
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import Failpoints, Publisher
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.demo.config import VARIABLE
from fourgates.gates.identity import APPROVALS_AUDIENCE, IssuerConfig
from fourgates.gates.permission import PolicySource
from fourgates.runtime.blob_stores import BlobStores, blob_stores
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.data import data_folder
from fourgates.runtime.failpoints import FailingPublisher, FolderFailpoints
from fourgates.runtime.jwks import Issuers
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.keys import DevKeys, Keyring, require_development
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.policy_files import PolicyFiles
from fourgates.runtime.registry import HttpRegistry, LocalRegistry
from fourgates.runtime.topics import await_broker, check_durability, check_topics


class Base:
    """What every process has before it speaks to a broker. Each part is made when it is first asked for, and can then refuse."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock, self.metrics = SystemClock(), Metrics()

    @cached_property
    def keyring(self) -> Keyring:
        """Raises ConfigurationError naming the setting."""
        settings = self.settings
        if settings.keys_file is not None:
            try:
                return Keyring.from_file(settings.keys_file)
            except ConfigurationError as fault:
                raise ConfigurationError(f"{PREFIX}KEYS_FILE: {fault}") from None
        if settings.environment != "development":
            raise ConfigurationError(f"{PREFIX}KEYS_FILE: not set; {PREFIX}ENVIRONMENT={settings.environment} needs a key file "
                                     "(`fourgates keys create FILE` makes one)")  # fmt: skip
        require_loopback(settings)
        return DevKeys.load(settings.home / "keys")

    @cached_property
    def codec(self) -> AvroCodec:
        """Raises Transient where the schema registry is away, ConfigurationError where the schemas do not fit."""
        url, folder = self.settings.registry_url, self.settings.schemas
        registry: SchemaRegistry = HttpRegistry(url) if url else LocalRegistry(folder or data_folder("schemas"))
        return AvroCodec(registry)

    @cached_property
    def opener(self) -> RecordOpener:
        return RecordOpener(self.codec, self.keyring.verifier())

    @cached_property
    def catalog(self) -> Catalog:
        shop = self.settings.home.absolute() / "demo" / "demo.json"
        if shop.exists():  # a command beside `fourgates up --demo`
            unless_set(VARIABLE, str(shop))
        try:
            return load_catalog(self.settings.catalog)
        except ConfigurationError as fault:
            raise ConfigurationError(f"{PREFIX}CATALOG: {fault}") from None

    @cached_property
    def policy_files(self) -> PolicyFiles | None:
        """The operator's policies on disk; None where those of the catalog count."""
        settings, catalog = self.settings, self.catalog
        if settings.policies is None:
            if settings.policy_links is not None:
                raise ConfigurationError(f"{PREFIX}POLICY_LINKS: they fill in templates of {PREFIX}POLICIES, which is not set")
            return None
        load = partial(load_policies, catalog)
        return PolicyFiles(settings.policies, settings.policy_links, load, self.metrics)

    @cached_property
    def policies(self) -> PolicySource:
        files = self.policy_files
        if files is None:
            return load_policies(self.catalog)
        try:
            return files.open()
        except ConfigurationError as fault:
            raise ConfigurationError(f"{PREFIX}POLICIES: {fault}") from None

    @cached_property
    def failpoints(self) -> Failpoints | None:
        """None but in development, where a folder is set. Raises ConfigurationError naming the setting."""
        folder = self.settings.failpoints
        if folder is None:
            return None
        if self.settings.environment != "development":
            raise ConfigurationError(f"{PREFIX}FAILPOINTS: whoever can write to {folder} can stop this process; "
                                     "it is for tests, leave it unset")  # fmt: skip
        return FolderFailpoints(folder)

    @cached_property
    def blobs(self) -> BlobStores:
        """Raises ConfigurationError naming the setting."""
        return blob_stores(self.settings.blobs, self.settings.home)

    def writer(self, name: str) -> RecordWriter:
        """Encodes and seals that writer's records."""
        return RecordWriter(self.codec, self.keyring.signer(name))

    def issuers(self) -> Trusted:
        """Whose tokens count. Raises ConfigurationError."""
        settings = self.settings
        if settings.issuers_file is not None:
            try:
                found = Issuers.from_file(settings.issuers_file)
            except ConfigurationError as fault:
                raise ConfigurationError(f"{PREFIX}ISSUERS_FILE: {fault}") from None
            return Trusted(found.callers, found.approvers, found)
        if settings.environment != "development":
            raise ConfigurationError(f"{PREFIX}ISSUERS_FILE: not set; {PREFIX}ENVIRONMENT={settings.environment} needs a file "
                                     "that says whose tokens count")  # fmt: skip
        require_loopback(settings)
        issuer = self.keyring.issuer
        return Trusted(issuer.trust(), issuer.trust(APPROVALS_AUDIENCE))

    def bus(self) -> KafkaBus:
        """A connection that is still to be started."""
        return KafkaBus(self.settings.bootstrap, self.opener, self.metrics)


@dataclass(frozen=True, slots=True)
class Trusted:
    """The issuers of tokens that ask for calls, and of tokens that decide on them."""

    callers: Mapping[str, IssuerConfig]
    approvers: Mapping[str, IssuerConfig]
    keeping: AbstractAsyncContextManager[object] = field(default_factory=nullcontext)
    """Fetches their keys and keeps them up to date while it is open, in the process's loop. Entering raises Transient."""


def world_of(base: Base, bus: KafkaBus, issuers: Trusted) -> World:
    """The world of a stage's process."""
    failpoints = base.failpoints

    def publisher(writer: str) -> Publisher:
        plain = bus.publisher(base.writer(writer))
        return plain if failpoints is None else FailingPublisher(plain, failpoints, writer)

    return World(
        catalog=base.catalog, policies=base.policies, keyring=base.keyring, issuers=issuers.callers, log=bus, clock=base.clock,
        publisher=publisher, raw_blobs=base.blobs.raw, result_blobs=base.blobs.results,
        failpoints=failpoints,
    )  # fmt: skip


async def await_world(base: Base, process: str, progress: Callable[[str], None]) -> None:
    """Returns once a broker answers whose topics are as the pipeline needs them. Raises ConfigurationError."""
    settings = base.settings
    await await_broker(settings.bootstrap, seconds=settings.start_wait, progress=progress)
    await check_topics(settings.bootstrap)
    if process == "executor":
        await check_durability(settings.bootstrap, settings.environment)


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[tuple[Base, KafkaBus]]:
    """A command's connection to a broker whose topics are as the pipeline needs them. Raises ConfigurationError."""
    base = Base(settings)
    await await_broker(settings.bootstrap, seconds=settings.start_wait, progress=lambda line: click.echo(line, err=True))
    await check_topics(settings.bootstrap)
    async with base.bus() as bus:
        yield base, bus


def require_loopback(settings: Settings) -> None:
    """Development keys and the development issuer must not meet a network. Raises ConfigurationError naming the setting."""
    for variable, address in settings.addresses:
        try:
            require_development(settings.environment, [address])
        except ConfigurationError as fault:
            raise ConfigurationError(f"{variable}: {fault}; for more than one machine set {PREFIX}ENVIRONMENT=production, "
                                     f"{PREFIX}KEYS_FILE and {PREFIX}ISSUERS_FILE") from None  # fmt: skip
