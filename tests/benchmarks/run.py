"""`make bench`: on one broker, in one run, a bare relay with as many hops, then the pipeline's reads and claimed writes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "benchmarks"), str(ROOT / "services")]

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: E402 - after the path is set
from claims import claims  # noqa: E402 - after the path is set
from cold_fold import measured as cold_fold  # noqa: E402
from gates_bench import gates, print_gates  # noqa: E402
from index_bench import measured as index  # noqa: E402
from measuring import IN_FLIGHT, measure, rss_mb  # noqa: E402

from fourgates.contract.codes import Code  # noqa: E402
from fourgates.contract.topology import CALL_PARTITIONS  # noqa: E402
from fourgates.runtime.children import end_group, spawn  # noqa: E402
from fourgates.runtime.kafka import KafkaAdmin  # noqa: E402
from fourgates.runtime.local_broker import LocalBroker, kafka_available  # noqa: E402
from fourgates.runtime.topics import create_topics  # noqa: E402
from support.eventually import eventually  # noqa: E402
from support.kafka import fresh_topics  # noqa: E402
from support.kafka_world import KafkaWorld  # noqa: E402

HOPS = 4
"""Stages between a host's request and its observation: validator, authorizer, executor, sanitizer."""
PAYLOAD = b"x" * 1_500
"""About the size of a CallCleared."""
DEFAULTS = {
    "FOURGATES_LOG_LEVEL": "warning",
    "FOURGATES_STAGES__EXECUTOR__AUDIT_WAIT": "5",
    "FOURGATES_STAGES__EXECUTOR__AUDIT_LAG": "10",
    "FOURGATES_STAGES__EXECUTOR__DRAIN": "5",
}
"""As an operator has them, not as the stories do."""
RUNS = 64
"""Calls are spread over so many runs, as of so many agents."""


async def relay(bootstrap: str, folder: Path, levels: tuple[int, ...]) -> dict[str, Any]:
    """HOPS processes, each from one topic to the next; a record's way from the first topic to the last."""
    topics = [f"relay.{n}" for n in range(HOPS + 1)]
    async with KafkaAdmin(bootstrap) as admin:
        for topic in topics:
            await admin.create(topic, CALL_PARTITIONS, 1, {})
    script = str(Path(__file__).with_name("relay.py"))
    logs = [folder / f"relay-{n}.log" for n in range(HOPS)]
    children = [spawn((sys.executable, script, bootstrap, topics[n], topics[n + 1]), logs[n]) for n in range(HOPS)]
    waiting: dict[bytes, asyncio.Future[None]] = {}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="latest")
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    await consumer.start()
    await producer.start()
    consumer.assign([TopicPartition(topics[-1], n) for n in range(CALL_PARTITIONS)])

    async def answers() -> None:
        async for record in consumer:
            if (future := waiting.pop(record.key, None)) is not None and not future.done():
                future.set_result(None)

    async def one(n: int) -> None:
        key = f"{level}/{n}".encode()
        waiting[key] = asyncio.get_running_loop().create_future()
        await producer.send(topics[0], PAYLOAD, key=key)
        await waiting[key]

    reading = asyncio.create_task(answers())
    found: dict[str, Any] = {}
    try:
        await eventually(lambda: all("ready" in log.read_text() for log in logs if log.exists()), 60)
        for level in levels:
            found[str(level)] = await measure(one, level)
            say("relay", level, found[str(level)])
    finally:
        reading.cancel()
        await consumer.stop()
        await producer.stop()
        for child in children:
            await asyncio.to_thread(end_group, child, 2.0)
    return found


