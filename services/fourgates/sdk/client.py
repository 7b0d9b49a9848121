"""The client: one connection of a host, and the runs that go over it."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from fourgates.contract import ids
from fourgates.contract.avro import AvroCodec, SchemaRegistry
from fourgates.contract.ports import Clock
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.data import data_folder
from fourgates.runtime.keys import DevKeys, Keyring, require_development
from fourgates.runtime.registry import HttpRegistry, LocalRegistry

from .bearer import Bearer, TokenSource
from .inbox import Inbox
from .run import Options, Run
from .settings import SdkSettings
from .transport import Transport


class Client:
    """`async with Client.from_env() as gates: run = gates.run(principal=token, intent="...")`, then `await run.call(...)`."""

    def __init__(
        self,
        transport: Transport,
        validator_public: Mapping[str, Any],
        options: Options = Options(),  # noqa: B008  # frozen
        clock: Clock | None = None,
        principal: TokenSource | None = None,
    ) -> None:
        """`validator_public` is the JWK that grants are encrypted to; `principal` serves runs that name none."""
        self._transport, self._validator_public = transport, validator_public
        self._options = dataclasses.replace(options, producer=options.producer or f"sdk@{socket.gethostname()}:{os.getpid()}")
        self._clock = clock or SystemClock()
        self._principal = principal
        self._inbox = Inbox()

    @classmethod
    def from_env(
        cls, settings: SdkSettings | None = None, trusted_results: Mapping[str, Iterable[str]] | None = None
    ) -> Client:  # fmt: skip
        """A client over Kafka as the environment says. Raises ConfigurationError, naming the setting; connects on entering."""
        from .kafka import KafkaTransport  # a host on another transport does not load a Kafka client

        found = settings or SdkSettings()
        keys = _keyring(found)
        codec = AvroCodec(_registry(found))
        trusted = {tool: frozenset(fields) for tool, fields in (trusted_results or {}).items()}
        options = Options(found.wait_s, found.ask_again_s, found.budget_s, trusted)
        return cls(
            KafkaTransport(found.bootstrap, codec, keys.verifier()), keys.validator_public(), options,
            principal=found.token.get_secret_value() if found.token else None,
        )  # fmt: skip

    async def __aenter__(self) -> Client:
        await self._transport.follow_completed(self._inbox.sink, self._inbox.missed)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        await self._transport.close()

    def run(
        self,
        principal: TokenSource | None = None,
        intent: str = "",
        user_turns: Iterable[str] = (),
        allow: Iterable[str] | None = None,
        run_id: str | None = None,
        agent: TokenSource | None = None,
    ) -> Run:
        """A run of that principal: a bearer token of audience `fourgates`, or what gives the present one.

        `agent` is the agent's own credential, where the principal's token does not name the agent that acts for it.
        `run_id` continues a run of before a restart: the same run_id and tool_call_id are the same call.
        """
        source = principal or self._principal
        if not source:
            raise ValueError("principal: give a bearer token, or what returns one; or set FOURGATES_TOKEN")
        run = Run(
            self._transport, self._inbox, Bearer(source, self._validator_public, agent), self._clock, self._options,
            run_id or ids.new_run_id(self._clock.now_ms()), intent,
        )  # fmt: skip
        for turn in user_turns:
            run.user_said(turn)
        if allow is not None:
            run.allow(*allow)
        return run


def _keyring(settings: SdkSettings) -> Keyring:
    if settings.keys_file is not None:
        return Keyring.from_file(settings.keys_file)
    addresses = [address.strip() for address in settings.bootstrap.split(",")]
    require_development(settings.environment, [*addresses, *([settings.registry_url] if settings.registry_url else [])])
    return DevKeys.found(settings.home / "keys")


def _registry(settings: SdkSettings) -> SchemaRegistry:
    if settings.registry_url:
        return HttpRegistry(settings.registry_url)
    return LocalRegistry(settings.schemas or data_folder("schemas"))
