"""Many calls that wait for people, and one waiter's process over real Kafka: what the evidence of approval is measured with."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from fourgates.cli.local import free_ports
from fourgates.contract import ids
from fourgates.contract.avro import AvroCodec
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.events import ApprovalEvent, ApprovalKind, HoldReason
from fourgates.contract.parts import Gate, Principal, Verdict
from fourgates.contract.seals import RecordOpener, RecordWriter, seal_verdict
from fourgates.contract.topology import APPROVALS
from fourgates.runtime.children import end_group, spawn
from fourgates.runtime.data import data_folder
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.keys import DevKeys
from fourgates.runtime.registry import LocalRegistry
from support.approvals import held
from support.downstream import Downstream
from support.eventually import eventually
from support.samples import CALL
from support.toolbox import VARIABLE, make_catalog
from support.worlds import TENANT

ROOT = Path(__file__).resolve().parents[2]
_AT_ONCE = 500
_OF_ONE_AGENT = 50


class ManyHolds:
    """Appends holds as the authorizer does, and starts and ends the waiter that asks about them."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.folder, self.bootstrap = folder, bootstrap
        self.keyring = DevKeys.load(folder / "home" / "keys")
        self._codec = AvroCodec(LocalRegistry(data_folder("schemas")))
        self.bus = KafkaBus(bootstrap, RecordOpener(self._codec, self.keyring.verifier()))
        Downstream(folder / "downstream.sqlite")
        tool = make_catalog(folder).get("pay")
        assert tool is not None
        self._tool = tool
        self.written = 0
        self._port = free_ports(1)[0]
        self._child: Any = None

    async def write(self, count: int, expires: Callable[[int], int]) -> None:
        """So many new holds, the n-th expiring at `expires(n)`; each of a call of its own, sealed by every gate before it."""
        writer = RecordWriter(self._codec, self.keyring.signer("authorizer"))
        for start in range(0, count, _AT_ONCE):
            batch = [self._hold(self.written + n, expires(n)) for n in range(start, min(start + _AT_ONCE, count))]
            await asyncio.gather(*(self.bus.raw.append(*writer.encode(event)) for event in batch))
        self.written += count

    def hold_id(self, number: int) -> str:
        return ids.event_id(self._call_id(number), "authorizer", "Held")

    def _call_id(self, number: int) -> str:
        who = self._asker(number)
        return ids.call_id(who.issuer, who.tenant, who.subject, who.agent, CALL.run_id, f"call_{number}")

    def _asker(self, number: int) -> Principal:
        return dataclasses.replace(CALL.principal, tenant=TENANT, agent=f"bot-{number // _OF_ONE_AGENT}")

    def _hold(self, number: int, expires_ms: int) -> ApprovalEvent:
        who, call_id = self._asker(number), self._call_id(number)
        arguments = {"order": f"A-{number}", "cents": 9_000, "mode": "ok"}
        text = canonical(arguments).decode()
        call = dataclasses.replace(
            CALL, call_id=call_id, tool_call_id=f"call_{number}", principal=who, tool="pay", tool_version=self._tool.version,
            risk=self._tool.risk, arguments=text, args_digest=digest(arguments),
        )  # fmt: skip
        verdicts: tuple[Verdict, ...] = ()
        for gate in (Gate.VALIDATOR, Gate.AUTHORIZER):
            verdict = Verdict(gate=gate, key_id="", at_ms=1, reasons='{"policies":["large-payments"],"digest":"x"}')
            verdicts = seal_verdict(self.keyring.signer(gate.value), call, verdict, verdicts)
        return held(
            self.hold_id(number), call, reason=HoldReason.POLICY, verdicts=verdicts, expires_ms=expires_ms,
            facts='{"owned":true}',
        )  # fmt: skip

    async def start_waiter(self) -> float:
        """Seconds from the process's start until it says that it is ready."""
        environment = {
            **os.environ, VARIABLE: str(self.folder), "FOURGATES_BOOTSTRAP": self.bootstrap,
            "FOURGATES_HOME": str(self.folder / "home"), "FOURGATES_CATALOG": "support.toolbox:catalog",
            "FOURGATES_HEALTH": f"127.0.0.1:{self._port}", "FOURGATES_WORKER__SESSION": "10",
            "FOURGATES_LOG_LEVEL": "warning", "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "services")]),
        }  # fmt: skip
        began = time.monotonic()
        argv = (sys.executable, "-m", "fourgates.cli", "run", "waiter")
        self._child = spawn(argv, self.folder / "waiter.log", env=environment)
        await eventually(self._ready, 600)
        return time.monotonic() - began

    async def _ready(self) -> bool:
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(trust_env=False) as http:
                return (await http.get(f"http://127.0.0.1:{self._port}/readyz")).is_success
        return False

    async def end_waiter(self) -> None:
        """In order: what is finished is committed."""
        child, self._child = self._child, None
        if child is not None:
            await asyncio.to_thread(end_group, child, 30.0)

    def memory_mb(self) -> tuple[float, float]:
        """What the waiter's process occupies now, and at its most."""
        status = Path(f"/proc/{self._child.pid}/status").read_text().splitlines()
        found = {line.partition(":")[0]: line.split() for line in status}
        return int(found["VmRSS"][1]) / 1024, int(found["VmHWM"][1]) / 1024

    def cpu_s(self) -> float:
        """Seconds of processor time that the waiter's process has used."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def asked(self, count: int) -> None:
        """Returns once the log holds a Held and a Requested of so many."""
        await eventually(lambda: self._reached(2 * count), 3_600)

    async def _reached(self, records: int) -> bool:
        await asyncio.sleep(0.5)
        return sum((await self.bus.ends(APPROVALS)).values()) >= records

    async def expired(self) -> dict[str, int]:
        """Hold -> broker time of its first Expired."""
        found: dict[str, int] = {}
        async for received in self.bus.scan(APPROVALS):
            if self._codec.glance(APPROVALS, received.value) == (ApprovalKind.EXPIRED.value, received.key.decode()):
                record = self._codec.decode(APPROVALS, received.value)
                found.setdefault(record.hold_id, received.time_ms)  # type: ignore[attr-defined]  # an ApprovalEvent
        return found
