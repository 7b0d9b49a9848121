"""Node as an independent writer of canonical JSON: its numbers and strings are ECMAScript's own, which RFC 8785 refers to."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PROGRAM = """
const {createHash} = require("crypto");
const write = value => Array.isArray(value) ? "[" + value.map(write).join(",") + "]"
  : value !== null && typeof value === "object"
  ? "{" + Object.keys(value).sort().map(key => JSON.stringify(key) + ":" + write(value[key])).join(",") + "}"
  : JSON.stringify(value);
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const text = write(JSON.parse(line));
  process.stdout.write(JSON.stringify([text, createHash("sha256").update(text, "utf8").digest("hex")]) + "\\n");
});
"""
NODE = shutil.which("node")


class Node:
    """One process for many questions."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def canonical(self, value: Any) -> tuple[str, str]:
        """(canonical text, its sha256 in hex)."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()
        text, digest = json.loads(self._process.stdout.readline())
        return text, digest


@contextmanager
def running() -> Iterator[Node]:
    """Node, until the end of the block."""
    assert NODE is not None
    with subprocess.Popen([NODE, "-e", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Node(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=10)
