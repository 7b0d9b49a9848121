"""Commands: an argument is one word and stays one, and nothing of a command outlives its call or leaves its walls."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, Committed, Stopping, ToolContext, ToolError, ToolErrorKind, invoke, start_tools
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.answers import Declared
from fourgates.tools.argv import CommandLine, Each, Flag, NoOption, Option, Word
from fourgates.tools.command import CommandTool, Exit
from fourgates.tools.processes import run_sandboxed
from fourgates.tools.sandbox import Sandbox
from fourgates.tools.sources import Constant
from support.bubblewrap import require_sandbox
from support.eventually import eventually
from support.processes import processes_with
from support.samples import PRINCIPAL

CONTEXT = ToolContext("k" * 64, 7, 1_800_000_000_000, PRINCIPAL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    require_sandbox()
    made = tmp_path / "work"
    made.mkdir()
    made.chmod(0o777)
    (made / "note.txt").write_text("one\ntwo\n")
    return made


def line(*words: Word, **args: Any) -> list[str]:
    return CommandLine(words).made(args, CONTEXT)


async def run(*words: Word, args: dict[str, Any] | None = None, **more: Any) -> Any:
    answer = await CommandTool(words, **more)(args or {}, CONTEXT)
    assert isinstance(answer, Committed)
    return answer.content


async def shell(script: str, sandbox: Sandbox | None = None, limit: int = 100_000) -> str:
    """What a script prints inside; only tests run shells."""
    ran = await run_sandboxed(sandbox or Sandbox(), ["/bin/sh", "-c", script], b"", limit)
    return ran.stdout.decode() + ran.stderr.decode()


def is_program(pid: int, name: str) -> bool:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().startswith(name.encode())
    except OSError:
        return False


def test_each_value_is_one_word_whatever_stands_in_it() -> None:
    """E10"""
    words: tuple[Word, ...] = (
        "git", "log", "--max-count={/count}", Flag("/all", "--all"), "of={/out}", NoOption("{/rev}"), "--", "{/path}",
        Each("/more"),
    )  # fmt: skip
    args = {"count": 5, "all": True, "out": "a b; rm -rf $HOME", "rev": "main", "path": "--help", "more": ["$(id)", "-x"]}
    made = ["git", "log", "--max-count=5", "--all", "of=a b; rm -rf $HOME", "main", "--", "--help", "$(id)", "-x"]
    assert line(*words, **args) == made
    assert line(*words, path=None, rev="x", all=False, more=[]) == ["git", "log", "x", "--"]
    assert line("echo", "--", "{@key}{/a}", a=True) == ["echo", "--", "k" * 64 + "true"]


@given(st.text())
def test_no_text_becomes_an_option_or_a_second_word(text: str) -> None:
    """E10"""
    words = ("tool", "--name={/value}", "--", "{/value}")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        with pytest.raises(ToolError, match="unsafe_argument"):
            line(*words, value=text)
    else:
        assert line(*words, value=text) == ["tool", f"--name={text}", "--", text]


@pytest.mark.parametrize(
    ("words", "says"),
    [((), "begins with the program"), (("{/tool}",), "begins with the program"), (("bash", "-c", "ls"), "runs what it is given"),
     (("/usr/bin/env", "ls"), "runs what it is given"), (("cat", "{/path}"), "could become an option"),
     (("tool", "-n{/n}"), "could become an option"), (("tool", "--{/name}=x"), "could become an option"),
     (("tool", "-{/x}"), "could become an option"), (("cat", Each("/paths")), "needs a --"),
     (("python3", "-c", "{/code}"), "write a program"), (("perl", "-e", Option("{/code}")), "write a program"),
     (("cat", "--", "{path}"), "brace"), (("cat", "--", "{@token}"), "names nothing")],
)  # fmt: skip
def test_a_line_by_which_a_model_could_say_more_than_values_is_refused(words: tuple[Word, ...], says: str) -> None:
    """C1, E10"""
    with pytest.raises(ConfigurationError, match=says):
        CommandLine(words)


def test_what_was_declared_may_be_an_option_and_a_dash_is_refused_where_there_is_no_end_of_options() -> None:
    """E10"""
    assert line("date", Option("{/form}"), form="--utc") == ["date", "--utc"]
    with pytest.raises(ToolError, match="unsafe_argument"):
        line("date", NoOption("{/form}"), form="--utc")
    for value in (["a"], {"a": 1}, "\0", "\ud800"):
        with pytest.raises(ToolError, match="unsafe_argument"):
            line("cat", "--", "{/path}", path=value)


async def test_what_it_prints_is_the_result(folder: Path) -> None:
    work = Sandbox(workspace=folder)
    assert await run("cat", "--", "{/path}", args={"path": "note.txt"}, sandbox=work) == "one\ntwo\n"
    assert await run("wc", "-l", stdin="/text", args={"text": "a\nb\nc\n"}) == "3\n"
    assert await run("printf", "%s", NoOption("{/json}"), args={"json": '{"a": 1}'}, output="json") == {"a": 1}
    with pytest.raises(ToolError, match="output_unreadable"):
        await run("printf", "x", output="json")


async def test_it_sees_nothing_of_the_machine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E10: no inherited environment, no other file, no network, no other process, no privilege."""
    secret = "hunter" + "2hunter2"
    monkeypatch.setenv("DATABASE_PASSWORD", secret)
    outside = folder.parent / "secret.txt"
    outside.write_text(secret)
    script = (
        f"env; cat {outside} /etc/passwd /etc/shadow /proc/1/environ; ls /home /root {Path.home()} {Path.cwd()};"
        " cat /proc/net/dev; grep CapEff /proc/self/status; id -u; ls -l /proc/self/fd; mount -t tmpfs none /tmp"
    )
    said = await shell(script, Sandbox(workspace=folder, environment={"LC_ALL": "C"}))
    assert secret not in said and "root:" not in said
    assert "LC_ALL=C" in said and "PWD=/work" in said
    assert "CapEff:\t0000000000000000" in said and "65534" in said
    assert "eth" not in said and " ens" not in said


