"""The tests' brokers live for minutes: their JVM compiles quickly rather than well, and maps classes that another has loaded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import zlib
from pathlib import Path

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.local_broker import LocalBroker, broker_version
from fourgates.runtime.topics import create_topics
from support.eventually import eventually

VARIABLE = "JDK_JAVA_OPTIONS"
"""What every `java` reads by itself, also one that a command under test starts."""
BRIEF = "-XX:TieredStopAtLevel=1 -XX:-UsePerfData"
_DUMP_SECONDS = 90.0


def quick_java(libs: Path) -> None:
    """For this process and all that it starts.

    The archive of classes is made once, beside the jars; Java ignores one that is not its own.
    """
    if VARIABLE in os.environ:  # somebody has an opinion
        return
    java = subprocess.run(["java", "-version"], capture_output=True, check=False).stderr
    archive = libs.parent / f"kafka-{broker_version()}-{zlib.crc32(java + str(libs).encode()):08x}.jsa"
    if not archive.exists():
        with contextlib.suppress(ConfigurationError, AssertionError):  # why it does not start or end is for the tests to say
            asyncio.run(_made(archive, libs))
    os.environ[VARIABLE] = f"{BRIEF} -XX:SharedArchiveFile={archive}" if archive.exists() else BRIEF


async def _made(archive: Path, libs: Path) -> None:
    """A broker that runs for a moment leaves its classes behind as it ends; one that is too slow leaves nothing."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".classes-") as folder:
        draft = Path(folder) / "broker.jsa"
        os.environ[VARIABLE] = f"{BRIEF} -XX:ArchiveClassesAtExit={draft}"
        async with LocalBroker(Path(folder), libs=libs) as broker:
            await create_topics(broker.bootstrap)
            assert broker.pid is not None
            os.kill(broker.pid, signal.SIGTERM)
            await eventually(lambda: broker.pid is None, _DUMP_SECONDS)  # it writes while it ends
        with contextlib.suppress(FileNotFoundError):
            draft.rename(archive)