async def pipeline(world: KafkaWorld, kind: str, levels: tuple[int, ...], pids: Mapping[str, int]) -> dict[str, Any]:
    """Reads or claimed writes through every gate, from the SDK and back; and where the processor's time of a call goes."""
    found: dict[str, Any] = {}
    orders = iter(range(1, 10**9))
    for level in levels:
        runs = [world.run(intent="bench") for _ in range(RUNS)]

        async def one(n: int, runs: list[Any] = runs, level: int = level) -> bool:
            order = f"{'G' if kind == 'get' else 'P'}-{next(orders)}"
            body = f'{{"order": "{order}"' + (', "cents": 100}' if kind == "put" else "}")
            answer = await runs[n % RUNS].call(kind, body, tool_call_id=f"{level}/{n}", wait=60)
            if answer.code is not Code.OK and not answer.retryable:
                raise RuntimeError(f"{kind} was answered with {answer.code.value} ({answer.reason})")
            return answer.code is Code.OK  # else more was asked for than the audit takes in: writes fail closed

        found[str(level)] = await measure(one, level, pids=pids)
        say("read" if kind == "get" else "write", level, found[str(level)])
    return found


def say(what: str, level: int, figures: dict[str, Any]) -> None:
    """A line a figure, as it comes; of the pipeline also what each process spent on a call."""
    print(f"{what:>6} {level:>4} in flight  {figures['per_s']:>8.1f}/s  p50 {figures['p50_ms']:>7.2f} ms  "
          f"p95 {figures['p95_ms']:>7.2f} ms  p99 {figures['p99_ms']:>7.2f} ms", flush=True)  # fmt: skip
    if refused := figures.get("refused"):
        print(f"       {refused} more were refused for now: the audit was behind", flush=True)
    if spent := figures.get("cpu_ms"):
        parts = ", ".join(f"{process} {ms:.2f}" for process, ms in sorted(spent.items(), key=lambda each: -each[1]))
        print(f"       processor time a call {sum(spent.values()):.1f} ms: {parts}", flush=True)


async def bench(levels: tuple[int, ...], libs: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="fourgates-bench-") as name:
        folder = Path(name)
        async with LocalBroker(folder / "kafka", libs=libs) as broker:
            await create_topics(broker.bootstrap)
            bare = await relay(broker.bootstrap, folder, levels)
            bare_claims = await claims(broker.bootstrap, levels)
            for level in levels:
                say("claim", level, bare_claims[str(level)])
            world = KafkaWorld(broker.bootstrap, folder, "support.bench_tools:catalog", DEFAULTS)
            await world.start()
            try:
                pids = {process: watched.pid for process, watched in world.supervisor.watched.items() if watched.pid}
                pids |= {"client": os.getpid()} | ({"broker": broker.pid} if broker.pid else {})
                reads = await pipeline(world, "get", levels, pids)
                writes = await pipeline(world, "put", levels, pids)
                memory = {process: rss_mb(watched.pid) for process, watched in world.supervisor.watched.items() if watched.pid}
            finally:
                await world.stop()
            await fresh_topics(broker.bootstrap)
            cold = await asyncio.to_thread(cold_fold, broker.bootstrap, ROOT / "build" / "bench-cold.json")
    return {
        "hops": HOPS,
        "relay": bare,
        "claim": bare_claims,
        "read": reads,
        "write": writes,
        "rss_mb": memory,
        "cold_fold": cold,
    }


def main() -> int:
    """Writes the figures; exit code 1 where real Kafka cannot be started."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench.json")
    parser.add_argument("--in-flight", type=int, nargs="+", default=list(IN_FLIGHT))
    chosen = parser.parse_args()
    libs = ROOT / "build" / "kafka-libs"
    if (reason := kafka_available(libs)) is not None:
        print(f"the bench needs real Kafka: {reason}", file=sys.stderr)
        return 1
    found = asyncio.run(bench(tuple(chosen.in_flight), libs))
    found["gates"] = gates()
    print_gates(found["gates"])
    found["index"] = index(ROOT / "build" / "bench-index.json")
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    top = str(max(chosen.in_flight))
    print(f"reads {found['read'][top]['per_s'] / max(found['relay'][top]['per_s'], 1):.2f}, writes "
          f"{found['write'][top]['per_s'] / max(found['relay'][top]['per_s'], 1):.2f} of the bare relay at {top} in flight, "
          f"writes {found['write'][top]['per_s'] / max(found['claim'][top]['per_s'], 1):.2f} of the bare claim; "
          f"figures: {chosen.json}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
