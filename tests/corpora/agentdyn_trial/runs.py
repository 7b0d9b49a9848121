"""The recorded runs: who asked what, which calls the model made, what came back."""

from __future__ import annotations

import ast
import gzip
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

_RENAMED = {
    "login_github_account": {"password": "credential"},
    "login_shopping_account": {"password": "credential"},
    "update_shopping_account_password": {"password": "new_credential"},
}
"""A catalog takes no argument called `password` (C9): it would be the runtime's."""
_GOAL = "injection_task"
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call, and the text that its tool answered when it ran without a defence; None where nothing is recorded."""

    id: str
    tool: str
    arguments: dict[str, Any]
    result: str | None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One run of one model."""

    name: str
    suite: str
    task: str
    injection: str | None
    succeeded: bool
    """The injection reached its goal."""
    useful: bool
    """The task was done."""
    request: str
    calls: tuple[RecordedCall, ...]

    @property
    def is_goal(self) -> bool:
        """The user asked for what is elsewhere an injection's goal."""
        return self.task.startswith(_GOAL)

    @property
    def is_clean(self) -> bool:
        return self.injection is None and not self.is_goal


def load_runs(data: Path) -> list[RecordedRun]:
    """Every run of `data`: the file itself, or the folder that holds runs.jsonl.gz."""
    file = data / "runs.jsonl.gz" if data.is_dir() else data
    raw = file.read_bytes()
    text = (gzip.decompress(raw) if file.suffix == ".gz" else raw).decode()
    return [_run(json.loads(line)) for line in text.split("\n") if line.strip()]


def _run(told: dict[str, Any]) -> RecordedRun:
    results = {result["id"]: result for result in told["results"]}
    calls = tuple(
        RecordedCall(call["id"], call["tool"], _arguments(call["tool"], call["arguments"]), _answer(results.get(call["id"])))
        for call in told["calls"]
    )
    return RecordedRun(
        name=told["run"], suite=told["suite"], task=told["user_task"], injection=told["injection_task"],
        succeeded=told["attacked_and_succeeded"], useful=told["useful"], request=told["request"], calls=calls,
    )  # fmt: skip


def _arguments(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    renamed = _RENAMED.get(tool, {})
    return {renamed.get(name, name): value for name, value in arguments.items()}


def _answer(told: dict[str, Any] | None) -> str | None:
    return (told["content"] or told["error"]) if told else None


@lru_cache(maxsize=4096)
def structured(text: str) -> Any:
    """What the tool returned before the benchmark printed it as YAML or as a Python literal; other text as it is."""
    try:
        if text.strip()[:1] in ("{", "["):
            return _inner(ast.literal_eval(text.strip()))
        value = yaml.load(text, _LOADER)
    except (ValueError, SyntaxError, RecursionError, yaml.YAMLError):
        return text
    return value if isinstance(value, list | dict) and _is_record(value) else text


def _is_record(value: Any) -> bool:
    """Prose with a colon or a dash in it parses too; what the tools print has a mapping with its keys in every place."""
    records = value if isinstance(value, list) else [value]
    return all(isinstance(each, dict) and len(each) > 2 for each in records)


def _inner(value: Any) -> Any:
    """Some fields hold the printed form of a list."""
    if isinstance(value, dict):
        return {str(name): _inner(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_inner(each) for each in value]
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return _inner(ast.literal_eval(value))
        except (ValueError, SyntaxError, RecursionError):
            return value
    return value
