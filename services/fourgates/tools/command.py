"""A tool that is a command: words and no shell, always in the sandbox, ended with everything that it started."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import structlog

from fourgates.catalog import Tool, ToolContext, ToolError
from fourgates.contract.canonical import digest
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.answers import Declared, away, done, refused_arguments
from fourgates.tools.argv import CommandLine, Word
from fourgates.tools.processes import NeverStarted, Ran, TooMuchOutput, run_sandboxed
from fourgates.tools.sandbox import Sandbox
from fourgates.tools.sources import MISSING, Source, as_json, check_source, complaints_about, look, text_of

_START_SECONDS: Final = 20.0
_PROOF: Final = (
    'command -v -- "$1" >/dev/null || { echo missing; exit 0; }; '
    '[ "$(id -u)" -ne 0 ] && [ "$(wc -l < /proc/net/dev)" -eq 3 ] && [ ! -e /etc/passwd ] && ! touch /proof 2>/dev/null '
    "&& echo held"
)
"""Not root, no network but a loopback of its own, nothing of the root can be written, it is not this machine's root."""
_log = structlog.get_logger("fourgates.tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """What an exit code means, where it means something else than: 0 is done, all others are not understood."""

    code: int
    means: Declared | None
    """None: it is done all the same (`grep` found nothing)."""


class CommandTool:
    """`run` of a tool: one command line in a sandbox; what it prints is the result.

    Not executed is only what the contract declares so by an exit code, and a sandbox that could not be built. Of a write, every
    other failure (a limit, a signal, another exit code) is in doubt. What it prints on stderr never reaches a model.
    """

    def __init__(
        self,
        words: tuple[Word, ...],
        *,
        sandbox: Sandbox | None = None,
        stdin: Source | None = None,
        exits: tuple[Exit, ...] = (),
        output: Literal["text", "json"] = "text",
        output_bytes: int = 1_000_000,
    ) -> None:
        self._line, self._sandbox, self._stdin = CommandLine(words), sandbox or Sandbox(), stdin
        self._exits = {found.code: found.means for found in exits}
        self._output, self._limit = output, output_bytes
        if stdin is not None:
            check_source(stdin)
        if output_bytes < 1:
            raise ConfigurationError("output_bytes must be positive: every command would be ended as soon as it speaks")

    @property
    def target(self) -> str:
        """Everything that decides what runs, where, and how its end is read."""
        exits = [[code, means and means.words()] for code, means in sorted(self._exits.items())]
        words = [self._line.version_words(), self._sandbox.words(), str(self._stdin), exits, self._output, self._limit]
        return f"command:{self._line.words[0]}#{digest(words)[:32]}"

    def complaints(self, tool: Tool) -> Iterator[str]:
        """What its contract promises and this command does not keep."""
        sources = [*self._line.sources(), *([] if self._stdin is None else [self._stdin])]
        yield from complaints_about(iter(sources), tool)
        if tool.writes and tool.honours_key and "@key" not in sources:
            yield "honours_key, but its command is not given @key: a second run would have a second effect"

    async def start(self) -> None:
        """Proves on a harmless command that the sandbox holds. Raises ConfigurationError where it does not."""
        self._sandbox.check()
        program = str(self._line.words[0])
        try:
            async with asyncio.timeout(_START_SECONDS):
                ran = await run_sandboxed(self._sandbox, ["/bin/sh", "-c", _PROOF, "proof", program], b"", 1_000)
        except NeverStarted as fault:
            raise ConfigurationError(
                f"sandbox: it could not be built ({fault}); allow user namespaces to this process, or run it where they are"
            ) from fault
        except TimeoutError as fault:
            raise ConfigurationError(f"sandbox: its proof did not end within {_START_SECONDS:.0f} s") from fault
        said = ran.stdout.decode(errors="replace").strip()
        if said == "missing":
            raise ConfigurationError(
                f"command {program!r} is not there inside the sandbox; install it under /usr, or add to `reads`"
            )
        if said != "held":
            raise ConfigurationError("sandbox: the proof of its walls failed; a command would reach what it must not")

    async def __call__(self, args: Any, ctx: ToolContext) -> Any:
        """As `run(args, ctx)`."""
        given = as_json(args)
        argv = self._line.made(given, ctx)
        stdin = b""
        if self._stdin is not None and (value := look(self._stdin, given, ctx)) is not MISSING:
            stdin = (text_of(value) if isinstance(value, str) else json.dumps(value)).encode(errors="replace")
        try:
            ran = await run_sandboxed(self._sandbox, argv, stdin, self._limit)
        except NeverStarted as fault:
            if isinstance(fault.__cause__, OSError) and fault.__cause__.errno == 7:  # E2BIG
                raise refused_arguments("too_long", "The arguments are too long.") from fault
            _log.warning("a sandbox could not be built", command=argv[0], said=str(fault)[:500])
            raise away("sandbox_unavailable") from fault
        except TooMuchOutput as fault:
            raise ToolError("output_too_large", f"It printed more than {self._limit} bytes and was ended.") from fault
        return self._meaning(argv[0], ran)

    def _meaning(self, program: str, ran: Ran) -> Any:
        if ran.exit_code in self._exits and (means := self._exits[ran.exit_code]) is not None:
            raise means.error()
        if ran.exit_code != 0 and ran.exit_code not in self._exits:
            _log.info("a command failed", command=program, code=ran.exit_code, stderr_bytes=len(ran.stderr))
            reason = f"signal_{ran.exit_code - 128}" if ran.exit_code > 128 else f"exit_{ran.exit_code}"
            raise ToolError(reason, "The command failed.")
        text = ran.stdout.decode(errors="replace")
        if self._output == "text":
            return done(text)
        try:
            return done(json.loads(text))
        except (ValueError, RecursionError) as fault:
            raise ToolError("output_unreadable", "The command did not print JSON.") from fault
