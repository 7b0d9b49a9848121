"""`make evidence-approval`: a hundred thousand calls that wait for people, their expiry on time, and another's judge.

On real Kafka: holds as the authorizer writes them, all asked by one waiter's process, which is then started anew over them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "services")]

from fourgates.authorizer.settings import AuthorizerSettings  # noqa: E402 - after the path is set
from fourgates.runtime.local_broker import LocalBroker, kafka_available  # noqa: E402
from fourgates.runtime.topics import create_topics  # noqa: E402
from support.acknowledged import Attacks, checked, traced  # noqa: E402
from support.eventually import eventually  # noqa: E402
from support.many_holds import ManyHolds  # noqa: E402
from support.worlds import FAST, MemoryWorld, decide, fresh_order, holds_of  # noqa: E402

_LATER_MS = 7 * 86_400_000
_SPREAD_S = 10.0
"""Those that expire do so within so long, a thousand in a second with ten thousand of them."""
_AT_ONCE = 10


async def waiting(many: ManyHolds, pending: int) -> dict[str, Any]:
    """What a waiter takes that finds so many open holds."""
    far = int(time.time() * 1000) + _LATER_MS
    await many.write(pending, lambda n: far + n)
    began = time.monotonic()
    await many.start_waiter()
    await many.asked(pending)
    asked_s = time.monotonic() - began
    await many.end_waiter()
    ready_s = await many.start_waiter()
    ready_cpu_s, (now_mb, most_mb) = many.cpu_s(), many.memory_mb()
    await many.end_waiter()
    return {
        "pending": pending, "rss_mb": round(now_mb, 1), "peak_rss_mb": round(most_mb, 1), "ready_s": round(ready_s, 2),
        "ready_cpu_s": round(ready_cpu_s, 2),
        "asked_per_s": round(pending / asked_s),
    }  # fmt: skip


async def expiring(many: ManyHolds, pending: int, count: int) -> dict[str, Any]:
    """How far from its time each of so many is said to have expired, by the broker's clock; after `pending` older ones."""
    lead_s = 15 + count / 400
    await many.start_waiter()
    start_ms = int((time.time() + lead_s) * 1000)
    due = {n: start_ms + round(n * _SPREAD_S * 1000 / count) for n in range(count)}
    before = many.written
    await many.write(count, due.__getitem__)
    await many.asked(pending + count)
    asked_in_time = time.time() * 1000 < start_ms
    await asyncio.sleep(max(0.0, (start_ms / 1000) + _SPREAD_S + 1 - time.time()))

    async def all_said() -> dict[str, int]:
        said = await many.expired()
        return said if len(said) >= count else {}

    said = await eventually(all_said, 300)
    await many.end_waiter()
    errors = sorted(abs(said[many.hold_id(before + n)] - at_ms) for n, at_ms in due.items())
    return {
        "expiring": count, "expiry_error_p50_s": errors[count // 2] / 1000, "expiry_error_max_s": errors[-1] / 1000,
        "expiry_error_p99_s": errors[min(count - 1, count * 99 // 100)] / 1000, "asked_in_time": asked_in_time,
    }  # fmt: skip


async def judged(folder: Path, calls: int) -> dict[str, Any]:
    """One run of so many calls of all kinds, and what agentack finds in its trace."""
    world = MemoryWorld(folder)
    await world.start()
    try:
        run, places = world.run(intent="pay what is due"), asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with places:
                order, name = fresh_order("R"), str(number)
                kind = number % 10
                if kind < 4:
                    await run.call("look", '{"item": "x"}', tool_call_id=name)
                    return
                cents = 100 if kind < 6 else 9_000
                text = json.dumps({"order": "X-1" if kind == 6 else order, "cents": cents})
                answer = await run.call("pay", text, tool_call_id=name, wait=15 if kind < 7 else 0.05)
                if kind < 7:
                    return
                [hold] = await eventually(lambda: holds_of(world, answer.call_id), 120)
                if kind == 9:
                    await run.cancel(answer.call_id)
                    return
                await decide(world, hold["hold_id"], "approve" if kind == 7 else "deny")
                await run.wait(answer.call_id, 120)

        await asyncio.gather(*map(one, range(calls)))

        async def ended() -> bool:
            return (await traced(world, run.id)).unended == 0

        await eventually(ended, 120)
        trace = await traced(world, run.id)
        report = checked(trace, folder)
        return {"agentack_calls": calls, "agentack_events": report.events, "agentack_findings": len(report.findings)}
    finally:
        await world.stop()


async def attacked(folder: Path) -> dict[str, Any]:
    """agentack's bad scenarios on a live pipeline in which people have two seconds."""
    world = MemoryWorld(folder, FAST.model_copy(update={"authorizer": AuthorizerSettings(wait=timedelta(seconds=2))}))
    await world.start()
    try:
        attacks = Attacks(world)
        refused = {name: await attack() for name, attack in attacks.all().items()}
        reports = [checked(await traced(world, run_id), folder) for run_id in attacks.runs]
    finally:
        await world.stop()
    return {
        "agentack_attacks": len(refused), "agentack_refused": sum(refused.values()),
        "agentack_attack_findings": sum(len(report.findings) for report in reports),
        "agentack_scenarios": refused,
    }  # fmt: skip


async def evidence(libs: Path, pending: int, expire: int, calls: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fourgates-approval-") as name:
        folder = Path(name)
        async with LocalBroker(folder / "kafka", libs=libs) as broker:
            await create_topics(broker.bootstrap)
            found = await measured(broker.bootstrap, folder, pending, expire)
        print(json.dumps(found), flush=True)
        for part in ("judged", "attacked"):
            (folder / part).mkdir()
        found |= await judged(folder / "judged", calls)
        found |= await attacked(folder / "attacked")
    return found


async def measured(bootstrap: str, folder: Path, pending: int, expire: int) -> dict[str, Any]:
    """The figures that need a broker, whose approvals are empty."""
    many = ManyHolds(bootstrap, folder)
    async with many.bus:
        try:
            return await waiting(many, pending) | await expiring(many, pending, expire)
        finally:
            await many.end_waiter()


def main() -> int:
    """Writes the figures; exit code 1 where real Kafka cannot be started."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "approval.json")
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--expiring", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=1_000)
    chosen = parser.parse_args()
    libs = ROOT / "build" / "kafka-libs"
    if (reason := kafka_available(libs)) is not None:
        print(f"the evidence needs real Kafka: {reason}", file=sys.stderr)
        return 1
    found = asyncio.run(evidence(libs, chosen.pending, chosen.expiring, chosen.calls))
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
