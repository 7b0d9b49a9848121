"""A sink on the embedded engine in a process of its own, to be killed: `python -m support.sink_process FOLDER LOG COMMITS`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from fourgates.audit.build import open_store
from fourgates.audit.bulk import BulkMaker, BulkRows
from fourgates.audit.redactions import Redactions
from fourgates.audit.rows import RowMaker
from fourgates.audit.settings import SinkSettings, StoreSettings
from fourgates.audit.sink import AuditSink
from fourgates.audit.store import running
from fourgates.contract.ports import Position
from fourgates.runtime.clock import SystemClock
from support.auditing import DDL, KEY
from support.file_log import FileBatches, opener_of


class Nobody:
    """Takes watermarks that nobody reads."""

    async def publish(self, record: object, partition: int | None = None) -> Position:
        return Position("audit.watermarks", 0, 0)


async def run(folder: Path, log: Path, commits: Path, rows: int) -> None:
    """Until the whole log is in the store. Says `reading` once it begins, `done` at the end."""
    store, connect = open_store(StoreSettings(folder=folder), DDL)
    decoder = connect()
    opener = opener_of(log)
    maker = RowMaker(opener, Redactions(KEY, {"refund_order": (), "read_order": ()}.get), KEY)
    making = BulkRows(maker, BulkMaker(opener, maker, running(decoder)), rows)
    sink = AuditSink(store, making, Nobody(), SystemClock(), "sink", SinkSettings(rows=rows, age=0.01))
    print("reading", flush=True)
    await sink.run(FileBatches(log, commits, most=rows // 2))
    print("done", flush=True)
    decoder.close()
    store.close()


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])))
