"""`make evidence-approval`: a hundred thousand calls that wait for people, their expiry on time, and another's judge.

On real Kafka: holds and questions as the stages write them, and one waiter's process that is started over them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "services")]

from fourgates.contract.codes import CodeClass  # noqa: E402 - after the path is set
from fourgates.runtime.local_broker import LocalBroker, kafka_available  # noqa: E402
from fourgates.runtime.topics import create_topics  # noqa: E402
from fourgates.sdk import Answer  # noqa: E402
from support.acknowledged import Attacks, checked, traced  # noqa: E402
from support.eventually import eventually  # noqa: E402
from support.kafka_world import KafkaWorld  # noqa: E402
from support.many_holds import ManyHolds  # noqa: E402
from support.worlds import MemoryWorld, decide, fresh_order, holds_of, not_yet_final  # noqa: E402

_LATER_MS = 7 * 86_400_000
_ASKED = 1_000
"""So many more are asked about by the waiter itself, beside all that wait."""
_SPREAD_S = 20.0
"""Those that expire one after the other do so within so long, five hundred in a second with ten thousand of them."""
_AT_ONCE = 10
_AGAIN_S = 0.5


async def waiting(many: ManyHolds, pending: int, asked: int) -> dict[str, Any]:
    """What a waiter takes that finds so many open holds about which people were asked, and then asks about some more."""
    far = int(time.time() * 1000) + _LATER_MS
    began = time.monotonic()
    await many.write_asked(pending, lambda n: far + n)
    prepared_s = time.monotonic() - began
    ready_s = await many.start_waiter()
    ready_cpu_s, (found_mb, _) = many.cpu_s(), many.memory_mb()
    began = time.monotonic()
    await many.write(asked, lambda n: far + n)
    await many.asked(pending + asked)
    asked_s = time.monotonic() - began
    now_mb, most_mb = many.memory_mb()
    await many.end_waiter()
    return {
        "pending": pending, "rss_mb": round(max(found_mb, now_mb), 1), "peak_rss_mb": round(most_mb, 1),
        "ready_s": round(ready_s, 2), "ready_cpu_s": round(ready_cpu_s, 2),
        "asked": asked, "asked_per_s": round(asked / asked_s), "prepared_s": round(prepared_s),
    }  # fmt: skip


async def expiring(many: ManyHolds, count: int, spread_s: float, lead_s: float) -> list[float]:
    """How far from its time each of so many is said to have expired, by the broker's clock, in seconds, the least first.

    People were asked about all of them, and the waiter is ready, before the first one expires: `lead_s` from now, or longer
    where that was not enough.
    """
    start_ms = int((time.time() + lead_s) * 1000)
    first = many.written
    await many.write_asked(count, lambda n: start_ms + round(n * spread_s * 1000 / count))
    await many.start_waiter()
    if time.time() * 1000 >= start_ms:
        await many.end_waiter()
        return await expiring(many, count, spread_s, 2 * lead_s)
    due = {many.scribe.hold_id(first + n): start_ms + round(n * spread_s * 1000 / count) for n in range(count)}
    await asyncio.sleep(start_ms / 1000 + spread_s + 1 - time.time())

    async def all_said() -> dict[str, int]:
        said = await many.expired(due)
        if len(said) < count:
            await asyncio.sleep(2)  # it reads the whole log, on the waiter's processors
        return said if len(said) >= count else {}

    said = await eventually(all_said, 300)
    await many.end_waiter()
    return sorted((said[hold_id] - at_ms) / 1000 for hold_id, at_ms in due.items())


async def expiry(many: ManyHolds, count: int) -> dict[str, Any]:
    """One after the other, as holds of different calls do; and the worst case, all in the same millisecond."""
    lead_s = 15 + count / 400
    spread = await expiring(many, count, _SPREAD_S, lead_s)
    at_once = await expiring(many, count, 0.0, lead_s)
    p99 = min(count - 1, count * 99 // 100)
    return {
        "expiring": count, "expiring_within_s": _SPREAD_S, "expiry_error_p50_s": spread[count // 2],
        "expiry_error_p99_s": spread[p99], "expiry_error_max_s": spread[-1],
        "at_once_error_p50_s": at_once[count // 2], "at_once_error_p99_s": at_once[p99], "at_once_error_max_s": at_once[-1],
    }  # fmt: skip


async def judged(folder: Path, calls: int) -> dict[str, Any]:
    """One run of so many calls of all kinds, and what agentack finds in its trace."""
    world = MemoryWorld(folder)
    await world.start()
    try:
        run, places = world.run(intent="pay what is due"), asyncio.Semaphore(_AT_ONCE)

        async def asked(tool: str, text: str, name: str) -> Answer:
            """What is said of it; a busy machine's `timeout` and the like are asked for again, as a host does."""
            while True:
                answer = await not_yet_final(run, tool, text, tool_call_id=name)
                if answer.code_class is not CodeClass.TRANSIENT:
                    return answer
                await asyncio.sleep(_AGAIN_S)

        async def one(number: int) -> None:
            async with places:
                order, name = fresh_order("R"), str(number)
                kind = number % 10
                if kind < 4:
                    await asked("look", '{"item": "x"}', name)
                    return
                cents = 100 if kind < 6 else 9_000
                text = json.dumps({"order": "X-1" if kind == 6 else order, "cents": cents})
                answer = await asked("pay", text, name)
                if kind < 7:
                    return
                [hold] = await eventually(lambda: holds_of(world, answer.call_id), 120)
                if kind == 9:
                    await run.cancel(answer.call_id)
                    return
                await decide(world, hold["hold_id"], "approve" if kind == 7 else "deny")
                if not (await run.wait(answer.call_id, 120)).final:
                    await asked("pay", text, name)

        await asyncio.gather(*map(one, range(calls)))

        async def ended() -> bool:
            return (await traced(world, run.id)).unended == 0

        await eventually(ended, 120)
        trace = await traced(world, run.id)
        report = checked(trace, folder)
        return {"agentack_calls": calls, "agentack_events": report.events, "agentack_findings": len(report.findings)}
    finally:
        await world.stop()


