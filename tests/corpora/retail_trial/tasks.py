"""The recorded tasks: what customers asked for, the correct calls, what each answered, and the store's digest afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WRITES = frozenset({
    "cancel_pending_order", "exchange_delivered_order_items", "modify_pending_order_address", "modify_pending_order_items",
    "modify_pending_order_payment", "modify_user_address", "return_delivered_order_items",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One correct call, and what it answered when it was run directly."""

    number: int
    tool: str
    arguments: Mapping[str, Any]
    ok: bool
    answer: Any
    """The result, or the error's sentence."""


@dataclass(frozen=True, slots=True)
class Task:
    """One customer's request."""

    name: str
    customer: str
    """Their user id, empty where they never say who they are."""
    request: str
    steps: tuple[Step, ...]
    store_sha256: str


@dataclass(frozen=True, slots=True)
class Data:
    """A folder of retail data."""

    store: Mapping[str, Mapping[str, dict[str, Any]]]
    tasks: tuple[Task, ...]

    @classmethod
    def load(cls, folder: Path) -> Data:
        """From `store.json` and `tasks.jsonl`."""
        lines = (folder / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
        tasks = tuple(_task(json.loads(line)) for line in lines if line.strip())
        return cls(json.loads((folder / "store.json").read_text(encoding="utf-8")), tasks)


def _task(raw: Mapping[str, Any]) -> Task:
    steps = tuple(
        Step(call["step"], call["tool"], call["arguments"], call["outcome"]["ok"],
             call["outcome"]["result" if call["outcome"]["ok"] else "error"])
        for call in raw["calls"]
    )  # fmt: skip
    return Task(str(raw["task"]), raw["user_id"] or "", raw["request"], steps, raw["store_sha256"])