async def test_it_sees_what_the_contract_names(folder: Path) -> None:
    """E10"""
    said = await shell(f"cat {folder}/note.txt; ls {folder.parent}; touch {folder}/x", Sandbox(reads=(folder,)))
    assert said.startswith("one\ntwo\nwork\n")
    assert "Read-only" in said


async def test_it_writes_nowhere_but_where_it_may(folder: Path) -> None:
    """E10"""
    script = (
        "for d in / /usr /usr/bin /bin /dev /dev/shm /proc /work; do touch $d/x 2>/dev/null && echo wrote $d; done;"
        " echo z > /tmp/x && cat /tmp/x"
    )
    assert await shell(script, Sandbox(workspace=folder)) == "z\n"
    assert await shell("touch /work/made && echo y", Sandbox(workspace=folder, writable=True)) == "y\n"
    assert (folder / "made").exists()
    assert await shell("ls /tmp") == ""


@pytest.mark.parametrize(
    ("limits", "script", "sign"),
    [({"memory_bytes": 64 * 2**20}, "head -c 200000000 /dev/zero | tail -c 199999999 | wc -c", "memory exhausted"),
     ({"open_files": 8}, "ulimit -n; exec 10</dev/null && echo open", "8\n"),
     ({"file_bytes": 1_000}, "head -c 2000 /dev/zero > /tmp/big; ls -l /tmp/big | cut -d' ' -f5", "1000"),
     ({"tmp_bytes": 8_192}, "head -c 20000 /dev/zero > /tmp/big || true", "No space left"),
     ({"processes": 4}, "for i in 1 2 3 4 5 6 7 8; do sleep 3 & done; echo all", "Cannot fork")],
)  # fmt: skip
async def test_its_limits_hold(folder: Path, limits: dict[str, int], script: str, sign: str) -> None:
    """E10"""
    said = await shell(script, Sandbox(**limits))
    assert sign in said
    assert "all" not in said and "open\n" not in said


async def test_what_uses_up_its_time_is_ended_and_tells_nothing_but_that(folder: Path) -> None:
    """E10, R5"""
    tool = CommandTool(("awk", Constant("BEGIN { while (1) x++ }")), sandbox=Sandbox(cpu_s=1))
    with pytest.raises(ToolError) as told:
        await tool({}, CONTEXT)
    assert told.value.reason in ("signal_24", "signal_9")
    assert (told.value.sentence, told.value.not_executed) == ("The command failed.", False)