async def attacked(libs: Path, folder: Path) -> dict[str, Any]:
    """agentack's bad scenarios on a live pipeline, a process each stage, on real Kafka."""
    async with LocalBroker(folder / "kafka", libs=libs) as broker:
        await create_topics(broker.bootstrap)
        world = KafkaWorld(broker.bootstrap, folder)
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


_NOTES = {
    "pending": "Held, Requested and Pending of each were sealed with the stages' keys and appended by the tests, and the group's "
    "offsets committed behind them; `ready` is a new waiter's process over that log. It then asks about `asked` more by itself.",
    "expiry_error": "broker time of the Expired that counted, less expires_ms; people had been asked about all, the waiter was "
    "ready. `expiry_error` is of holds that expire evenly within `expiring_within_s`, `at_once_error` of as many in one ms.",
}


async def evidence(libs: Path, pending: int, expire: int, calls: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fourgates-approval-") as name:
        folder = Path(name)
        for part in ("waiting", "expiring", "judged", "attacked"):
            (folder / part).mkdir()
        async with on_kafka(libs, folder / "waiting") as many:
            found |= told(await waiting(many, pending, _ASKED))
        async with on_kafka(libs, folder / "expiring") as many:
            found |= told(await expiry(many, expire))
        found |= told(await judged(folder / "judged", calls))
        found |= told(await attacked(libs, folder / "attacked"))
    return found | {"whole_s": round(time.monotonic() - began), "notes": _NOTES}


def told(found: dict[str, Any]) -> dict[str, Any]:
    print(json.dumps(found), flush=True)
    return found


@contextlib.asynccontextmanager
async def on_kafka(libs: Path, folder: Path) -> AsyncIterator[ManyHolds]:
    """On a broker of its own: what one part wrote is not what another one reads."""
    async with LocalBroker(folder / "kafka", libs=libs) as broker:
        await create_topics(broker.bootstrap)
        async with written_on(broker.bootstrap, folder) as many:
            yield many


@contextlib.asynccontextmanager
async def written_on(bootstrap: str, folder: Path) -> AsyncIterator[ManyHolds]:
    """On a broker whose topics are empty; no waiter is left behind."""
    many = ManyHolds(bootstrap, folder)
    async with many.bus:
        try:
            yield many
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
