"""A log of records in a file, with offsets committed in another: what a sink reads that may be killed at any moment."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fourgates.contract.ports import Offsets, Received
from fourgates.contract.seals import RecordOpener
from fourgates.runtime.keys import Keyring
from support.records import codec
from support.sealing import key_content


class FileBatches:
    """The Batches port over a file, for one reader. What was not committed comes again after a restart."""

    def __init__(self, log: Path, commits: Path, most: int) -> None:
        self._log, self._commits, self._most = log, commits, most
        self._began = self._read_commits()
        self._closed = False
        self.ended = False
        """Everything in the file was handed out."""

    async def __aiter__(self) -> AsyncIterator[Sequence[Received]]:
        batch: list[Received] = []
        for one in read_log(self._log):
            where = one.position
            if where.offset < self._began.get((where.topic, where.partition), 0):
                continue
            batch.append(one)
            if len(batch) >= self._most:
                yield batch
                batch = []
            if self._closed:
                return
        if batch:
            yield batch
        self.ended = True

    async def commit(self, offsets: Offsets) -> None:
        """On the disk before it returns, whole or not at all."""
        known = {**self._read_commits(), **offsets}
        half = self._commits.with_suffix(".half")
        with half.open("w") as file:
            json.dump([[topic, partition, offset] for (topic, partition), offset in known.items()], file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(self._commits)

    def assigned(self) -> Offsets:
        return self._began

    async def close(self) -> None:
        self._closed = True

    def _read_commits(self) -> dict[tuple[str, int], int]:
        if not self._commits.exists():
            return {}
        return {(topic, partition): offset for topic, partition, offset in json.loads(self._commits.read_text())}


def write_log(path: Path, received: Sequence[Received]) -> None:
    """The records, and beside them the keys that sealed them."""
    path.write_bytes(pickle.dumps(list(received)))
    path.with_suffix(".keys").write_bytes(pickle.dumps(key_content()))


def read_log(path: Path) -> list[Received]:
    found: list[Received] = pickle.loads(path.read_bytes())
    return found


def opener_of(path: Path) -> RecordOpener:
    """Opens what that log holds, in any process."""
    return RecordOpener(codec(), Keyring(pickle.loads(path.with_suffix(".keys").read_bytes())).verifier())