async def test_what_speaks_without_end_is_ended(folder: Path) -> None:
    """R1"""
    with pytest.raises(ToolError, match="output_too_large"):
        await run("yes", "fourgates-mark-yes", output_bytes=10_000)
    assert processes_with("fourgates-mark-yes") == []


async def test_exit_codes_mean_what_the_contract_says(folder: Path) -> None:
    """R7, E6"""
    missing = Declared(reason="no_file", sentence="There is no such file.", kind=ToolErrorKind.INVALID, not_executed=True)
    tool = {"sandbox": Sandbox(workspace=folder), "exits": (Exit(code=1, means=None), Exit(code=2, means=missing))}
    assert await run("grep", "-e", "x", "--", "note.txt", **tool) == ""
    with pytest.raises(ToolError) as told:
        await run("grep", "-e", "x", "--", "none.txt", **tool)
    assert (told.value.reason, told.value.not_executed) == ("no_file", True)
    with pytest.raises(ToolError) as told:
        await run("ls", "--", "{/path}", args={"path": "/secret-place"})
    assert (told.value.reason, told.value.not_executed) == ("exit_2", False)
    assert "secret-place" not in told.value.sentence


TREE = (
    "trap '' TERM; (setsid sleep 1000.25 &) ; (trap '' TERM; while :; do sleep 1000.25; done) & "
    "nohup sleep 1000.25 >/dev/null 2>&1 & sleep 1000.25"
)
"""Grandchildren that left their parent, their session and their signals behind."""


@pytest.mark.parametrize("how", ["timeout", "stop", "gone"])
async def test_no_child_of_a_command_outlives_it(folder: Path, how: str) -> None:
    """E7: the whole process group, also what ignores SIGTERM or left its session."""
    mark, stop = "1000.25", asyncio.Event()
    (folder / "tree.sh").write_text(TREE)

    async def tree(args: Any, ctx: ToolContext) -> Any:
        return await run_sandboxed(Sandbox(workspace=folder), ["/bin/sh", "/work/tree.sh"], b"", 1_000)

    context = ToolContext("k", 0, 0, PRINCIPAL, stopping=Stopping())
    call = asyncio.create_task(invoke(tree, {}, context, timeout=0.8 if how == "timeout" else 60, stop=stop))
    await eventually(lambda: len(processes_with(mark)) >= 3, 10)
    if how == "stop":
        stop.set()
    if how == "gone":
        call.cancel()
    began = time.monotonic()
    with pytest.raises((Exception, asyncio.CancelledError)):
        await call
    assert time.monotonic() - began < 1.5
    await eventually(lambda: processes_with(mark) == [], 5)


async def test_what_listens_is_given_time_to_end(folder: Path) -> None:
    """E7: TERM comes before KILL."""
    (folder / "tidy.sh").write_text(
        "trap 'echo tidied > /work/tidied; exit 0' TERM; touch /work/ready; while :; do sleep 0.02; done"
    )
    sandbox = Sandbox(workspace=folder, writable=True)
    running = asyncio.create_task(run_sandboxed(sandbox, ["/bin/sh", "/work/tidy.sh"], b"", 1_000))
    await eventually(lambda: (folder / "ready").exists(), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: (folder / "tidied").exists(), 5)


async def test_a_killed_worker_takes_its_commands_with_it(folder: Path) -> None:
    """E7: kill -9 of the process that started it."""
    code = (
        "import asyncio\nfrom fourgates.tools.sandbox import Sandbox\nfrom fourgates.tools.processes import run_sandboxed\n"
        "asyncio.run(run_sandboxed(Sandbox(), ['/bin/sleep', '1000.75'], b'', 10))"
    )
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "services")}
    )
    await eventually(lambda: any(is_program(pid, "/bin/sleep") for pid in processes_with("1000.75")), 20)
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    await eventually(lambda: processes_with("1000.75") == [], 5)


async def test_it_starts_only_where_its_sandbox_is_proven(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E10: isolation is required; missing, nothing starts."""
    await CommandTool(("cat",)).start()
    with pytest.raises(ConfigurationError, match="not there inside"):
        await CommandTool(("/opt/none/such",)).start()
    with pytest.raises(ConfigurationError, match="does not exist"):
        await CommandTool(("cat",), sandbox=Sandbox(workspace=folder / "none")).start()
    open_ = Sandbox()
    object.__setattr__(open_, "wrapped", lambda argv, status: argv)
    with pytest.raises(ConfigurationError):
        await CommandTool(("cat",), sandbox=open_).start()
    monkeypatch.setattr("fourgates.tools.sandbox.PATH", str(folder))
    with pytest.raises(ConfigurationError, match="bwrap"):
        await start_tools(registered(CommandTool(("cat",))))


async def test_a_sandbox_that_cannot_be_built_has_run_nothing(folder: Path) -> None:
    """E6"""
    gone = folder / "gone"
    gone.mkdir()
    tool = CommandTool(("cat",), sandbox=Sandbox(workspace=gone))
    gone.rmdir()
    with pytest.raises(ToolError) as told:
        await tool({}, CONTEXT)
    assert (told.value.reason, told.value.kind, told.value.not_executed) == ("sandbox_unavailable", ToolErrorKind.TRANSIENT, True)
    with pytest.raises(ToolError, match="too_long"):
        await run("cat", "--", "{/path}", args={"path": "x" * 200_000})


class Args(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    path: str


def registered(run: CommandTool, **more: Any) -> Catalog:
    catalog = Catalog("commands")
    catalog.register(run, **{"name": "show", "description": "Shows.", "arguments": Args, "risk": "read", "timeout": 5, **more})
    return catalog


def test_a_contract_that_the_command_does_not_keep_is_refused() -> None:
    """C1"""
    with pytest.raises(ConfigurationError, match="no argument"):
        registered(CommandTool(("cat", "--", "{/file}")))
    with pytest.raises(ConfigurationError, match="not given @key"):
        registered(CommandTool(("tool", "--", "{/path}")), risk="write", honours_key=True)


def test_what_runs_and_within_which_walls_are_part_of_the_version() -> None:
    """B6"""
    line = ("cat", "--", "{/path}")
    tools = [
        CommandTool(line), CommandTool(("tac", "--", "{/path}")), CommandTool(("cat", "--", NoOption("{/path}"))),
        CommandTool(line, sandbox=Sandbox(reads=(Path("/srv"),))), CommandTool(line, sandbox=Sandbox(cpu_s=11)),
        CommandTool(line, stdin="/path"), CommandTool(line, output="json"), CommandTool(line, exits=(Exit(code=1, means=None),)),
    ]  # fmt: skip
    assert len({tool.version for run in tools for tool in registered(run)}) == len(tools)


def test_started_by_who_is_not_root_the_walls_are_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E10"""
    if os.geteuid() != 0:
        pytest.skip("every other test of this file shows it")
    monkeypatch.setattr(os, "geteuid", lambda: 65_534)
    script = (
        "id -u; wc -l < /proc/net/dev; touch /x /usr/x 2>/dev/null || echo held; grep CapEff /proc/self/status; unshare -U id;"
        " for i in 1 2 3 4 5 6 7 8; do sleep 3 & done; echo all"
    )
    told, tells = os.pipe()
    argv = Sandbox(processes=4).wrapped(["/bin/sh", "-c", script], tells)
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *argv]
    ran = subprocess.run(nobody, capture_output=True, text=True, timeout=30, check=False, pass_fds=(tells,))
    os.close(told)
    os.close(tells)
    for sign in ("65534\n3\nheld\nCapEff:\t0000000000000000\n", "Cannot fork", "No space left on device"):
        assert sign in ran.stdout + ran.stderr
    assert "all" not in ran.stdout


def test_on_the_workers_own_loop_it_is_the_same(folder: Path) -> None:
    """E7: uvloop closes pipes earlier than asyncio does."""

    async def all_of_it() -> None:
        for text in ("", "not read"):
            ran = await asyncio.gather(*(run_sandboxed(Sandbox(), ["true"], text.encode(), 10) for _ in range(8)))
            assert {one.exit_code for one in ran} == {0}
        assert await run("cat", stdin="/text", args={"text": "x" * 200_000}) == "x" * 200_000
        call = asyncio.create_task(run_sandboxed(Sandbox(), ["/bin/sleep", "1000.125"], b"", 10))
        await eventually(lambda: any(is_program(pid, "/bin/sleep") for pid in processes_with("1000.125")), 10)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(lambda: processes_with("1000.125") == [], 5)

    uvloop.run(all_of_it())
